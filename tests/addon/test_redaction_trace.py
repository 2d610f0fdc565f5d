"""What the log says of redactions: each once, and never content."""

import logging

import pytest

from addon.metrics.redaction_trace import RedactionTrace
from masking.redaction import Redactions
from tests.builders import IMAGE, SECRET, assistant, call, parts, result, unanswered
from tests.masking.test_redaction import ANSWER, SYSTEM, decide, streamed


def trace(*requests: Redactions) -> list[tuple[int, str]]:
    """Return what is logged for these requests, except at debug level."""
    logged: list[tuple[int, str]] = []
    traced = RedactionTrace(lambda level, line: logged.append((level, line)))
    for redactions in requests:
        traced.log(redactions)
    return logged


def test_a_trace_tells_everything_but_content() -> None:
    assert trace(decide([SYSTEM, *streamed(content=SECRET * 9), ANSWER])) == [
        (
            logging.INFO,
            'redacted {"tool_call_id": "a", "tool": "stream", "position": 2, "scenario": 1, '
            f'"reason": "redacted", "chars_before": 54, "chars_after": {len("<a|stream|54>")}}}',
        )
    ]


@pytest.mark.parametrize(
    "content", [SECRET, parts(SECRET, SECRET), None, [*parts(SECRET), IMAGE], [IMAGE]]
)
@pytest.mark.parametrize("later", [[], [ANSWER], [{"role": SECRET}], [SECRET], unanswered()])
@pytest.mark.parametrize("call_id", ["a", None])
def test_neither_trace_nor_warning_holds_content(
    content: object, later: list[object], call_id: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    messages = [assistant(call(call_id, "stream")), result(call_id, content), *later]
    with caplog.at_level(logging.DEBUG, "observation_masking"):
        assert SECRET not in str(trace(decide(messages)))
    assert SECRET not in caplog.text


@pytest.mark.parametrize(
    ("later", "expected"),
    [
        ([ANSWER], []),
        ([None], ["messages[2] has no known role and counts as an answer (1 in all)"]),
        ([ANSWER, {}, 3], ["messages[3] has no known role and counts as an answer (2 in all)"]),
    ],
    ids=["none", "one", "several"],
)
def test_one_warning_about_malformed_messages(later: list[object], expected: list[str]) -> None:
    logged = trace(decide([*streamed(), *later]))
    assert expected == [line for level, line in logged if level == logging.WARNING]

"""Chapter 17: what no log, record or page may hold: content, arguments, credentials.

Ids, tool names, sizes, counts, model, host and path may. The page and Prometheus show records and
nothing else (`tests/page`). Two places hold content because a user asked for it: the
recall folder, and the client's own body in a flow that `-w` keeps.
"""

import json
import logging
from pathlib import Path

import pytest

from tests.spec.conftest import CONFIG, Addon
from tests.spec.talk import CHAT, IN_FORMATS_WITH_A_PATH, OUTPUT
from tests.support.record_lines import fill
from tests.support.wire_conversations import Ask, Give, Model, Tools, User, Writer, turn

HEADERS = {
    "authorization": "Bearer sk-key-hunter2",
    "x-api-key": "sk-key-hunter2",
    "api-key": "sk-key-hunter2",
    "x-goog-api-key": "sk-key-hunter2",
    "cookie": "session=cookie-hunter2",
    "user-agent": "agent/1.0",
}
QUERY = "?key=query-hunter2"
ANSWER = b'{"choices": [{"message": {"content": "answer-hunter2"}}], "usage": {"prompt_tokens": 9}}'
ALL = f"""{CONFIG}bound_reasoning = "drop"
[observation_masking.redaction]
enabled = true
tool_names = ["read"]
[observation_masking.reduction]
enabled = true
max_input_chars = 3000
[observation_masking.memory]
enabled = true
"""
"""All strategies at once, so that each has something to tell."""


def read_all(folder: Path) -> dict[str, bytes]:
    """Return what the addon has written, by its file."""
    files = [path for path in (folder / "state").rglob("*") if path.is_file()]
    return {path.name: path.read_bytes() for path in files if path.stat().st_size}


def find_secrets(addon: Addon, caplog: pytest.LogCaptureFixture, *more: str) -> list[str]:
    """Return where anything secret stands; nothing that was said may be repeated.

    more: files that are there, beside those that always are.
    """
    places = read_all(addon.folder) | {"the log": caplog.text.encode()}
    assert {"requests.jsonl", "memory.sqlite3", "the log", *more} == places.keys()
    return [place for place, data in places.items() if b"hunter2" in data]


@IN_FORMATS_WITH_A_PATH
def test_no_secret_stands_in_a_record_in_the_memory_or_in_a_log_line(
    addon: Addon, writer: Writer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "observation_masking")
    argument = {"path": "argument-hunter2"}
    said = (
        User("user-said-hunter2"),
        Model((Ask("a", "read", argument),), "model-said-hunter2", "model-said-hunter2"),
        Tools((Give("a", f"result-hunter2 {OUTPUT}", "read"),)),
        Model((Ask("b", "shell", argument),)),
        Tools((Give("b", f"result-hunter2 {OUTPUT}"),)),
        *turn("c", f"Error: result-hunter2 {OUTPUT}"),
        *turn("d", f"result-hunter2 {OUTPUT}"),
        Model(text="model-said-hunter2"),
        *turn("e", f"result-hunter2 {OUTPUT}"),
    )
    addon.start(ALL)
    for told in (writer.tell(*said), writer.tell(*said, Model(text="hunter2"), User("hunter2"))):
        path = writer.path + QUERY
        request = addon.pass_on(told.body, path, headers=HEADERS, answer=ANSWER)
        assert request.raw_content != told.body
    addon.stop()
    assert [] == find_secrets(addon, caplog, "history.sqlite3")


@pytest.mark.parametrize(
    ("body", "more"),
    [
        pytest.param(b"hunter2", (), id="no JSON"),
        pytest.param(b'{"messages": "hunter2"}', (), id="no list"),
        pytest.param(b'{"hunter2": {"hunter2": 1}', (), id="half a JSON"),
        pytest.param(b'["hunter2"]', (), id="no object"),
        pytest.param(
            b'{"messages": [{"hunter2": "hunter2"}]}', ("history.sqlite3",), id="no messages"
        ),
    ],
)
def test_a_body_that_cannot_be_read_leaves_no_secret_either(
    addon: Addon, caplog: pytest.LogCaptureFixture, body: bytes, more: tuple[str, ...]
) -> None:
    caplog.set_level(logging.DEBUG, "observation_masking")
    addon.start(ALL)
    assert body == addon.pass_on(body, headers=HEADERS, answer=ANSWER).raw_content
    addon.stop()
    assert [] == find_secrets(addon, caplog, *more)


def test_a_redaction_is_told_once_and_traced_at_debug_level_without_content(
    addon: Addon, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "observation_masking")
    addon.start(ALL)
    told = CHAT.tell(User(), *turn("call_7", OUTPUT, "read"), Model(text="Done."))
    for _ in range(3):
        addon.pass_on(told.body)
        told = told.then(User(), Model(text="Yes."))
    addon.stop()
    told_of = {
        "tool_call_id": "call_7",
        "tool": "read",
        "position": 2,
        "scenario": 1,
        "reason": "redacted",
        "chars_before": 600,
        "chars_after": len("[read: 600 chars masked]"),
    }
    lines = [(record.levelname, record.message) for record in caplog.records]
    traced = [line for line in lines if json.dumps(told_of) in line[1]]
    assert [("INFO", "redacted"), ("DEBUG", "redaction:"), ("DEBUG", "redaction:")] == [
        (level, message.split(" {")[0]) for level, message in traced
    ]


def test_a_record_says_who_what_and_how_much(addon: Addon) -> None:
    addon.start()
    told = CHAT.tell(User(), *turn("a", OUTPUT), *turn("b", OUTPUT), *turn("c", OUTPUT))
    addon.pass_on(told.body, CHAT.path + QUERY, headers=HEADERS, answer=ANSWER)
    addon.stop()
    record = fill(addon.read_records())
    expected = {
        "host": "api.example.org",
        "path": "/v1/chat/completions",
        "format": "chat",
        "client": "agent",
        "model": "gpt-4o",
        "masking": "on",
        "passed_through": None,
        "status": 200,
        "tool_turns": 3,
        "tool_results": 3,
        "masked": 2,
        "kept": {"in_window": 1},
    }
    assert expected == {name: record[name] for name in expected}
    assert record["request_tokens_before"] > record["request_tokens_after"] > 0


def test_a_request_is_one_line_in_the_log(addon: Addon, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    addon.start()
    addon.pass_on(CHAT.tell(User(), *turn("a", OUTPUT), *turn("b", OUTPUT)).body)
    addon.stop()
    lines = [line for line in caplog.messages if line.startswith("api.example.org ")]
    assert 1 == len(lines)
    assert "gpt-4o" in lines[0]

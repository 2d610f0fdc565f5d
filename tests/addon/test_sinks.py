"""Where a record goes: each sink gets each record, and one that fails costs the others nothing."""

import dataclasses
import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from addon.masker import Ledgers
from addon.metrics.advice import Advice
from addon.metrics.hold_warnings import HoldWarnings
from addon.metrics.log_line import render_line
from addon.metrics.make_record import make_record
from addon.metrics.record import RequestRecord
from addon.metrics.totals import Totals
from addon.records.recorder import Recorder
from addon.stages import Answered, Interruption, Measured, Priced, Received, Rewritten, Run
from addon.threads import LoopLog
from masking.accounting.ledger import Ledger, Sent
from masking.accounting.prompt import measure, read_prompt
from masking.config import MetricsSettings, Settings
from masking.prices import Pricing
from masking.redaction import RedactionPolicy
from masking.rewrite import Strategies, read_request, rewrite_request
from masking.tokens import TokenCounter
from masking.window import BoundaryPrices, MaskPolicy
from masking.wire.chat import CHAT
from masking.wire.usage import Usage
from tests.builders import MASK_ALL
from tests.live.harness import conversation, encoded

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def metrics(tmp_path: Path) -> Iterator[Recorder]:
    metrics = Recorder(Ledgers(), LoopLog())
    metrics.configure(MetricsSettings(path=str(tmp_path / "requests.jsonl")), Advice())
    yield metrics
    metrics.close()


def rewritten(**changes: object) -> Rewritten:
    received = Received(
        time=datetime(2026, 1, 1, tzinfo=UTC), run=Run("5eed0001"), host="h", path="/p", wire=CHAT,
        purpose="answer", client=None, subscription=False, account=b"",
        settings=Settings(), replay=False, answers_masked=True,
    )  # fmt: skip
    return Rewritten(received=received, bytes_before=10, bytes_after=10, **changes)  # type: ignore[arg-type]


def priced(model: str | None) -> Priced:
    return Priced(
        model=model, stream=False, seed=b"", pricing=Pricing(0.1, 1.0),
        prices=BoundaryPrices(0.1, 1.0), lifetime=300.0,
    )  # fmt: skip


def test_each_sink_gets_each_record_and_one_that_fails_is_a_warning(
    metrics: Recorder, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    got: list[RequestRecord] = []

    def fail(record: RequestRecord) -> None:
        raise ValueError("s3cr3t")

    metrics.sinks[:0] = [fail]
    metrics.sinks.append(got.append)
    for status in (200, 500):
        metrics.finish(Answered(rewritten=rewritten(), status=status))
    metrics.close()
    assert [record.status for record in got] == [200, 500]
    assert len((tmp_path / "requests.jsonl").read_text().splitlines()) == 2
    assert str(metrics.totals).startswith("2 requests: 2 with masking on (1 failed)")
    assert caplog.messages == ["could not record a request (ValueError)"] * 2


def test_what_comes_after_the_end_is_not_recorded(metrics: Recorder) -> None:
    metrics.close()
    metrics.finish(Answered(rewritten=rewritten(), status=200))
    metrics.close()
    assert str(metrics.totals).startswith("0 requests")


def test_a_ledger_that_fails_costs_the_record_alone(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Ledgers):
        def enter(self, answered: Answered) -> None:
            raise ZeroDivisionError

    metrics = Recorder(Broken(), LoopLog())
    metrics.finish(Answered(rewritten=rewritten()))
    metrics.close()
    assert caplog.messages == ["could not record a request (ZeroDivisionError)"]


@pytest.mark.parametrize(
    ("size", "expected"), [(10, True), (16_000_000, False)], ids=["a few wait", "too many wait"]
)
def test_tokens_are_counted_as_long_as_not_too_much_waits(
    metrics: Recorder, size: int, expected: bool
) -> None:
    body = encoded(conversation())
    rewrite = rewrite_request(read_request(body), Settings().strategies)
    got: list[RequestRecord] = []
    metrics.sinks.append(got.append)
    metrics.measure(rewrite, bytes(size))
    measuring = metrics.measure(rewrite, body)
    metrics.finish(Answered(rewritten=rewritten(priced=priced("gpt-4o"))), measuring)
    metrics.close()
    assert [record.tool_results for record in got] == [5]
    assert [record.request_tokens_before is not None for record in got] == [expected]
    assert [record.tokenizer_exact for record in got] == [True if expected else None]


@pytest.mark.parametrize(
    ("window", "prompt", "observed", "expected"),
    [
        pytest.param(None, None, False, (None, None), id="the window is not known"),
        pytest.param(1_000_000, None, False, (1_000_000, True), id="it fits"),
        pytest.param(1_000, None, False, (1_000, False), id="by o200k it does not"),
        pytest.param(1_000, 10, False, (1_000, True), id="the provider counts less"),
        pytest.param(1_000, 10, True, (1_000, True), id="observed: what it counts is all of it"),
        pytest.param(20_000, 40_000, False, (20_000, False), id="the provider counts more"),
    ],
)
def test_a_record_says_whether_the_request_would_fit_unmasked(
    window: int | None, prompt: int | None, observed: bool, expected: tuple[int | None, bool | None]
) -> None:
    body = encoded(conversation())
    rewrite = rewrite_request(read_request(body), Strategies(schema1=MASK_ALL))
    counter = TokenCounter()
    read = read_prompt(rewrite, counter)
    pricing = Pricing(0.1, 1.0, window=window)
    stage = rewritten(priced=dataclasses.replace(priced("m"), pricing=pricing), observed=observed)
    answered = [
        make_record(
            Answered(
                rewritten=stage,
                measured=Measured(sizes=sizes, conversation_id="", prompt=read),
                usage=Usage(prompt=prompt),
            ),
            None,
        )
        for sizes in (measure(rewrite, body, read), measure(rewrite, body))
    ]
    found = [(record.model_window_tokens, record.fits_unmasked) for record in answered]
    assert [expected, (window, None)] == found  # the second was not counted


@pytest.mark.parametrize(
    ("status", "error", "expected"),
    [
        (200, None, True),
        (200, "client left", True),
        (200, "proxy ended", False),
        (200, "provider failed", False),
        (400, None, False),
        (None, "client left", False),
    ],
)
def test_a_provider_takes_a_request_that_it_answers(
    status: int | None, error: Interruption | None, expected: bool
) -> None:
    answered = Answered(rewritten=rewritten(), status=status, error=error)
    assert answered.was_taken is expected


@pytest.mark.parametrize(
    ("status", "seconds", "expected"),
    [
        pytest.param(200, 1.23456, 1.235, id="an answer"),
        pytest.param(None, 1.0, 1.0, id="one without a status"),
        pytest.param(429, 1.0, None, id="a refusal"),
        pytest.param(200, None, None, id="no stream"),
    ],
)
def test_a_record_tells_when_a_streamed_answer_began(
    status: int | None, seconds: float | None, expected: float | None
) -> None:
    answered = Answered(rewritten=rewritten(), status=status, first_chunk_seconds=seconds)
    assert make_record(answered, None).first_chunk_seconds == expected


@pytest.mark.parametrize(
    ("masked_before", "expected"),
    [
        pytest.param(frozenset({0, 1}), 2, id="all that is repeated was masked"),
        pytest.param(frozenset({0}), 1, id="one of two was seen"),
        pytest.param(None, 0, id="the request before is not known"),
    ],
)
def test_a_record_counts_calls_that_repeat_what_was_masked(
    masked_before: frozenset[int] | None, expected: int
) -> None:
    body = encoded(conversation())
    rewrite = rewrite_request(read_request(body), Strategies(schema1=MASK_ALL))
    counter = TokenCounter()
    prompt = read_prompt(rewrite, counter)
    repeated = ((0,), (0, 1))
    measured = Measured(
        sizes=measure(rewrite, body), conversation_id="", prompt=prompt, repeated=repeated
    )
    answered = Answered(rewritten=rewritten(), measured=measured)
    sent = Sent(
        seed=b"", prompt=prompt, masked=rewrite.masked, usage=None, when=NOON, is_masked=True
    )
    entry = Ledger().enter(sent, Pricing(0.1, 1.0))
    known = dataclasses.replace(entry, masked_before=masked_before)
    assert expected == make_record(answered, known).rereads
    assert make_record(answered, None).rereads is None


# What is said of a boundary that is held


def held(conversation: int = 3, /, **fields: object) -> RequestRecord:
    return RequestRecord.model_validate(
        {"time": "2026-01-01", "host": "llm.example", "path": "/p", "masking": "on"}
        | {"conversation": conversation, "boundary_held": True, "prompt_tokens": 9_000}
        | {"cached_tokens": 100, **fields}
    )


def test_a_held_boundary_is_logged_once_for_each_conversation() -> None:
    warnings = HoldWarnings()
    records = [
        held(boundary_held=False),
        held(),
        held(),
        held(4),
        held(),
        held(4),
        held(replay=True),
    ]
    assert [len(warnings.find(record, Advice())) for record in records] == [0, 1, 0, 1, 0, 0, 1]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({"cached_tokens": 100}, False, id="some are cached"),
        pytest.param({"cached_tokens": 0}, True, id="none is cached"),
        pytest.param({"cached_tokens": None}, True, id="none is reported"),
        pytest.param({"cached_tokens": None, "prompt_tokens": None}, False, id="no usage at all"),
    ],
)
def test_the_setting_is_named_where_nothing_is_cached(
    fields: dict[str, object], expected: bool
) -> None:
    (warning,) = HoldWarnings().find(held(**fields), Advice())
    assert warning.startswith("llm.example no longer caches what conversation 3 sends since its")
    assert ("obsmask config add hosts.uncached=llm.example" in warning) is expected


# The log line


def test_the_log_line_names_the_label() -> None:
    record = RequestRecord.model_validate(
        {"time": "2026-01-01", "host": "h", "path": "/p", "masking": "on", "label": "a team"}
        | {"passed_through": "signed"}
    )
    assert render_line(record) == "[a team] h ?: passed through untouched, signed"


def test_the_log_line_tells_of_a_request_that_was_left_whole() -> None:
    record = RequestRecord(
        time="", host="h", path="/p", masking="on", tool_results=9, masked=0, kept={"summary": 9}
    )
    assert (
        render_line(record) == "h ?: masked 0 of 9 tool results, left whole for a summary, 0.0 ms"
    )


def test_the_log_line_tells_of_masked_images() -> None:
    record = RequestRecord.model_validate(
        {"time": "2026-01-01", "host": "h", "path": "/p", "masking": "on", "tool_results": 9}
        | {"masked": 4, "masked_images": 3}
    )
    assert render_line(record) == "h ?: masked 4 of 9 tool results, 3 images in them, 0.0 ms"


# The totals


def count(*records: dict[str, object]) -> str:
    totals = Totals()
    for fields in records:
        least = {"time": "2026-01-01", "host": "h", "path": "/p", "masking": "on"}
        totals.add(RequestRecord.model_validate({**least, **fields}))
    return str(totals)


MEASURED: dict[str, object] = {
    "masked": 2, "redacted": 1, "reduction_stage": "masking",
    "request_tokens_before": 100, "request_tokens_after": 50,
}  # fmt: skip


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        pytest.param(
            [{}, {"masking": "off", "status": 500}],
            "2 requests: 1 with masking on (0 failed), 1 with masking off (1 failed); "
            "0 results masked, 0 tokens",
            id="failures by whether masking is on",
        ),
        pytest.param(
            [MEASURED, MEASURED | {"masking": "observed", "conversation": 1}],
            "2 requests: 1 with masking on (0 failed), 1 with masking observed (0 failed); "
            "2 results masked, 200 -> 150 tokens (-25%); 1 results redacted; 1 reduced by masking; "
            "observed: masking would have left out 50 of 100 tokens (-50%)",
            id="what was only observed is not what was done",
        ),
        pytest.param(
            [MEASURED, MEASURED],
            "2 requests: 2 with masking on (0 failed); 4 results masked, 200 -> 100 tokens (-50%); "
            "2 results redacted; 2 reduced by masking",
            id="sums of what was measured",
        ),
        pytest.param(
            [{"masked": 2, "masked_images": 3}, {"masked_images": 1}],
            "2 requests: 2 with masking on (0 failed); 2 results masked, 0 tokens; "
            "4 images masked in them",
            id="images",
        ),
        pytest.param(
            [{"passed_through": "signed"}, {"passed_through": "signed"}, {"passed_through": "x"}],
            "3 requests: 3 with masking on (0 failed); 0 results masked, 0 tokens; "
            "passed through: 2 signed, 1 x",
            id="why requests passed through",
        ),
        pytest.param(
            [{"resent": "accepted"}, {"resent": "refused"}, {}],
            "3 requests: 3 with masking on (0 failed); 0 results masked, 0 tokens; "
            "2 requests sent again whole after a 400 (1 accepted)",
            id="what was sent again",
        ),
        pytest.param(
            [{"masked": 1, "kept": {"bound": 2, "error": 1}}, {"kept": {"bound": 3}}],
            "2 requests: 2 with masking on (0 failed); 1 results masked, 0 tokens; "
            "5 results kept for bound reasoning",
            id="what reasoning is bound to",
        ),
        pytest.param(
            [
                {"conversation": 1, "total_net_tokens": 5.0, "boundary_held": True},
                {"conversation": 1, "total_net_tokens": 9.0, "boundary_held": True},
            ],
            "2 requests: 2 with masking on (0 failed); 0 results masked, 0 tokens; "
            "net +9 input tokens; 1 conversations with a held boundary",
            id="the last savings, and each held conversation once",
        ),
        pytest.param(
            [
                {"kept": {"summary": 9}},
                {"conversation_id": "a", "masked": 1, "fits_unmasked": False},
            ],
            "2 requests: 2 with masking on (0 failed); 1 results masked, 0 tokens; 1 request for a "
            "summary left whole; 1 conversation no longer fits its model without masking: switch "
            "it off only after the agent has made a summary (/compact)",
            id="a summary, and a conversation that needs masking",
        ),
        pytest.param(
            [{"replay": True, **MEASURED}],
            "1 replayed requests: 2 results masked, 100 -> 50 tokens (-50%); "
            "1 results redacted; 1 reduced by masking",
            id="replayed requests alone",
        ),
        pytest.param(
            [{}, {"replay": True}],
            "1 requests: 1 with masking on (0 failed); 0 results masked, 0 tokens; "
            "1 replayed requests: 0 results masked, 0 tokens",
            id="replayed requests apart from those that were sent",
        ),
    ],
)
def test_the_totals_tell(records: list[dict[str, object]], expected: str) -> None:
    assert count(*records) == expected


def test_redactions_are_traced(metrics: Recorder, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    request = conversation()
    request["messages"].append({"role": "assistant", "content": "So it is."})
    body = encoded(request)
    strategies = Strategies(
        schema1=MaskPolicy(), redaction=RedactionPolicy(True, ("shell",), "[cut]")
    )
    rewrite = rewrite_request(read_request(body), strategies)
    metrics.measure(rewrite, body)
    metrics.close()
    assert len([each for each in caplog.messages if each.startswith("redacted {")]) == 5

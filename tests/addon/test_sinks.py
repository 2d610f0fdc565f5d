"""Where a record goes: each sink gets each record, and one that fails costs the others nothing."""

import logging
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from addon.config_commands import Advice
from addon.records.build import make_record
from addon.records.file import SharedFile, read_records
from addon.records.record import RequestRecord
from addon.records.recorder import Recorder
from addon.records.words import render_totals
from addon.stages import Answered, Interruption
from addon.threads import LoopLog
from masking.accounting import Entry
from masking.config import MetricsSettings, Settings
from masking.redaction import RedactionPolicy
from masking.rewrite import Strategies, read_request
from masking.window import MaskPolicy
from tests.live.harness import conversation, encoded
from tests.support.made_up_requests import priced, rewritten
from tests.support.marks import as_one_test
from tests.support.priced import rewrite_request

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def metrics(tmp_path: Path) -> Iterator[Recorder]:
    metrics = Recorder(LoopLog())
    metrics.configure(MetricsSettings(path=str(tmp_path / "requests.jsonl")), Advice())
    yield metrics
    metrics.close()


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
    assert render_totals(metrics.totals).startswith("2 requests: 2 with masking on (1 failed)")
    assert caplog.messages == ["could not record a request (ValueError)"] * 2


def test_requests_become_records_soon_and_together(
    metrics: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written, go, handed_out = list[int](), threading.Event(), threading.Event()
    append = SharedFile.append

    def count(file: SharedFile, lines: bytes) -> list[str]:
        written.append(lines.count(b"\n"))
        handed_out.set()
        return append(file, lines)

    monkeypatch.setattr(SharedFile, "append", count)
    metrics._worker.submit(go.wait)  # until all three have ended
    for status in (200, 201, 202):
        metrics.finish(Answered(rewritten=rewritten(), status=status))
    go.set()
    assert handed_out.wait(30)
    metrics.finish(Answered(rewritten=rewritten(), status=203))
    metrics.settle().result()
    statuses = [r.status for r in read_records(tmp_path / "requests.jsonl")]
    assert ([200, 201, 202, 203], [3, 1]) == (statuses, written)


def test_a_request_that_cannot_be_recorded_costs_no_other(
    metrics: Recorder, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make(answered: Answered, entry: Entry | None) -> RequestRecord:
        if answered.status == 200:
            raise ValueError
        return make_record(answered, entry)

    monkeypatch.setattr("addon.records.recorder.make_record", make)
    for status in (200, 500):
        metrics.finish(Answered(rewritten=rewritten(), status=status))
    metrics.close()
    assert render_totals(metrics.totals).startswith("1 request: 1 with masking on (1 failed)")
    assert caplog.messages == ["could not record a request (ValueError)"]


def test_what_comes_after_the_end_is_not_recorded(metrics: Recorder) -> None:
    metrics.close()
    metrics.finish(Answered(rewritten=rewritten(), status=200))
    metrics.close()
    assert render_totals(metrics.totals).startswith("0 requests")


def test_a_ledger_that_fails_costs_the_record_alone(caplog: pytest.LogCaptureFixture) -> None:
    def enter(_: Answered) -> None:
        raise ZeroDivisionError

    metrics = Recorder(LoopLog())
    metrics.finish(Answered(rewritten=rewritten()), learn=enter)
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
    metrics.measure(rewrite, size)
    measuring = metrics.measure(rewrite, len(body))
    metrics.finish(Answered(rewritten=rewritten(priced=priced("gpt-4o"))), measuring)
    metrics.close()
    assert [record.tool_results for record in got] == [5]
    assert [record.request_tokens_before is not None for record in got] == [expected]


@as_one_test
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


def test_redactions_are_traced(metrics: Recorder, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    request = conversation()
    request["messages"].append({"role": "assistant", "content": "So it is."})
    body = encoded(request)
    strategies = Strategies(
        schema1=MaskPolicy(), redaction=RedactionPolicy(True, ("shell",), "[cut]")
    )
    rewrite = rewrite_request(read_request(body), strategies)
    metrics.measure(rewrite, len(body))
    metrics.close()
    assert len([each for each in caplog.messages if each.startswith("redacted {")]) == 5

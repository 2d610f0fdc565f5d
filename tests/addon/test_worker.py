"""The thread for records: what waits for it is bounded, and it keeps no process from ending."""

import asyncio
import gzip
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future

import pytest

from addon.records import recorder as metrics_module
from addon.records.record import RequestRecord
from addon.records.recorder import Recorder
from addon.records.words import render_totals
from addon.request import HeaderFields, PlainMessage
from addon.stages import Answered
from addon.threads import LoopLog, Worker
from masking.config import Settings
from masking.rewrite import Rewrite, read_request
from tests.live.harness import conversation, encoded
from tests.support.made_up_requests import rewritten
from tests.support.priced import rewrite_request

BODY = encoded(conversation())
MESSAGES = json.loads(BODY)["messages"]


def test_jobs_are_done_in_order_and_a_failure_costs_one_alone() -> None:
    worker, done = Worker("test"), []

    def fail() -> None:
        raise ValueError

    worker.submit(lambda: done.append(1))
    failed = worker.submit(fail)
    worker.submit(lambda: done.append(2))
    assert worker.close()
    assert ([1, 2], None) == (done, failed.result())


def test_a_job_that_nobody_waits_for_any_more_is_not_begun() -> None:
    worker, go = Worker("test"), threading.Event()
    worker.submit(go.wait)
    cancelled = worker.submit(lambda: 1)
    cancelled.cancel()
    last = worker.submit(lambda: 2)
    go.set()
    assert worker.close()
    assert (True, 2) == (cancelled.cancelled(), last.result())


@pytest.mark.parametrize("waits", [True, False], ids=["one waits", "none ever came"])
def test_a_closed_worker_takes_nothing(waits: bool) -> None:
    worker = Worker("test")
    if waits:
        worker.submit(lambda: 1)
    assert worker.close()
    assert worker.submit(lambda: 2).result() is None


HANGS = """
import threading
from addon.threads import Worker
worker, begun = Worker("test"), threading.Event()
def hang():
    begun.set()
    threading.Event().wait()
worker.submit(hang)
begun.wait()
worker.submit(lambda: print("never"))
print(worker.close(0.01))
"""


def test_a_job_that_hangs_keeps_no_process_from_ending() -> None:
    ended = subprocess.run([sys.executable, "-c", HANGS], capture_output=True, text=True)
    assert (0, "False\n", "") == (ended.returncode, ended.stdout, ended.stderr)


@pytest.fixture
def hanging(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[..., Recorder]]:
    """Metrics that do not get on, as with a disk that hangs."""
    go, made = threading.Event(), []

    def make() -> Recorder:
        metrics = Recorder(LoopLog())
        metrics.sinks[:] = [lambda _: go.wait(), metrics.totals.add]
        made.append(metrics)
        return metrics

    yield make
    go.set()
    for metrics in made:
        metrics.close()


def _rewrite() -> Rewrite:
    return rewrite_request(read_request(BODY), Settings().strategies)


def test_requests_beyond_a_number_leave_no_record(
    hanging: Callable[..., Recorder],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metrics_module, "_MAX_PENDING", 2)
    metrics = hanging()
    for _ in range(5):
        metrics.finish(Answered(rewritten=rewritten()))
    metrics.note({}, Settings(), rewritten().received.run)
    assert (4, "; dropped under load: 4 not recorded") == (metrics.lost, str(metrics.left_out))
    assert caplog.messages == [
        "requests come faster than they can be recorded: some leave no record"
    ]


def test_bodies_beyond_so_many_bytes_are_not_measured_nor_read(
    hanging: Callable[..., Recorder],
) -> None:
    metrics = hanging()
    metrics.finish(Answered(rewritten=rewritten()))
    first = metrics.measure(_rewrite(), 64_000_000)
    assert metrics.measure(_rewrite(), len(BODY)).result(0) is None
    metrics.finish(Answered(rewritten=rewritten()), first, answer=PlainMessage(b"{}"))
    metrics.finish(Answered(rewritten=rewritten()), first)
    expected = "; dropped under load: 1 not measured, 1 with an answer that is not read"
    assert expected == str(metrics.left_out)


@pytest.mark.parametrize(("most", "is_counted"), [(len(MESSAGES), True), (1, False)])
def test_the_tokens_of_a_very_long_list_are_not_counted(
    most: int, is_counted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics_module, "_MAX_COUNTED_ELEMENTS", most)
    metrics = Recorder(LoopLog())
    measured = metrics.measure(_rewrite(), len(BODY)).result()
    metrics.close()
    assert measured is not None
    assert (is_counted, len(MESSAGES)) == (measured.prompt is not None, measured.sizes.messages)
    assert metrics.left_out.count("tokens") == (not is_counted)


def test_what_is_done_makes_room(hanging: Callable[..., Recorder]) -> None:
    metrics = hanging()
    metrics.measure(_rewrite(), 64_000_000).result()
    assert metrics.measure(_rewrite(), len(BODY)).result() is not None


def test_a_request_is_measured_although_its_hook_is_cancelled(
    hanging: Callable[..., Recorder],
) -> None:
    metrics, records = hanging(), list[RequestRecord]()
    metrics.sinks[:] = [records.append]
    go = threading.Event()
    metrics._worker.submit(go.wait)
    measuring = metrics.measure(_rewrite(), len(BODY))

    async def give_up() -> None:
        waiting = asyncio.ensure_future(asyncio.wrap_future(measuring))
        waiting.cancel()
        await asyncio.wait([waiting])

    asyncio.run(give_up())
    metrics.finish(Answered(rewritten=rewritten()), measuring)
    go.set()
    metrics.settle().result()
    assert [len(MESSAGES)] == [record.messages for record in records]
    assert (0, 0) == (metrics._pending, metrics._pending_bytes)


def test_an_answer_that_is_a_bomb_is_recorded_without_its_usage(
    hanging: Callable[..., Recorder],
) -> None:
    metrics = hanging()
    metrics.sinks[:] = [metrics.totals.add]

    bomb = gzip.compress(b" " * 1_000_000) * 65
    answer = PlainMessage(bomb, HeaderFields([("content-encoding", "gzip")]))
    metrics.finish(Answered(rewritten=rewritten(), status=200), answer=answer)
    metrics.settle().result()
    assert "; dropped under load: 1 with an answer that is not read" == str(metrics.left_out)
    assert render_totals(metrics.totals).startswith("1 request: 1 with masking on (0 failed)")


def test_the_stop_has_an_end_and_says_what_it_left(
    hanging: Callable[..., Recorder],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metrics_module, "_STOP_SECONDS", 0.01)
    metrics = hanging()
    metrics.finish(Answered(rewritten=rewritten()))
    waiting: Future[str | None] = metrics.settle()
    metrics.finish(Answered(rewritten=rewritten()))
    metrics.close()
    assert caplog.messages == ["2 requests are not recorded: that took too long at the end"]
    assert not waiting.done()

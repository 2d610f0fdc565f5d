"""Work on large bodies: one turn for all of it, and a collector that rests meanwhile."""

import asyncio
import gc
import math
import threading
import time
import weakref
from collections.abc import Callable

import pytest

from addon import threads as module
from addon.records.recorder import Recorder
from addon.threads import (
    LARGE_BYTES,
    FairLock,
    LoopLog,
    Pool,
    Wait,
    _Measuring,
    check_turn,
    large_work,
)
from masking.config import Settings
from masking.rewrite import Rewrite, read_request
from masking.tokens import TokenCounter
from tests.support.priced import rewrite_request

BODY = b'{"messages": [{"role": "user", "content": "%b"}]}' % (b"a" * LARGE_BYTES)
SMALL = b'{"messages": [{"role": "user", "content": "hello"}]}'


class Circle:
    """Garbage that only the collector finds."""

    def __init__(self) -> None:
        self.own = self


def _run(job: Callable[[], object]) -> None:
    thread = threading.Thread(target=job)
    thread.start()
    thread.join()


def test_a_lock_is_had_in_the_order_in_which_it_was_asked_for() -> None:
    lock, log = FairLock(), list[int]()
    threads = []

    def take(number: int) -> None:
        with lock:
            log.append(number)

    with lock:
        for number in range(5):
            threads.append(threading.Thread(target=take, args=(number,)))
            threads[-1].start()
            while len(lock._waiting) <= number:
                time.sleep(0.001)
    for thread in threads:
        thread.join()
    with lock:
        log.append(5)
    assert [0, 1, 2, 3, 4, 5] == log


@pytest.mark.parametrize("is_last", [True, False])
def test_what_is_left_in_a_circle_is_found_afterwards(is_last: bool) -> None:
    states, refs = [], []

    def work() -> None:
        with large_work(0, is_last=is_last):
            states.append(gc.isenabled())
            refs.append(weakref.ref(Circle()))

    _run(work)
    assert ([False], [None], True) == (states, [ref() for ref in refs], gc.isenabled())


def test_a_host_that_does_without_the_collector_still_does() -> None:
    gc.disable()
    try:
        with large_work(0):
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("size", "is_last", "expected"),
    [
        pytest.param(module._PASS_BYTES, True, 2, id="all, after much work"),
        pytest.param(module._PASS_BYTES, False, 1, id="what is new, as the body is in use"),
        pytest.param(1, True, 1, id="what is new, after little work"),
    ],
)
def test_the_collector_looks_afterwards_at(
    size: int, is_last: bool, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_worked", 0)
    passes: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "stop" and gc.isenabled():
            passes.append(info["generation"])

    gc.callbacks.append(note)
    with large_work(size, is_last=is_last):
        pass
    gc.callbacks.remove(note)
    assert expected == max(passes)


def test_a_large_body_is_not_measured_while_another_is_masked() -> None:
    metrics, begun, go = Recorder(LoopLog()), threading.Event(), threading.Event()

    def mask() -> None:
        with large_work(0, is_last=False):
            begun.set()
            go.wait()

    masking = threading.Thread(target=mask)
    masking.start()
    begun.wait()
    measuring = metrics.measure(_rewrite(), len(BODY))
    measuring.add_done_callback(lambda _: None)
    metrics.settle()
    was_done = measuring.done()
    go.set()
    assert (False, 1) == (was_done, _count_messages(measuring.result()))
    masking.join()
    metrics.close()


@pytest.mark.parametrize(
    ("most", "waits", "is_counted"),
    [
        pytest.param(math.inf, True, True, id="all is counted while it may wait"),
        pytest.param(0.0, False, True, id="or while nobody does"),
        pytest.param(0.0, True, False, id="else tokens are not"),
    ],
)
def test_a_large_body_is_counted_as_long_as_no_request_has_to_wait_too_long(
    most: float, waits: bool, is_counted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST_MEASURING", most)
    metrics, wait = Recorder(LoopLog()), Wait()
    if not waits:
        wait.end()
    measured = metrics.measure(_rewrite(), len(BODY)).result()
    wait.end()
    metrics.close()
    assert measured is not None
    assert (1, is_counted) == (_count_messages(measured), measured.prompt is not None)
    expected = "" if is_counted else "; dropped under load: 1 whose tokens are not counted"
    assert expected == str(metrics.left_out)


def test_small_bodies_are_counted_whoever_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_MEASURING", 0.0)
    metrics, wait = Recorder(LoopLog()), Wait()
    measured = metrics.measure(_rewrite(SMALL), len(SMALL)).result()
    wait.end()
    metrics.close()
    assert measured is not None
    assert measured.prompt is not None


def test_a_request_waits_for_a_second_of_measuring_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [10.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    measuring, found = _Measuring(), list[bool]()

    def measure(seconds: float) -> None:
        with measuring.measure():
            now[0] += seconds
            found.append(measuring.is_overdue)
        found.append(measuring.is_overdue)

    measure(5.0)
    measuring.wait("first")
    measure(0.75)
    measuring.wait("second")
    measure(0.25)  # a second for the first one
    measuring.leave("first")
    measure(0.5)
    measure(0.25)  # and for the second one
    measuring.leave("second")
    measure(5.0)
    overdue = [at for at, is_overdue in enumerate(found) if is_overdue]
    assert [4, 8] == overdue


@pytest.mark.parametrize("is_cancelled", [False, True], ids=["has its turn", "is cancelled"])
def test_a_request_that_waits_ends_the_counting_of_another_and_waits_no_more(
    is_cancelled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST_MEASURING", 0.0)
    metrics, pool, begun, go = (
        Recorder(LoopLog()),
        Pool(),
        threading.Event(),
        threading.Event(),
    )

    def check() -> None:
        begun.set()
        go.wait()
        check_turn()

    metrics._counter = TokenCounter(check=check)
    measuring = metrics.measure(_rewrite(), len(BODY))
    measuring.add_done_callback(lambda _: None)
    begun.wait()

    async def mask() -> int | None:
        waiting = asyncio.create_task(pool.run(LARGE_BYTES, lambda: 7))
        await asyncio.sleep(0)
        if is_cancelled:
            waiting.cancel()
            await asyncio.wait([waiting])
        go.set()
        return None if is_cancelled else await waiting

    masked, measured = asyncio.run(mask()), measuring.result()
    pool.close()
    metrics.close()
    assert measured is not None
    assert (None if is_cancelled else 7, is_cancelled) == (masked, measured.prompt is not None)
    assert module._MEASURING._oldest is None


def test_what_was_measured_is_let_go_of() -> None:
    metrics, rewrite = Recorder(LoopLog()), _rewrite()
    ref = weakref.ref(rewrite.conversation.parsed[0])
    measuring = metrics.measure(rewrite, len(BODY))
    del rewrite
    assert measuring.result() is not None
    assert ref() is None
    metrics.close()


def test_work_begins_although_the_main_thread_is_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PATIENCE", 1e-8)
    done = threading.Event()

    def work() -> None:
        with large_work(LARGE_BYTES):
            done.set()

    thread = threading.Thread(target=work)
    thread.start()
    while not done.is_set():
        pass
    thread.join()


def test_the_main_thread_does_not_wait_for_itself() -> None:
    with large_work(LARGE_BYTES):
        assert not gc.isenabled()


def _rewrite(body: bytes = BODY) -> Rewrite:
    return rewrite_request(read_request(body), Settings().strategies)


def _count_messages(measured: object) -> int:
    return measured.sizes.messages  # type: ignore[attr-defined, no-any-return]

"""Work on large bodies: one turn for all of it, and a collector that rests meanwhile."""

import gc
import threading
import time
import weakref
from collections.abc import Callable

import pytest

from addon.metrics import large_work as module
from addon.metrics.large_work import LARGE_BYTES, FairLock, large_work
from addon.metrics.metrics import Metrics
from masking.config import Settings
from masking.rewrite import Rewrite, change_request, read_request

BODY = b'{"messages": [{"role": "user", "content": "%b"}]}' % (b"a" * LARGE_BYTES)


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
    metrics, begun, go = Metrics(lambda _: None), threading.Event(), threading.Event()

    def mask() -> None:
        with large_work(0, is_last=False):
            begun.set()
            go.wait()

    masking = threading.Thread(target=mask)
    masking.start()
    begun.wait()
    measuring = metrics.measure(_rewrite(), BODY)
    measuring.add_done_callback(lambda _: None)
    metrics.settle()
    was_done = measuring.done()
    go.set()
    assert (False, len(BODY)) == (was_done, _read_size(measuring.result()))
    masking.join()
    metrics.close()


def test_what_was_measured_is_let_go_of() -> None:
    metrics, rewrite = Metrics(lambda _: None), _rewrite()
    ref = weakref.ref(rewrite.conversation.known[0])
    measuring = metrics.measure(rewrite, BODY)
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


def _rewrite() -> Rewrite:
    return change_request(BODY, read_request(BODY), Settings().strategies)


def _read_size(measured: object) -> int:
    return measured.sizes.json_chars_before  # type: ignore[attr-defined, no-any-return]

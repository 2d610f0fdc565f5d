"""What makes a request wait, and what lets it pass untouched because of what it is."""

import asyncio
import gc
import threading
import weakref

from addon.threads import Pool

LARGE, SMALL = 2_000_000, 1_999_999


def test_large_bodies_wait_for_each_other_and_small_ones_do_not() -> None:
    pool, go = Pool(), threading.Event()
    log: list[str] = []

    def work(name: str, wait: bool = False) -> str:
        log.append(f"{name} begins")
        if wait:
            go.wait()
        log.append(f"{name} ends")
        return name

    async def run() -> list[str | None]:
        large = [
            asyncio.create_task(pool.run(LARGE, lambda: work("first", wait=True))),
            asyncio.create_task(pool.run(LARGE, lambda: work("second"))),
        ]
        await asyncio.sleep(0)
        small = await pool.run(SMALL, lambda: work("small"))
        go.set()
        return [small, *await asyncio.gather(*large)]

    assert ["small", "first", "second"] == asyncio.run(run())
    pool.close()
    assert ["first ends", "second begins", "second ends"] == log[-3:]


def test_who_is_gone_when_its_turn_comes_costs_nothing() -> None:
    pool, go, begun = Pool(), threading.Event(), []

    async def run() -> None:
        first = asyncio.create_task(pool.run(LARGE, go.wait))
        second = asyncio.create_task(pool.run(LARGE, lambda: begun.append(2)))
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.wait([second])
        go.set()
        await first
        await pool.run(LARGE, lambda: begun.append(3))

    asyncio.run(run())
    pool.close()
    assert [3] == begun


def test_after_the_end_of_a_run_nothing_is_worked_on() -> None:
    pool = Pool()
    pool.close()
    assert asyncio.run(pool.run(SMALL, lambda: 1)) is None


def test_work_is_not_done_in_the_threads_that_resolve_names() -> None:
    pool = Pool()
    name = asyncio.run(pool.run(SMALL, lambda: threading.current_thread().name))
    pool.close()
    assert "mask" == name


def test_the_collector_rests_while_a_large_body_is_worked_on() -> None:
    def fail() -> None:
        log.append(gc.isenabled())
        raise ValueError

    pool = Pool()
    log: list[bool] = []

    async def run() -> None:
        await pool.run(LARGE, fail)
        log.append(await pool.run(SMALL, gc.isenabled) or False)

    asyncio.run(run())
    pool.close()
    assert [False, True] == log


def test_what_is_left_in_a_circle_does_not_wait_for_the_collector() -> None:
    pool, dead = Pool(), []

    class Circle:
        def __init__(self) -> None:
            self.own = self

    def work() -> None:
        dead.append(weakref.ref(Circle()))

    asyncio.run(pool.run(LARGE, work))
    pool.close()
    assert [None] == [ref() for ref in dead]

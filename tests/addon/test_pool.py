"""What makes a request wait, and what lets it pass untouched because of what it is."""

import asyncio
import gc
import json
import threading
import weakref

import pytest

from addon.shared.extent import MAX_ELEMENTS, MAX_VALUES, check_elements, check_values
from addon.threads import Pool
from masking.errors import WireError
from masking.wire import FORMATS
from masking.wire.chat import CHAT
from masking.wire.gemini import GEMINI

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


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"," * MAX_VALUES, id="as many values as there may be"),
        pytest.param(b"a" * (MAX_VALUES + 10), id="a long text"),
        pytest.param(b'{"a": [1, 2]}', id="a short body"),
    ],
)
def test_a_body_of_so_many_values_is_looked_into(body: bytes) -> None:
    check_values(body)


@pytest.mark.parametrize("value", [b"{", b"[", b"1,"], ids=["objects", "lists", "numbers"])
def test_a_body_of_more_values_is_not_looked_into(value: bytes) -> None:
    with pytest.raises(WireError, match="more than 16,000,000 values"):
        check_values(value * (MAX_VALUES + 1))


def test_a_list_of_more_elements_is_not_looked_into() -> None:
    items = [""] * MAX_ELEMENTS
    check_elements({"messages": items}, CHAT)
    with pytest.raises(WireError, match="more than 1,000,000 elements"):
        check_elements({"messages": [*items, ""]}, CHAT)


def test_a_list_is_found_wherever_the_format_has_it() -> None:
    items = [""] * (MAX_ELEMENTS + 1)
    with pytest.raises(WireError):
        check_elements({"request": {"contents": items}}, GEMINI)


@pytest.mark.parametrize("odd", ["7", '{"messages": 7}', '{"request": [], "contents": {}}'])
def test_odd_documents_have_no_elements(odd: str) -> None:
    document = json.loads(odd)
    for wire in FORMATS:
        check_elements(document if isinstance(document, dict) else {}, wire)

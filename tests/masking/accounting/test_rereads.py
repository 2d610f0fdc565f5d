"""Calls that repeat one whose result was masked, counted while a conversation goes on."""

import pytest

from masking.accounting.rereads import Places, count_repeats, find_repeated
from masking.request_cache import RequestCache
from tests.support.builders import read
from tests.support.marks import as_one_test
from tests.support.wire_conversations import (
    IN_EVERY_FORMAT,
    IN_TWO_FORMATS,
    Ask,
    Give,
    Model,
    Step,
    Tools,
    User,
    Writer,
)

A, B, UNKNOWN = Ask("a", "read", {"path": "a.py"}), Ask("b", "read", {"path": "b.py"}), Ask("x")
AGAIN = Ask("c", "read", {"path": "a.py"})


def done(*asked: Ask) -> tuple[Step, Step]:
    """Return an answer with these calls, and their results."""
    return Model(asked), Tools(tuple(Give(ask.call_id, tool=ask.tool) for ask in asked))


@as_one_test
@IN_EVERY_FORMAT
@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        pytest.param([User()], (), id="no answer yet"),
        pytest.param([User(), *done(A)], (), id="the first call"),
        pytest.param([User(), *done(A), *done(B)], (), id="other arguments"),
        pytest.param(
            [User(), *done(A), *done(Ask("c", "cat", {"path": "a.py"}))], (), id="another tool"
        ),
        pytest.param([User(), *done(A), *done(B), *done(AGAIN)], ((0,),), id="the same call again"),
        pytest.param(
            [User(), *done(A), *done(AGAIN), *done(Ask("d", "read", {"path": "a.py"}))],
            ((0, 1),),
            id="once more",
        ),
        pytest.param([User(), *done(A), Model((AGAIN,))], ((0,),), id="without a result so far"),
        pytest.param([User(), *done(A), *done(AGAIN), User()], ((0,),), id="the user speaks after"),
        pytest.param(
            [User(), *done(A), *done(AGAIN), Model(text="Done."), User()],
            (),
            id="answered since, so counted before",
        ),
        pytest.param(
            [User(), *done(A, B), *done(AGAIN, UNKNOWN, Ask("d", "read", {"path": "b.py"}))],
            ((0,), (1,)),
            id="of several calls two",
        ),
        pytest.param([User(), *done(A, AGAIN)], (), id="in one answer"),
    ],
)
def test_the_newest_calls_that_repeat_earlier_ones(
    writer: Writer, steps: list[Step], expected: tuple[Places, ...]
) -> None:
    assert expected == find_repeated(writer.tell(*steps).read())


def test_a_result_that_no_call_asked_for_is_repeated_by_none() -> None:
    asked = {"role": "assistant", "tool_calls": [{"id": "b", "function": {}}]}
    assert () == find_repeated(read([{"role": "tool", "tool_call_id": "a", "content": "1"}, asked]))


@pytest.mark.parametrize(
    ("repeated", "expected"),
    [
        pytest.param((), 0, id="no call repeats any"),
        pytest.param(((0,), (1, 0)), 2, id="all earlier results were masked"),
        pytest.param(((0, 2), (3,)), 0, id="one of them was not"),
    ],
)
def test_a_reread_repeats_what_was_masked(repeated: tuple[Places, ...], expected: int) -> None:
    assert expected == count_repeats(repeated, frozenset({0, 1}))


def ask(number: int) -> Ask:
    """Return a call; every fifth is the same, and every seventh has long arguments."""
    path = "a.py" if number % 5 == 0 else f"{number}.py"
    content = "x" * 2_000 if number % 7 == 0 else ""
    return Ask(f"c_{number}", "read", {"path": path if not content else "b.py", "c": content})


@IN_TWO_FORMATS
def test_a_process_that_remembers_requests_finds_the_same(writer: Writer) -> None:
    table, found = RequestCache(), []
    for turns in range(1, 30):
        told = writer.tell(User(), *(step for n in range(turns) for step in done(ask(n))))
        cold, warm = (
            find_repeated(each.read(told.body, writer.wire, writer.path))
            for each in (RequestCache(0), table)
        )
        assert cold == warm
        found.append(warm)
    assert 5 < sum(map(bool, found)) < 20

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masking import ChatMessage
from masking.reduction import close_over_pairs, find_pairs, keeps_pairs
from masking.wire.chat import CHAT
from tests.support.builders import assistant, call, conversations, read, result, turn, unanswered
from tests.support.marks import as_one_test

USER: ChatMessage = {"role": "user", "content": "go on"}
TWO_CALLS = assistant(call("a"), call("b"))


class Case(NamedTuple):
    case: str
    messages: list[ChatMessage]
    pairs: dict[int, int]
    """By the position of a result, that of its call."""
    kept: set[int] = set()  # noqa: RUF012 - never changed
    closed: set[int] = set()  # noqa: RUF012


CASES = [
    Case("nothing", [], {}),
    Case("a pair, by its call", turn(), {1: 0}, {0}, {0, 1}),
    Case("a pair, by its result", turn(), {1: 0}, {1}, {0, 1}),
    Case("no pair", [USER, *turn()], {2: 1}, {0}, {0}),
    Case("parallel calls are one pair, by one result", [TWO_CALLS, result("b"), result("a")],
         {1: 0, 2: 0}, {2}, {0, 1, 2}),
    Case("a late result", [*unanswered(), USER, result("later_0")], {2: 0}, {2}, {0, 2}),
    Case("an unanswered call stands alone", [*turn(), *unanswered()], {1: 0}, {2}, {2}),
    Case("an orphan stands alone", [*turn(), result("b")], {1: 0}, {2}, {2}),
    Case("a result without an id stands alone", [*turn(), result(None)], {1: 0}, {2}, {2}),
    Case("a re-used id: the nearest earlier turn", [*turn("a"), *turn("a")], {1: 0, 3: 2},
         {3}, {2, 3}),
    Case("a re-used id, both results late", [*turn("a"), *turn("a"), result("a")],
         {1: 0, 3: 2, 4: 2}, {4}, {2, 3, 4}),
    Case("a re-used id that the first turn did not see answered",
         [assistant(call("a")), *turn("a")], {2: 1}, {0}, {0}),
    Case("a result before its call: the first later turn",
         [result("a"), USER, *turn("a"), *turn("a")], {0: 2, 3: 2, 5: 4}, {0}, {0, 2, 3}),
    Case("several pairs at once", [*turn("a"), USER, *turn("b"), *turn("c")], {1: 0, 4: 3, 6: 5},
         {1, 5}, {0, 1, 5, 6}),
    Case("what is no object", [None, *turn(), 7], {2: 1}, {0, 3}, {0, 3}),  # type: ignore[list-item]
]  # fmt: skip


@as_one_test
@pytest.mark.parametrize("given", CASES, ids=lambda given: given.case)
def test_pairs(given: Case) -> None:
    assert given.pairs == _find(given.messages)
    assert given.closed == close_over_pairs(
        given.kept, {result: frozenset({call}) for result, call in given.pairs.items()}
    )


def _find(messages: list[ChatMessage]) -> dict[int, int]:
    return {result: only for result, (only,) in _find_sets(messages).items()}


def _find_sets(messages: list[ChatMessage]) -> dict[int, frozenset[int]]:
    conversation = read(messages)
    return find_pairs(conversation.elements, conversation.results, CHAT)


class Check(NamedTuple):
    case: str
    before: list[ChatMessage]
    origins: list[int | None]
    expected: bool


CHECKS = [
    Check("all of it", [USER, *turn()], [0, 1, 2], True),
    Check("nothing", [USER, *turn()], [], True),
    Check("a whole pair gone", [USER, *turn()], [0], True),
    Check("a summary in its place", [USER, *turn()], [None, 0], True),
    Check("a call without its result", [USER, *turn()], [0, 1], False),
    Check("a result without its call", [USER, *turn()], [0, 2], False),
    Check("one of two results gone", [TWO_CALLS, result("a"), result("b")], [0, 1], False),
    Check("a call that had no result", [*turn(), *unanswered()], [2], True),
    Check("an orphan that was one", [*turn(), result("b")], [2], True),
    Check("a result that comes to another call of its id",
          [*turn("a"), assistant(call("a")), result("a")], [0, 3], False),
    Check("an unanswered call that gets another's result",
          [assistant(call("a")), assistant(call("a")), result("a")], [0, 2], False),
]  # fmt: skip


@as_one_test
@pytest.mark.parametrize("given", CHECKS, ids=lambda given: given.case)
def test_a_reduction_keeps_pairs(given: Check) -> None:
    after = [USER if at is None else given.before[at] for at in given.origins]
    pairs = _find_sets(given.before)
    assert given.expected == keeps_pairs(pairs, read(after).elements, given.origins, CHAT)


@given(conversations(), st.sets(st.integers(0, 30)))
def test_whatever_is_closed_over_keeps_its_pairs(
    messages: list[ChatMessage], wanted: set[int]
) -> None:
    elements, pairs = read(messages).elements, _find_sets(messages)
    closed = close_over_pairs(wanted & set(range(len(messages))), pairs)
    assert closed == close_over_pairs(closed, pairs)
    origins = sorted(closed)
    assert keeps_pairs(pairs, [elements[at] for at in origins], origins, CHAT)

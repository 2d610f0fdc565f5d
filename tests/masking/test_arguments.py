"""A call's arguments on one short line."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masking.window.placeholder import MAX_ARGUMENTS_CHARS, render_arguments
from tests.support.marks import as_one_test


class Spelled(NamedTuple):
    case: str
    arguments: object
    expected: str
    max_chars: int = 40


SPELLED = [
    Spelled("a JSON text stays", '{"path": "a.py"}', '{"path": "a.py"}'),
    Spelled("an object is spelled as JSON", {"path": "a.py", "n": [1, 2.5]},
            '{"path": "a.py", "n": [1, 2.5]}'),
    Spelled("true, false, null", [True, False, None], "[true, false, null]"),
    Spelled("empty values within", {"a": {}, "b": [], "c": ""}, '{"a": {}, "b": [], "c": ""}'),
    Spelled("letters stay", {"Straße": "😀"}, '{"Straße": "😀"}'),
    Spelled("a text that is no JSON", "*** Begin Patch\n*** Add File: a\n",
            "*** Begin Patch *** Add File: a"),
    Spelled("nothing is known", None, "{}"),
    Spelled("an empty text", "", "{}"),
    Spelled("blanks", " \n\t ", "{}"),
    Spelled("an empty object", {}, "{}"),
    Spelled("an empty list", [], "[]"),
    Spelled("a long text", "x" * 41, "x" * 37 + "..."),
    Spelled("a text that just fits", "x" * 40, "x" * 40),
    Spelled("a long text in an object", {"a": "x" * 99}, '{"a": "' + "x" * 30 + "..."),
    Spelled("cut between two members", {"a": "y" * 31, "b": 5000}, '{"a": "' + "y" * 30 + "..."),
    Spelled("blanks that shrink, and a member behind them", {"a": " " * 99, "b": 1},
            '{"a": " ", "b": 1}'),
    Spelled("more blanks than are looked at", {"a": " " * 999, "b": 1}, '{"a": "...'),
    Spelled("a long key", {"x" * 99: 1}, '{"' + "x" * 35 + "..."),
    Spelled("a break in a decoded text stays an escape", {"a": "1\n2"}, '{"a": "1\\n2"}'),
    Spelled("indents shrink", '{\n    "a":  1,\r\n\t"b": 2\n}', '{ "a": 1, "b": 2 }'),
    Spelled("far more blanks than are looked at", "a" + " " * 999 + "b", "a..."),
    Spelled("other line ends", "a\u2028b\x85c\x0bd", "a b c d"),
    Spelled("control characters", "a\x00b\x1b[0mc\x7fd", "a\ufffdb\ufffd[0mc\ufffdd"),
    Spelled("marks of direction", {"a": "x\u202ey"}, '{"a": "x\ufffdy"}'),
    Spelled("half a surrogate pair", "a\ud800b", "a\ufffdb"),
    Spelled("room for nothing", {"a": 1}, "{}", 0),
    Spelled("room for less than the dots", {"a": 1}, '{"', 2),
    Spelled("too deep to follow", [[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]],
            "[" * 20 + "..." + "]" * 20, 60),
    Spelled("what JSON does not have", {"a": object()}, '{"a": ...}'),
]  # fmt: skip


@as_one_test
@pytest.mark.parametrize("given", SPELLED, ids=lambda given: given.case)
def test_spells_them_on_one_line(given: Spelled) -> None:
    assert given.expected == render_arguments(given.arguments, given.max_chars)


class Counted(list[Any]):
    """A list that counts how many of its items were looked at."""

    looked_at = 0

    def __iter__(self) -> Iterator[Any]:
        for item in super().__iter__():
            self.looked_at += 1
            yield item


def test_looks_at_no_more_than_it_shows() -> None:
    """Any number of results may answer one call, so that this would be quadratic."""
    items = Counted([0] * 100_000)
    assert "[0, 0, 0..." == render_arguments(items, 11)
    assert items.looked_at <= 11


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(_VALUES, st.integers(0, MAX_ARGUMENTS_CHARS))
def test_is_always_short_and_one_line(arguments: object, max_chars: int) -> None:
    line = render_arguments(arguments, max_chars)
    assert len(line) <= max(2, max_chars)
    assert line.isprintable()
    assert line

"""Which call a result answers where a format has no ids, or a client drops them."""

from collections.abc import Sequence
from typing import NamedTuple

import pytest

from masking.conversation import bind, find_target
from masking.history import History
from masking.model import Call, Element, ToolResult
from masking.wire.gemini import GEMINI
from tests.support.marks import as_one_test


def calls(*named: str) -> Element:
    """An answer with calls, each given as `tool` or as `tool id`."""
    pairs = (name.partition(" ") for name in named)
    return Element("assistant", (), tuple(Call(call_id, tool, tool) for tool, _, call_id in pairs))


def results(*named: str) -> Element:
    """Results, each given as `tool` or as `tool id`, `-` for one that names no tool."""
    pairs = (name.partition(" ") for name in named)
    return Element("user", results=tuple(_result(tool, call_id) for tool, _, call_id in pairs))


def _result(tool: str, call_id: str | None) -> ToolResult:
    return ToolResult(call_id, "string", ("out",), (("out",),), tool=None if tool == "-" else tool)


SAYS = Element("user", ("Go on.",))


class Case(NamedTuple):
    name: str
    elements: Sequence[Element]
    expected: Sequence[tuple[int | None, str | None]]
    """The turn and the tool of each result."""


CASES = [
    Case("each of its tool", [calls("read", "run"), results("run", "read")],
         [(0, "run"), (0, "read")]),
    Case("in order", [calls("read", "run"), results("-", "-")], [(0, "read"), (0, "run")]),
    Case("of the last turn", [calls("read"), SAYS, calls("read"), results("read")], [(1, "read")]),
    Case("of the last turn, after another's result",
         [calls("read"), results("read"), calls("read"), results("read")],
         [(0, "read"), (1, "read")]),
    Case("one too many", [calls("read"), results("read", "read")], [(0, "read"), (None, None)]),
    Case("of no tool that was called", [calls("read"), results("run")], [(None, None)]),
    Case("before any call", [results("read"), calls("read")], [(None, None)]),
    Case("late", [calls("read"), results("read"), calls("run"), results("read")],
         [(0, "read"), (None, None)]),
    Case("an id that the client drops", [calls("read a", "read b"), results("read", "read")],
         [(0, "read"), (0, "read")]),
    Case("ids in another order", [calls("read a", "run b"), results("run b", "read a")],
         [(0, "run"), (0, "read")]),
    Case("an id for one of two", [calls("read a", "run"), results("run", "read a")],
         [(0, "run"), (0, "read")]),
    Case("an id that the client makes up", [calls("read"), results("read a")], [(0, "read")]),
    Case("two different ids", [calls("read a"), results("read b")], [(None, None)]),
    Case("two different ids, and then its own", [calls("read a"), results("read b", "read a")],
         [(None, None), (0, "read")]),
    Case("an id of an earlier turn",
         [calls("read a"), SAYS, calls("run"), results("read a", "run")],
         [(0, "read"), (1, "run")]),
    Case("an id that is answered twice",
         [calls("read a", "run"), results("read a", "read a", "run")],
         [(0, "read"), (0, "read"), (0, "run")]),
    Case("an id that is declared later", [results("read a"), calls("read a")], [(0, "read")]),
    Case("an id that is declared twice",
         [calls("read a", "run a"), results("read a", "read a", "read a")],
         [(0, "read"), (0, "run"), (0, "run")]),
    Case("an id that is declared twice, in two elements of one answer, and later than its results",
         [results("read a", "read a"), calls("read a"), calls("run a"), results("read a")],
         [(0, "read"), (0, "run"), (0, "run")]),
    Case("an id that is declared twice, with a result before and one after",
         [results("read a"), calls("read a", "run a"), results("read a")],
         [(0, "read"), (0, "run")]),
    Case("an id that an earlier turn declares twice, and late results",
         [calls("read a", "run a"), SAYS, calls("edit"), results("read a", "read a", "edit")],
         [(0, "read"), (0, "run"), (1, "edit")]),
    Case("calls of one answer in two elements",
         [calls("read"), calls("run"), results("read", "run")],
         [(0, "read"), (0, "run")]),
]  # fmt: skip


@as_one_test
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_which_call_a_result_answers(case: Case) -> None:
    _, found = bind(History(), case.elements, GEMINI)
    assert case.expected == [(result.turn, result.tool) for result in found]


def test_a_result_with_an_id_that_is_no_text_answers_nothing() -> None:
    odd = Element("user", results=(_result("read", None),))
    _, found = bind(History(), [calls("read"), odd, results("read")], GEMINI)
    assert [None, 0] == [result.turn for result in found]


def test_what_a_call_without_an_id_is_about() -> None:
    called = Element("assistant", (), (Call("", "read", {"path": "a.py"}),))
    _, (found,) = bind(History(), [called, results("read")], GEMINI)
    assert ("read", "a.py") == find_target(found, ("path",)).target

"""Calls that refer to what is masked."""

import json
import sys
from types import FrameType

import pytest
from hypothesis import given

from addon.replay.reread import (
    LEAST_QUOTED_CHARS,
    NEVER,
    Reference,
    Rereads,
    ShownTexts,
    count_left_out,
    count_rereads,
    find_quoted_lines,
    find_references,
    find_shown_lines,
    left_out_of,
)
from masking.model import ChatMessage
from tests.support.builders import conversations, read, read_body
from tests.support.marks import as_one_test


def asks(*calls: tuple[str, object], content: str | None = None, call_id: str = "a") -> ChatMessage:
    """An assistant message with these calls, tool and arguments; ids count up from `call_id`."""
    return {
        "role": "assistant",
        "content": content,
        "tool_calls": [
            {
                "id": chr(ord(call_id) + n),
                "type": "function",
                "function": {
                    "name": tool,
                    "arguments": given if isinstance(given, str) else json.dumps(given),
                },
            }
            for n, (tool, given) in enumerate(calls)
        ],
    }


def shows(text: object, call_id: str = "a") -> ChatMessage:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def says(text: object) -> ChatMessage:
    return {"role": "user", "content": text}


def references(messages: list[object], **others: object) -> list[Reference]:
    """Find the references where every message of the assistant answered a request."""
    document = {"messages": messages, **others}
    places = [
        place
        for place, message in enumerate(messages)
        if isinstance(message, dict) and message.get("role") == "assistant"
    ]
    return [*find_references(read_body(document), {p: n for n, p in enumerate(places)})]


def refers(messages: list[object], **others: object) -> Reference:
    """Return what the last call refers to."""
    return references(messages, **others)[-1]


READ = ("read", {"path": "a.py", "lines": [1, 2]})
LIST = [asks(("list", {})), shows("src/parser.py\nsrc/main.py\nREADME")]


@as_one_test
@pytest.mark.parametrize(
    ("messages", "repeats"),
    [
        pytest.param([asks(READ)], (), id="the first call repeats none"),
        pytest.param([asks(READ), shows("1"), asks(READ)], (0,), id="the same call again"),
        pytest.param(
            [asks(READ), shows("1"), asks(("read", '{"lines": [1,2],\n "path": "a.py"}'))],
            (0,),
            id="spelled otherwise, in another order",
        ),
        pytest.param(
            [asks(READ), shows("1"), asks(("read", {"path": "a.py", "lines": [2, 1]}))],
            (),
            id="other arguments",
        ),
        pytest.param([asks(READ), shows("1"), asks(("write", READ[1]))], (), id="another tool"),
        pytest.param(
            [asks(("run", "ls -l")), shows("1"), asks(("run", "ls -l"))],
            (0,),
            id="arguments that are no JSON",
        ),
        pytest.param(
            [asks(READ), shows("1"), asks(READ), shows("2"), asks(READ)],
            (0, 1),
            id="all earlier results count",
        ),
        pytest.param(
            [asks(READ, ("list", {})), shows("2", "b"), shows("1"), asks(READ)],
            (1,),
            id="parallel calls are told apart by their ids",
        ),
        pytest.param(
            [asks(READ), shows("1"), asks(("list", {})), shows("2"), asks(READ)],
            (0,),
            id="an id that is used again belongs to its latest call",
        ),
        pytest.param([shows("1"), asks(READ), asks(READ)], (), id="a result before its call"),
        pytest.param([asks(READ), asks(READ)], (), id="a call without a result"),
        pytest.param(
            [
                {"role": "assistant", "tool_calls": [{"id": 7, "function": None}, 3]},
                shows("1", ""),
                {"role": "assistant", "tool_calls": [{"id": [], "function": None}]},
            ],
            (),
            id="invalid calls",
        ),
    ],
)
def test_a_call_repeats_earlier_ones(messages: list[object], repeats: tuple[int, ...]) -> None:
    assert repeats == refers(messages).repeats


def opens(path: object) -> ChatMessage:
    return asks(("open", {"path": path}), call_id="z")


@as_one_test
@pytest.mark.parametrize(
    ("messages", "names"),
    [
        pytest.param([*LIST, opens("src/parser.py")], ((0,),), id="a path"),
        pytest.param([*LIST, opens("/home/me/src/parser.py")], ((0,),), id="a file elsewhere"),
        pytest.param([*LIST, opens("./src/parser.py")], ((0,),), id="a path that begins otherwise"),
        pytest.param([*LIST, opens("README")], (), id="less than eight characters"),
        pytest.param([*LIST, opens("src/lexer.py")], (), id="what nothing showed"),
        pytest.param(
            [asks(("list", {})), shows("nothing but ordinary words"), opens("ordinary")],
            (),
            id="an ordinary word",
        ),
        pytest.param(
            [asks(("list", {})), shows("Ordinary words"), opens("Ordinary")],
            (),
            id="one with a capital",
        ),
        pytest.param(
            [asks(("grep", {})), shows("class HttpServer: ..."), opens("find HttpServer")],
            ((0,),),
            id="an identifier",
        ),
        pytest.param(
            [asks(("orders", {})), shows('{"order": "W9911714"}'), opens("W9911714")],
            ((0,),),
            id="the number of an order",
        ),
        pytest.param(
            [asks(("orders", {})), shows("order 99117140"), opens(99117140)],
            ((0,),),
            id="a number that is no string",
        ),
        pytest.param(
            [asks(("orders", {})), shows("order 99117140"), opens([{"deep": ["99117140"]}])],
            ((0,),),
            id="wherever in the arguments",
        ),
        pytest.param(
            [asks(("orders", {})), shows("order 99117140"), opens({"99117140": True})],
            (),
            id="but not as a key of theirs",
        ),
        pytest.param(
            [*LIST, asks(("open", "cat src/parser.py"), call_id="z")],
            ((0,),),
            id="in arguments that are no JSON",
        ),
        pytest.param(
            [*LIST, asks(("grep", {})), shows("src/parser.py:1: x"), opens("src/parser.py")],
            ((0, 1),),
            id="in all results that show it",
        ),
        pytest.param(
            [*LIST, asks(("grep", {})), shows("parser.py"), opens("src/parser.py")],
            ((0,), (0, 1)),
            id="the path in one and the file in two",
        ),
        pytest.param(
            [says("See src/parser.py"), *LIST, opens("src/parser.py")], (), id="a user said it"
        ),
        pytest.param(
            [*LIST, says([{"type": "text", "text": "src/parser.py"}]), opens("src/parser.py")],
            (),
            id="a user said it later",
        ),
        pytest.param(
            [*LIST, asks(("think", {}), content="So: src/parser.py"), opens("src/parser.py")],
            (),
            id="the agent said it",
        ),
        pytest.param(
            [*LIST, opens("src/parser.py"), opens("src/parser.py")],
            (),
            id="the agent had already named it",
        ),
        pytest.param(
            [
                *LIST,
                asks(("write", {"text": "x\nsrc/parser.py\ny"})),
                opens("src/parser.py"),
            ],
            (),
            id="in the text of an earlier argument",
        ),
        pytest.param(
            [*LIST, asks(("open", "src/parser.py"), ("open", {"path": "src/parser.py"}))],
            ((0,),),
            id="a call beside it does not count",
        ),
        pytest.param(
            [
                asks(("list", {})),
                shows([{"type": "text", "text": "src/parser.py"}]),
                opens("src/parser.py"),
            ],
            ((0,),),
            id="in a result's text parts",
        ),
        pytest.param([None, 3, *LIST, opens("src/parser.py")], ((0,),), id="among odd messages"),
    ],
)
def test_a_call_names_what_only_results_showed(
    messages: list[object], names: tuple[tuple[int, ...], ...]
) -> None:
    assert names == refers(messages).names


def test_what_the_tool_schemas_show_is_seen() -> None:
    tools = [{"function": {"description": "Opens src/parser.py"}}]
    assert () == refers([*LIST, opens("src/parser.py")], tools=tools).names


def test_tool_schemas_nested_too_deeply_show_nothing() -> None:
    tools: list[object] = []
    for _ in range(100_000):
        tools = [tools]
    assert ((0,),) == refers([*LIST, opens("src/parser.py")], tools=tools).names


def test_calls_that_answered_no_request_are_not_looked_at() -> None:
    messages = [*LIST, opens("src/parser.py"), shows("x", "z"), opens("src/main.py")]
    assert () == find_references(read(messages), {})
    assert 1 == len(find_references(read(messages), {4: 9}))
    assert () == find_references(read([]), {})


LINE = "    return parse(tokens, strict=True)"
CODE = [asks(("read", {"path": "a.py"})), shows(f"def f():\n{LINE}\n")]


def edits(old: object, new: object = "pass") -> ChatMessage:
    return asks(("edit", {"old": old, "new": new}), call_id="z")


@as_one_test
@pytest.mark.parametrize(
    ("messages", "quotes"),
    [
        pytest.param([*CODE, edits(LINE)], ((0,),), id="the line that an edit replaces"),
        pytest.param([*CODE, edits(f"x\n{LINE.strip()}\ny")], ((0,),), id="among other lines"),
        pytest.param([*CODE, edits([{"deep": LINE}])], ((0,),), id="wherever in the arguments"),
        pytest.param(
            [*CODE, asks(("patch", f"@@\n-{LINE}\n+pass"), call_id="z")],
            ((0,),),
            id="a patch that is no JSON",
        ),
        pytest.param([*CODE, edits(LINE[8:])], (), id="a part of a line"),
        pytest.param([*CODE, edits("def f():")], (), id="a short line"),
        pytest.param([*CODE, edits("return parse(tokens, strict=False)")], (), id="another line"),
        pytest.param(
            [asks(("read", {})), shows(f"    12\t{LINE}"), edits(LINE)],
            ((0,),),
            id="a line that was shown with its number",
        ),
        pytest.param(
            [*CODE, asks(("grep", {})), shows(f"12:{LINE}"), edits(LINE)],
            ((0, 1),),
            id="in all results that show it",
        ),
        pytest.param([says(LINE), *CODE, edits(LINE)], (), id="a user said it"),
        pytest.param(
            [*CODE, asks(("think", {}), content=f"So:\n{LINE}"), edits(LINE)],
            (),
            id="the agent said it",
        ),
        pytest.param([*CODE, edits(LINE), edits(LINE)], (), id="the agent had already quoted it"),
        pytest.param(
            [*CODE, edits("x", new=f"pass\n{LINE}"), edits(LINE)], (), id="the agent wrote it"
        ),
        pytest.param(
            [*CODE, asks(("edit", LINE), ("edit", {"old": LINE}))],
            ((0,),),
            id="a call beside it does not count",
        ),
    ],
)
def test_a_call_quotes_what_only_results_showed(
    messages: list[object], quotes: tuple[tuple[int, ...], ...]
) -> None:
    assert quotes == refers(messages).quotes


def test_a_line_in_the_tool_schemas_is_seen() -> None:
    tools = [{"function": {"description": f"For example:\n{LINE}"}}]
    assert () == refers([*CODE, edits(LINE)], tools=tools).quotes


@as_one_test
@pytest.mark.parametrize(
    ("found", "first", "expected"),
    [
        pytest.param([], [], (0, 0, 0, 0, 0, 0), id="no call"),
        pytest.param([Reference(3, (), ())], [1], (1, 0, 0, 0, 0, 0), id="no reference"),
        pytest.param(
            [Reference(3, (0,), ())], [3], (1, 1, 0, 0, 1, 1), id="repeats what is masked"
        ),
        pytest.param([Reference(3, (0,), ())], [4], (1, 0, 0, 0, 0, 0), id="masked only later"),
        pytest.param([Reference(3, (0,), ())], [NEVER], (1, 0, 0, 0, 0, 0), id="never masked"),
        pytest.param(
            [Reference(3, (0, 1), ())], [1, NEVER], (1, 0, 0, 0, 0, 0), id="one of two can be seen"
        ),
        pytest.param([Reference(3, (0, 1), ())], [1, 2], (1, 1, 0, 0, 1, 1), id="none of two can"),
        pytest.param(
            [Reference(3, (), ((0,), (1,)))], [1, NEVER], (1, 0, 1, 0, 1, 1), id="a name is masked"
        ),
        pytest.param(
            [Reference(3, (), (), ((0,), (1,)))],
            [1, NEVER],
            (1, 0, 0, 1, 0, 1),
            id="quotes what is masked",
        ),
        pytest.param(
            [Reference(3, (0,), ((0,),), ((0,),))],
            [1],
            (1, 1, 1, 1, 1, 1),
            id="a call that does all three counts once",
        ),
        pytest.param(
            [Reference(1, (0,), ()), Reference(3, (0,), ()), Reference(3, (), ((0,),))],
            [2],
            (3, 1, 1, 0, 2, 2),
            id="each at its own request",
        ),
    ],
)
def test_rereads_are_counted(
    found: list[Reference], first: list[int], expected: tuple[int, int, int, int, int, int]
) -> None:
    names = ("calls", "repeated", "named", "quoted", "either", "affected")
    rereads = Rereads(**dict(zip(names, expected, strict=True)))
    assert rereads == count_rereads(found, first)
    assert rereads == count_rereads(found[:1], first) + count_rereads(found[1:], first)


@as_one_test
@pytest.mark.parametrize(
    "given",
    [
        "[" * 100_000,
        '{"n": 1' + "0" * 5_000 + "}",
        '"\\ud800 \\ud800/src/parser.py"',
        "NaN",
        None,
        7,
        {"path": ["src/parser.py"] * 3},
    ],
    ids=["deep", "long number", "surrogate", "not a number", "none", "number", "object"],
)
def test_any_arguments_will_do(given: object) -> None:
    call = {"id": "a", "function": {"name": None, "arguments": given}}
    message = {"role": "assistant", "tool_calls": [call]}
    assert (0,) == refers([message, shows("src/parser.py"), message]).repeats


@given(conversations())
def test_any_conversation_will_do(messages: list[ChatMessage]) -> None:
    found = references([*messages])
    results = read(messages).results
    assert all(
        place in range(len(results)) and list(places) == sorted(places)
        for reference in found
        for places in (reference.repeats, *reference.names, *reference.quotes)
        for place in places
    )
    assert Rereads(calls=len(found)) == count_rereads(found, [NEVER] * len(results))


def test_work_is_linear_in_the_conversation() -> None:
    listing = "\n".join(f"src/module_{n}.py: def function_{n}(): ..." for n in range(20))

    def count_calls(turns: int) -> int:
        messages: list[object] = [
            message
            for turn in range(turns)
            for message in (asks(("read", {"path": f"src/module_{turn}.py"})), shows(listing))
        ]
        calls = 0

        def count(_frame: FrameType, event: str, _argument: object) -> None:
            nonlocal calls
            calls += event in ("call", "c_call")

        sys.setprofile(count)
        try:
            references(messages)
        finally:
            sys.setprofile(None)
        return calls

    assert count_calls(500) < 6 * count_calls(100)


COPIED = "return parse(tokens)"


@as_one_test
@pytest.mark.parametrize(
    ("text", "lines"),
    [
        pytest.param("", [], id="nothing"),
        pytest.param(COPIED, [COPIED], id="a line"),
        pytest.param(
            f"\t  {COPIED}  \r\n{COPIED}!", [COPIED, COPIED + "!"], id="without blanks around it"
        ),
        pytest.param("x" * LEAST_QUOTED_CHARS, ["x" * LEAST_QUOTED_CHARS], id="the least length"),
        pytest.param(" " + "x" * (LEAST_QUOTED_CHARS - 1) + " ", [], id="blanks do not count"),
    ],
)
def test_lines_are_long_enough(text: str, lines: list[str]) -> None:
    assert lines == [*find_shown_lines([text])]
    assert lines == [*find_quoted_lines([text])]


@as_one_test
@pytest.mark.parametrize("number", ["12\t", "    12→", "12:", "7-", "  3|"])
def test_a_numbered_line_is_shown_without_its_number(number: str) -> None:
    assert [f"{number}{COPIED}".strip(), COPIED] == [*find_shown_lines([f"{number}{COPIED}"])]


def test_a_line_that_begins_with_a_number_is_not_cut() -> None:
    assert ["12 return parse(tokens)"] == [*find_shown_lines(["12 return parse(tokens)"])]


@pytest.mark.parametrize("sign", "-+")
def test_a_patch_quotes_without_its_sign(sign: str) -> None:
    assert [f"{sign}    {COPIED}", COPIED] == [*find_quoted_lines([f"{sign}    {COPIED}"])]
    assert [f"{sign}{COPIED}"] == [*find_shown_lines([f"{sign}{COPIED}"])]


# What a conversation has shown so far, and where.


WANTED = frozenset("abc")


def test_results_are_found_by_what_they_alone_show() -> None:
    shown = ShownTexts(WANTED)
    shown.show_result(0, "ax")
    shown.show_result(2, "ab")
    assert ((0, 2), (2,)) == shown.find_results(frozenset("abc"))
    assert ((2,),) == shown.find_results(frozenset("b"))
    assert () == shown.find_results(frozenset("cx"))


def test_what_two_words_have_in_common_is_found_once() -> None:
    shown = ShownTexts(WANTED)
    shown.show_result(1, "ab")
    assert ((1,),) == shown.find_results(frozenset("ab"))


def test_what_a_message_shows_is_in_no_result_alone() -> None:
    shown = ShownTexts(WANTED)
    shown.show_result(0, "ab")
    shown.show("bx")
    assert ((0,),) == shown.find_results(frozenset("ab"))


# What was left out at arrival is a place of its own


OUT = left_out_of(0)


@as_one_test
@pytest.mark.parametrize(
    ("reference", "first", "masked", "left_out"),
    [
        pytest.param(Reference(3, (), (), ((OUT,),)), [NEVER], 0, 1, id="what is left out"),
        pytest.param(Reference(3, (), (), ((OUT,),)), [1], 0, 1, id="what is masked, too, by now"),
        pytest.param(Reference(3, (), (), ((0,),)), [NEVER], 0, 0, id="the head"),
        pytest.param(Reference(3, (), (), ((0,),)), [1], 1, 0, id="the head, which is masked"),
        pytest.param(Reference(3, (), (), ((OUT, 1),)), [NEVER, NEVER], 0, 0, id="seen elsewhere"),
        pytest.param(Reference(3, (), (), ((OUT, 1),)), [NEVER, 1], 1, 0, id="masked elsewhere"),
        pytest.param(Reference(3, (), (), ((left_out_of(1),),)), [9, 9], 0, 0, id="one is whole"),
        pytest.param(Reference(3, (), (), ((left_out_of(1),),)), [9, 1], 1, 0, id="and masked"),
        pytest.param(Reference(3, (), ((OUT,),)), [NEVER], 0, 1, id="a name"),
        pytest.param(Reference(3, (0,), ()), [NEVER], 0, 1, id="repeats a shortened one"),
        pytest.param(Reference(3, (0,), ()), [1], 1, 0, id="repeats one that is masked"),
        pytest.param(Reference(3, (0, 1), ()), [NEVER, 1], 0, 1, id="one short, one masked"),
        pytest.param(Reference(3, (0, 1), ()), [NEVER, NEVER], 0, 0, id="one can be seen whole"),
        pytest.param(Reference(3, (1,), ()), [NEVER, NEVER], 0, 0, id="repeats a whole one"),
        pytest.param(Reference(3, (), ()), [NEVER], 0, 0, id="no reference"),
    ],
)
def test_what_is_left_out_counts_apart_from_what_is_masked(
    reference: Reference, first: list[int], masked: int, left_out: int
) -> None:
    shortened = {0}
    assert masked == count_rereads([reference], first, shortened).affected
    assert left_out == count_left_out([reference], first, shortened).affected
    assert 1 == count_left_out([reference], first, shortened).calls

import json
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masking import ChatMessage, Replacement, WireError
from masking.conversation import Request
from masking.edit import splice as splicing
from masking.edit.json_text import decode
from masking.edit.splice import apply_to_list
from masking.model import Edits
from masking.reduction import ReductionOptions, count_chars, plan_reduction
from masking.wire import CHAT
from tests.support.builders import (
    HOLE,
    SECRET,
    Hole,
    Spelling,
    conversations,
    documents,
    examples,
    read,
    read_body,
    spellings,
    texts,
)
from tests.support.marks import as_one_test

JSON = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str)


def plan(
    *dropped: int, summary: str | None = None, at: int = 0, masks: Mapping[int, str] | None = None
) -> Edits:
    """Drop these messages, put this summary there, and mask old texts that read `old`."""
    replacements = {
        place: (Replacement(("content",), "old", new),) for place, new in (masks or {}).items()
    }
    return Edits(replacements, frozenset(dropped), _say(summary), at)


def _say(summary: str | None) -> object:
    return None if summary is None else {"role": "user", "content": summary}


def carry_out(body: bytes, edits: Edits) -> bytes:
    document = decode(body)
    assert isinstance(document, dict)
    return Request(document, CHAT, body=body).edit(edits)


class Case(NamedTuple):
    case: str
    before: str
    plan: Edits
    after: str


SUMMED = '{"role":"user","content":"sum"}'

CASES = [
    Case("nothing", '{"messages":[1, 2]}', plan(), '{"messages":[1, 2]}'),
    Case("the first goes", '{"messages":[1,2,3]}', plan(0), '{"messages":[2,3]}'),
    Case("one in the middle goes", '{"messages":[1,2,3]}', plan(1), '{"messages":[1,3]}'),
    Case("the last goes", '{"messages":[1,2,3]}', plan(2), '{"messages":[1,2]}'),
    Case("all go", '{"messages":[1,2,3]}', plan(0, 1, 2), '{"messages":[]}'),
    Case("the only one goes", '{"messages": [ 1 ] }', plan(0), '{"messages": [  ] }'),
    Case("blanks stay with what stays", '{"messages":[ 1 , 2\t,\n3 ]}', plan(1),
         '{"messages":[ 1\t,\n3 ]}'),
    Case("those before the first stay", '{"messages":[ 1 , 2\t,\n3 ]}', plan(0),
         '{"messages":[ 2\t,\n3 ]}'),
    Case("those after the last stay", '{"messages":[ 1 , 2\t,\n3 ]}', plan(2),
         '{"messages":[ 1 , 2 ]}'),
    Case("indented", '{\n "messages": [\n  1,\n  2,\n  3\n ],\n "n": 1\n}', plan(0, 1),
         '{\n "messages": [\n  3\n ],\n "n": 1\n}'),
    Case("a summary first", '{"messages":[1,2]}', plan(0, summary="sum"),
         f'{{"messages":[{SUMMED},2]}}'),
    Case("a summary alone", '{"messages":[1,2]}', plan(0, 1, summary="sum"),
         f'{{"messages":[{SUMMED}]}}'),
    Case("a summary in the middle", '{"messages":[1 , 2,\n3,\t4]}', plan(1, 2, summary="sum", at=1),
         f'{{"messages":[1 , {SUMMED},\t4]}}'),
    Case("a summary last", '{"messages":[1 , 2,3 ]}', plan(1, 2, summary="sum", at=1),
         f'{{"messages":[1 , {SUMMED} ]}}'),
    Case("a summary before the first, which stays", '{"messages":[1 , 2,3]}',
         plan(1, summary="sum"), f'{{"messages":[{SUMMED} , 1,3]}}'),
    Case("a summary of plain ASCII", '{"messages":[1,2]}', plan(0, summary='é😀"\n'),
         '{"messages":[{"role":"user","content":"\\u00e9\\ud83d\\ude00\\"\\n"},2]}'),
    Case("a summary beside raw UTF-8", '{"messages":[1,2],"x":"é"}', plan(0, summary='é😀"\n'),
         '{"messages":[{"role":"user","content":"é😀\\"\\n"},2],"x":"é"}'),
    Case("a summary with a lone surrogate", '{"messages":["\\ud83d",2]}', plan(0, summary="\ud83d"),
         '{"messages":[{"role":"user","content":"\\ud83d"},2]}'),
    Case("a masked text and no more", '{"messages":[{"content":"old" },2 ]}',
         plan(masks={0: "<new>"}), '{"messages":[{"content":"<new>" },2 ]}'),
    Case("a masked text, another message gone", '{"messages":[{"content":"old" },2 ]}',
         plan(1, masks={0: "<new>"}), '{"messages":[{"content":"<new>" } ]}'),
    Case("a byte-order mark and blanks", '\ufeff \n{"messages":[1,2]}\r\n', plan(0),
         '\ufeff \n{"messages":[2]}\r\n'),
    Case("numbers", '{"n":1e2,"messages":[1.0,-0,1E+2,0.10]}', plan(1),
         '{"n":1e2,"messages":[1.0,1E+2,0.10]}'),
    Case("numbers of any size", f'{{"n":{"9" * 5_000},"messages":[1e999,2,-1e999]}}', plan(1),
         f'{{"n":{"9" * 5_000},"messages":[1e999,-1e999]}}'),
    Case("NaN that stays", '{"messages":[NaN,2],"x":Infinity}', plan(1),
         '{"messages":[NaN],"x":Infinity}'),
    Case("NaN that goes", '{"n":1.50,"messages":[1,NaN]}', plan(1), '{"n":1.50,"messages":[1]}'),
    Case("escapes", '{"messages":["\\u00E9\\/",2,"\\u006f"]}', plan(1),
         '{"messages":["\\u00E9\\/","\\u006f"]}'),
    Case("brackets and commas in texts", '{"messages":["],[","}",{"a]":"\\"]"}],"x":"messages"}',
         plan(1), '{"messages":["],[",{"a]":"\\"]"}],"x":"messages"}'),
    Case("an escaped key", '{"mess\\u0061ges":[1,2]}', plan(0), '{"mess\\u0061ges":[2]}'),
    Case("duplicate messages: the last", '{"messages":[1,2],"x":0,"messages":[3,4]}', plan(0),
         '{"messages":[1,2],"x":0,"messages":[4]}'),
    Case("duplicate messages of another kind", '{"messages":{"0":1},"messages":[3,4]}', plan(0),
         '{"messages":{"0":1},"messages":[4]}'),
    Case("equal duplicate messages", '{"messages":[3,4],"messages":[3,4]}', plan(0),
         '{"messages":[3,4],"messages":[4]}'),
    Case("the same elements in another list", '{"x":[3,4],"messages":[3,4]}', plan(0),
         '{"x":[3,4],"messages":[4]}'),
    Case("the same elements in a text", '{"x":"[3,4]","messages":[3,4]}', plan(0),
         '{"x":"[3,4]","messages":[4]}'),
    Case("duplicate keys in a message", '{"messages":[{"a":1,"a":2},2]}', plan(1),
         '{"messages":[{"a":1,"a":2}]}'),
    Case("messages elsewhere", '{"x":{"messages":[1,2]},"messages":[3,4],"y":[["messages"]]}',
         plan(0), '{"x":{"messages":[1,2]},"messages":[4],"y":[["messages"]]}'),
]  # fmt: skip


@as_one_test
@pytest.mark.parametrize("given", CASES, ids=lambda given: given.case)
def test_every_other_byte_is_the_clients(given: Case) -> None:
    assert given.after.encode() == carry_out(given.before.encode(), given.plan)


@as_one_test
@pytest.mark.parametrize(
    ("document", "edits"),
    [
        ({"messages": [1, 2, 3, 4]}, plan(0)),
        ({"messages": [1]}, plan(0)),
        ({"messages": []}, plan(7)),
        ({"messages": None}, plan(0)),
        ({}, plan(0)),
        ({"messages": [1, SECRET, 3]}, plan(1, masks={0: "<new>"})),
        ({"messages": [{"content": SECRET}, 3]}, plan(masks={0: "<new>"})),
    ],
)
@pytest.mark.parametrize("body", [f'{{"messages":[1,"{SECRET}",3]}}', '{"messages":[]}', "{}"])
def test_what_was_not_made_for_this_body_harms_nothing(
    body: str, document: Mapping[str, object], edits: Edits
) -> None:
    try:
        after = Request(document, CHAT, body=body.encode()).edit(edits)
    except WireError as error:
        assert SECRET not in str(error)  # noqa: PT017
    else:
        items = json.loads(body)["messages"]
        assert {"messages": apply_to_list(items, edits)} == json.loads(after)


def test_a_summary_that_no_json_can_spell_is_an_error() -> None:
    """Two lone surrogates in a row would arrive as one character."""
    with pytest.raises(WireError):
        carry_out(b'{"messages":[1,2]}', plan(0, summary="\ud83d" + "\ude00"))


def test_what_is_not_proven_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splicing, "_render_json", lambda *_: b"null")
    with pytest.raises(WireError):
        carry_out(b'{"messages":[1,2]}', plan(0, summary="sum"))


@pytest.mark.parametrize("place", ['"x":{},"messages":[1,2]', '"messages":[1,{}]'])
def test_however_deep_the_right_bytes_or_a_wire_error(place: str) -> None:
    for depth in (*range(850, 1030), 100_000):
        body = "{" + place.replace("{}", "[" * depth + "]" * depth) + "}"
        try:
            assert body.replace("[1,", "[").encode() == carry_out(body.encode(), plan(0))
        except WireError as error:
            assert "body" == error.path  # noqa: PT017


# What the strategies come up with.


@st.composite
def edits(draw: st.DrawFn, messages: list[ChatMessage]) -> Edits:
    """A plan of any shape, whatever a reduction would do."""
    dropped = draw(st.sets(st.integers(0, len(messages) - 1), max_size=len(messages)))
    before = next((at for at in range(len(messages)) if at in dropped), 0)
    summary = draw(st.one_of(st.none(), texts)) if dropped else None
    at = draw(st.integers(0, before))
    strings = [
        (place, (Replacement(("content",), message["content"], draw(texts)),))
        for place, message in enumerate(messages)
        if isinstance(message, dict) and isinstance(message.get("content"), str)
    ]
    masks = draw(st.lists(st.sampled_from(strings), unique=True, max_size=3)) if strings else []
    return Edits(dict(masks), frozenset(dropped), _say(summary), at)


@examples(2)
@given(documents(), spellings, st.data())
def test_bytes_differ_only_where_something_was_masked_dropped_or_put_in(
    document: dict[str, object], spelling: Spelling, data: st.DataObject
) -> None:
    messages = document["messages"]
    assert isinstance(messages, list)
    chosen = data.draw(edits(messages)) if messages else plan()
    after = carry_out(spelling.spell(document).encode(), chosen).decode()
    expected = apply_to_list(messages, chosen)
    holes = list(_punch(chosen, messages))
    found_in_holes = []
    at = 0
    for piece in spelling.spell({**document, "messages": holes}).split(HOLE):
        if at:
            found, at = JSON.raw_decode(after, at)
            found_in_holes.append(found)
        assert piece == after[at : at + len(piece)]
        at += len(piece)
    assert len(after) == at
    expected_text = spelling.spell({**document, "messages": expected})
    assert JSON.decode(expected_text) == JSON.decode(after)


def _punch(chosen: Edits, messages: list[ChatMessage]) -> Iterator[object]:
    """Yield the messages afterwards, with a hole for whatever is new."""
    for at in chosen.order(len(messages)):
        if at is None:
            yield Hole()
        else:
            yield {**messages[at], "content": Hole()} if at in chosen.replacements else messages[at]


@given(conversations(), spellings, st.sampled_from([0.0, 0.3, 0.7, 0.95]), st.sampled_from([1, 3]))
def test_a_reduction_in_bytes_is_the_one_of_the_list(
    messages: list[ChatMessage], spelling: Spelling, share: float, recent: int
) -> None:
    body = spelling.spell({"model": "m", "messages": messages}).encode()
    document = decode(body)
    assert isinstance(document, dict)
    budget = max(1, int(count_chars(read(messages).elements) * share))
    options = ReductionOptions(
        enabled=True,
        max_input_chars=budget,
        preserve_recent_raw_turns=recent,
        summary_max_chars=90,
    )
    conversation = read_body(document)
    chosen = plan_reduction(conversation, options).edits
    after = carry_out(body, chosen) if chosen.moves or chosen.replacements else body
    edited = {"model": "m", "messages": apply_to_list(messages, chosen)}
    assert decode(spelling.spell(edited).encode()) == decode(after)

"""What holds of every conversation in every wire format, however odd its elements are."""

import copy
import json
from collections.abc import Callable, Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from masking.accounting.prompt import read_prompt
from masking.conversation import Conversation, read_conversation
from masking.errors import WireError
from masking.memory import digest_opening
from masking.model import Path, ToolResult
from masking.redaction import RedactionPolicy
from masking.reduction import ReductionOptions
from masking.rewrite import Rewrite, Strategies, read_request
from masking.tokens import TokenCounter
from masking.window import MaskPolicy, lay_out
from tests.support.builders import (
    HOLE,
    TEMPLATE,
    Hole,
    Spelling,
    examples,
    list_places,
    list_replacements,
    policies,
    policy,
    spellings,
    texts,
    unchanged,
)
from tests.support.made_up_format import MADE_UP
from tests.support.priced import rewrite_request
from tests.support.wire_conversations import (
    WRITERS,
    Ask,
    Give,
    Model,
    Step,
    Told,
    Tools,
    User,
    Writer,
    in_each,
    in_two,
)

REAL = [writer for writer in WRITERS if writer.wire is not MADE_UP]
EVERY = in_each(REAL)
TWO = in_two(REAL)

JSON = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str)

ids = st.sampled_from(["call_0", "call_0", "call_1", 'é"\\', ""])
tools = st.sampled_from(["shell", "read"])
contents = st.one_of(texts, texts, st.tuples(texts, texts))
asks = st.builds(Ask, ids, tools, st.sampled_from([{}, {"path": "a.py"}]))
gives = st.builds(Give, ids, contents, tools, st.booleans())


def _answer(asked: list[Ask], found: list[Any]) -> list[Step]:
    pairs = zip(asked, found, strict=True)
    return [Model((*asked,)), Tools(tuple(Give(a.call_id, text, a.tool) for a, text in pairs))]


answered = st.builds(
    _answer,
    st.lists(asks, min_size=2, max_size=2),
    st.lists(contents, min_size=2, max_size=2),
)
turned = st.builds(_answer, st.tuples(asks).map(list), st.tuples(contents).map(list))
strays: st.SearchStrategy[list[Step]] = st.one_of(
    st.builds(lambda given: [Tools((*given,))], st.lists(gives, min_size=1, max_size=3)),
    st.builds(lambda asked, text: [Model((*asked,), text)], st.lists(asks, max_size=2), texts),
    st.builds(lambda text: [User(text)], texts),
)
blocks = st.one_of(turned, turned, turned, answered, strays)
ODD = st.sampled_from([None, 7, True, "", "x", [], {}, [None], {"text": "x"}, ["a", {"b": 1}]])


@st.composite
def told(draw: st.DrawFn, writer: Writer) -> Told:
    """A conversation, of which anything may have been replaced by something odd."""
    steps = [step for block in draw(st.lists(blocks, min_size=1, max_size=7)) for step in block]
    items: list[Any] = copy.deepcopy(list(writer.tell(*steps, User(), *_later(draw)).items))
    for _ in range(draw(st.sampled_from([0, 0, 1, 3]))):
        _put_odd(draw, items)
    return Told(writer, items)


def _later(draw: st.DrawFn) -> list[Step]:
    """Later turns, which make older ones leave the window."""
    return [Model((Ask(f"later_{n}"),)) for n in range(draw(st.sampled_from([0, 2])))]


def _put_odd(draw: st.DrawFn, value: Any) -> None:  # noqa: ANN401 - JSON
    """Go down into a value, and replace, remove or repeat what is in a place."""
    while value:
        keys = sorted(value) if isinstance(value, dict) else range(len(value))
        key = draw(st.sampled_from(keys))
        inner = value[key]
        if not (isinstance(inner, dict | list) and inner) or draw(st.sampled_from([0, 0, 1])):
            _spoil(draw, value, key)
            return
        value = inner


def _spoil(draw: st.DrawFn, value: Any, key: Any) -> None:  # noqa: ANN401 - JSON
    match draw(st.sampled_from(["replace", "replace", "remove", "repeat"])):
        case "remove":
            del value[key]
        case "repeat" if isinstance(value, list):
            value.append(copy.deepcopy(value[key]))
        case _:
            value[key] = copy.deepcopy(draw(ODD))


MARK = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
POINT = {"cachePoint": {"type": "default"}}
SCHEMA = {"name": "shell", "description": "Run it."}

HEADS: Mapping[str, Mapping[str, object]] = {
    "chat": {"stream": True, "tools": [{"type": "function", "function": SCHEMA, **MARK}]},
    "messages": {
        "system": [{"type": "text", "text": "Be brief.", **MARK}],
        "tools": [{**SCHEMA, **MARK}],
        "thinking": {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "keep"}},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
    },
    "converse": {
        "system": [{"text": "Be brief."}, POINT],
        "toolConfig": {"tools": [{"toolSpec": SCHEMA}, POINT]},
        "additionalModelRequestFields": {"thinking": {"type": "adaptive"}},
    },
    "responses": {
        "instructions": "Be brief.",
        "tools": [{"type": "function", **SCHEMA}],
        "prompt_cache_options": {"ttl": "30m"},
        "context_management": [{"type": "other"}],
    },
    "gemini": {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "tools": [{"functionDeclarations": [SCHEMA]}],
        "generationConfig": {"temperature": 1.0},
    },
    "ollama": {"stream": False, "tools": [{"type": "function", "function": SCHEMA}]},
}
"""By format, what stands beside the list."""


@st.composite
def requests(draw: st.DrawFn, writer: Writer) -> dict[str, Any]:
    """A whole request, of which anything may have been replaced, removed or repeated."""
    document: dict[str, Any] = draw(told(writer)).document
    document.get("request", document).update(copy.deepcopy(HEADS[writer.wire.name]))
    for _ in range(draw(st.sampled_from([0, 1, 3]))):
        _put_odd(draw, document)
    return document


Where = Callable[[Mapping[str, Any], Path], bool]


def _at(document: Any, path: Path) -> Any:  # noqa: ANN401 - JSON
    for step in path:
        document = document[step]
    return document


def _in_message_of_a_tool(document: Mapping[str, Any], path: Path) -> bool:
    return bool(path[2] == "content" and _at(document, path[:2])["role"] == "tool")


def _in_block_of_a_result(document: Mapping[str, Any], path: Path) -> bool:
    block = _at(document, path[:4])
    is_there = path[4] == "content" and _at(document, path[:2])["role"] == "user"
    return bool(is_there and block["type"] == "tool_result")


def _in_text_of_a_result(document: Mapping[str, Any], path: Path) -> bool:
    is_there = path[4:6] == ("toolResult", "content") and path[7:] == ("text",)
    return bool(is_there and _at(document, path[:2])["role"] == "user")


def _in_item_of_an_output(document: Mapping[str, Any], path: Path) -> bool:
    return bool(path[2] == "output" and _at(document, path[:2])["type"].endswith("_output"))


def _in_response_of_a_function(document: Mapping[str, Any], path: Path) -> bool:
    return path[-3:-1] == ("functionResponse", "response") and path[-1] != "name"


WHERE: Mapping[str, Where] = {
    "chat": _in_message_of_a_tool,
    "ollama": _in_message_of_a_tool,
    "messages": _in_block_of_a_result,
    "converse": _in_text_of_a_result,
    "responses": _in_item_of_an_output,
    "gemini": _in_response_of_a_function,
}
"""By format: whether a text is one that a tool gave, by rules of its own."""


def rewrite(conversation: Conversation, body: bytes, chosen: MaskPolicy) -> Rewrite:
    return rewrite_request(conversation, Strategies(schema1=chosen))


@EVERY
@given(data=st.data(), spelling=spellings, chosen=policies, begins=st.sampled_from(["", "\ufeff"]))
def test_bytes_differ_only_inside_texts_that_tools_gave(
    writer: Writer, data: st.DataObject, spelling: Spelling, chosen: MaskPolicy, begins: str
) -> None:
    """Or the request cannot be read, and goes out as it came."""
    document = data.draw(requests(writer))
    repeated = data.draw(st.sampled_from([*list(document)[:1], None]))

    def dress(text: str) -> str:
        """Begin with a byte-order mark, or with a key that occurs again, and holds then."""
        twice = f'{{"{repeated}": [0.10e1],' if repeated else "{"
        return begins + twice + text.removeprefix("{")

    before = dress(spelling.spell(document))
    body = before.encode()
    try:
        found = rewrite(read_request(body, writer.wire, writer.path), body, chosen)
    except WireError:
        return
    replaced = list_replacements(found.decisions)
    places = list_places(found.conversation, found.decisions)
    assert all(WHERE[writer.wire.name](document, place) for place in places)
    after = found.body.decode()
    at = 0
    pieces = dress(spelling.spell(_punch(document, places))).split(HOLE)
    for piece, replacement in zip(pieces, [*replaced, None], strict=True):
        assert piece == after[at : at + len(piece)]
        at += len(piece)
        if replacement is not None:
            value, at = JSON.raw_decode(after, at)
            assert replacement.value == value
    assert len(after) == at


@EVERY
@given(data=st.data())
def test_whatever_stands_beside_the_list_is_read(writer: Writer, data: st.DataObject) -> None:
    document = data.draw(requests(writer))
    try:
        conversation = read_conversation(document, writer.wire, writer.path)
    except WireError:
        return
    layout = lay_out(conversation)
    assert 0 <= layout.marked <= layout.requests[0].size
    assert conversation.binding in ("refuses", "drops", None)
    assert all(isinstance(lifetime, str) for lifetime in conversation.marks.lifetimes)
    assert isinstance(writer.wire.streams(document, writer.path), bool)
    assert 16 == len(digest_opening(conversation))
    assert read_prompt(unchanged(conversation), TokenCounter()).tokens_before >= 0


@EVERY
@examples(0.4)
@given(data=st.data(), chosen=policies)
def test_calls_words_and_the_order_of_results_stay(
    writer: Writer, data: st.DataObject, chosen: MaskPolicy
) -> None:
    before = data.draw(told(writer))
    found = rewrite(before.read(), before.body, chosen)
    after = read_request(found.body, writer.wire, writer.path)
    assert [e[:3] for e in before.read().elements] == [e[:3] for e in after.elements]
    assert [_name(r) for r in before.read().results] == [_name(r) for r in after.results]


def _name(result: ToolResult) -> tuple[object, ...]:
    return result.element, result.slots, result.call_id, result.tool, result.turn, result.kind


def _punch(document: Mapping[str, Any], replaced: list[Path]) -> Any:  # noqa: ANN401 - JSON
    """Return the document with a hole at each text that was replaced."""
    copied: Any = copy.deepcopy(document)
    for place in replaced:
        parent = _at(copied, place[:-1])
        assert isinstance(parent[place[-1]], str)
        parent[place[-1]] = Hole()
    return copied


@TWO
@examples(0.4)
@given(data=st.data(), chosen=policies)
def test_rewriting_twice_equals_once(
    writer: Writer, data: st.DataObject, chosen: MaskPolicy
) -> None:
    sliding = policy(chosen, cache_read_ratio=1.0)
    body = data.draw(told(writer)).body
    once = rewrite(read_request(body, writer.wire, writer.path), body, sliding).body
    assert once is rewrite(read_request(once, writer.wire, writer.path), once, sliding).body


@TWO
@examples(0.3)
@given(data=st.data(), chosen=policies)
def test_a_growing_conversation_never_unmasks(
    writer: Writer, data: st.DataObject, chosen: MaskPolicy
) -> None:
    whole = data.draw(told(writer))
    before: dict[Path, str] = {}
    for end in range(len(whole.items) + 1):
        part = whole.until(end)
        found = rewrite(part.read(), part.body, chosen)
        placeholders = [each.placeholder for each in list_replacements(found.decisions)]
        places = list_places(found.conversation, found.decisions)
        masked = dict(zip(places, placeholders, strict=True))
        assert before.items() <= masked.items()
        before = masked


@EVERY
@given(data=st.data())
def test_every_result_has_a_size_and_is_read_where_it_stands(
    writer: Writer, data: st.DataObject
) -> None:
    conversation = data.draw(told(writer)).read()
    layout = lay_out(conversation)
    assert len(conversation.results) == len(layout.sizes) == len(layout.offsets)
    assert sorted(layout.offsets) == [*layout.offsets]
    for result in conversation.results:
        tails = result.tails or ("",) * len(result.texts)
        for text, tail, slot in zip(result.texts, tails, result.slots, strict=True):
            assert text + tail == _at(conversation.items[result.element], slot)
    digest_opening(conversation)


@EVERY
@examples(0.4)
@given(data=st.data(), budget=st.sampled_from([10, 500, 2_000]), chosen=policies)
def test_whatever_is_in_a_request_the_strategies_leave_a_request(
    writer: Writer, data: st.DataObject, budget: int, chosen: MaskPolicy
) -> None:
    request = data.draw(told(writer))
    strategies = Strategies(
        schema1=chosen,
        redaction=RedactionPolicy(True, ("shell",), TEMPLATE),
        reduction=ReductionOptions(
            enabled=True, max_input_chars=budget, preserve_recent_raw_turns=2
        ),
    )
    body = request.body
    try:
        changed = rewrite_request(request.read(), strategies)
    except WireError:
        return
    before, after = json.loads(body), json.loads(changed.body)
    changeable = request.read().list_path[0]
    assert [*before] == [*after]
    assert all(before[key] == after[key] for key in before if key != changeable)
    read_request(changed.body, writer.wire, writer.path)
    read_prompt(changed, TokenCounter())

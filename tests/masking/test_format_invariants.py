"""What holds for every conversation in every wire format, spelled well or broken anywhere."""

import copy
import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masking.conversation import Conversation, read_conversation
from masking.edit.splice import apply
from masking.errors import WireError
from masking.model import Edits, replacements_of
from masking.rewrite import rewrite_request
from masking.strategies.policy import MaskPolicy
from masking.strategies.window import decide
from tests.builders import (
    HOLE,
    OLD,
    Hole,
    Spelling,
    examples,
    policies,
    policy,
    spellings,
    texts,
)
from tests.made_up_format import MADE_UP
from tests.wire_conversations import WRITERS, Ask, Give, Model, Step, Tools, User, Writer, turns

EVERY = pytest.mark.parametrize(
    "writer", [each for each in WRITERS if each.wire is not MADE_UP], ids=lambda each: each.name
)

JSON = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str)

Place = tuple[str | int, ...]


# Conversations, and what a broken client may make of them.

_ids = st.sampled_from(["call_0", "call_0", "call_1", 'é"\\', ""])
_tools = st.sampled_from(["shell", "read", "é"])
_asks = st.builds(Ask, _ids, _tools, st.sampled_from([{}, {"path": "a.py"}]))
_contents = st.one_of(texts, st.tuples(texts, texts), st.just(OLD), st.just({"out": OLD}))
_gives = st.builds(Give, _ids, _contents, _tools, st.booleans())
_words = st.sampled_from(["", "I look.", "é"])
_steps: st.SearchStrategy[Step] = st.one_of(
    st.builds(User, _words),
    st.builds(Model, st.lists(_asks, max_size=3).map(tuple), _words, _words),
    st.builds(Tools, st.lists(_gives, max_size=3).map(tuple)),
)


def _pair(ask: Ask, content: Any, *, fails: bool) -> list[Step]:  # noqa: ANN401 - as a client gives it
    given = Give(ask.call_id, content, ask.tool, fails)
    return [Model((ask,), "", "Hm."), Tools((given,))]


_pairs = st.builds(_pair, _asks, _contents, fails=st.booleans())
_talks = st.builds(
    lambda blocks, later: [User(), *(step for block in blocks for step in block), *turns(later)],
    st.lists(st.one_of(_pairs, _pairs, _steps.map(lambda step: [step])), max_size=6),
    st.sampled_from([2, 1, 0]),
)

_junk: st.SearchStrategy[object] = st.sampled_from(
    [None, 7, -0.5, True, "", OLD, [], {}, [None], [[]], {"type": "text", "text": OLD}, {"a": {}}]
)


def _find_places(value: object, place: Place = ()) -> Iterator[Place]:
    """Yield the paths of all that is in a value."""
    members = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, inner in members:
        yield (*place, key)
        yield from _find_places(inner, (*place, key))


@st.composite
def broken(draw: st.DrawFn, writer: Writer) -> dict[str, Any]:
    """A request in which some values are of another type, missing, or somewhere else."""
    document: dict[str, Any] = copy.deepcopy(writer.tell(*draw(_talks)).document)
    for _ in range(draw(st.integers(1, 4))):
        places = list(_find_places(document))
        *path, key = draw(st.sampled_from(places))
        holder: Any = document
        for step in path:
            holder = holder[step]
        match draw(st.sampled_from(["replace", "remove", "repeat"])):
            case "replace":
                holder[key] = draw(_junk)
            case "remove":
                del holder[key]
                if not document:
                    return document
            case _ if isinstance(holder, list):
                holder.append(copy.deepcopy(draw(st.sampled_from(holder))))
    return document


def read(document: dict[str, Any], writer: Writer, chosen: MaskPolicy) -> Conversation | None:
    try:
        return read_conversation(document, writer.wire, writer.path)
    except WireError:
        return None


@EVERY
@examples(0.15)
@given(st.data(), spellings, policies)
def test_no_byte_changes_but_in_the_texts_of_results(
    writer: Writer, data: st.DataObject, spelling: Spelling, chosen: MaskPolicy
) -> None:
    """Whatever the request looks like: it is masked exactly, or it cannot be read."""
    chosen = policy(chosen, keep_latest_turns=0)
    document = data.draw(st.one_of(_talks.map(lambda s: writer.tell(*s).document), broken(writer)))
    before = spelling.spell(document).encode()
    conversation = read(document, writer, chosen)
    if conversation is None:
        with pytest.raises(WireError):
            rewrite_request(before, chosen, writer.wire, writer.path)
        return
    after = rewrite_request(before, chosen, writer.wire, writer.path).body.decode()
    replacements = replacements_of(decide(conversation, chosen))
    masked = apply(document, Edits(replacements), conversation.list_path)
    with_holes, fillings = _punch(document, masked)
    assert len(replacements) == len(fillings)
    at = 0
    for piece in spelling.spell(with_holes).split(HOLE):
        assert piece == after[at : at + len(piece)]
        at += len(piece)
        if fillings:
            found, at = JSON.raw_decode(after, at)
            assert fillings.pop(0) == found
    assert len(after) == at


def _punch(document: object, masked: object) -> tuple[object, list[object]]:
    """Return the document with a hole at each value that was replaced, and what fills them."""
    fillings: list[object] = []

    def compare(old: object, new: object) -> object:
        if old is new:
            return old
        if isinstance(old, dict) and isinstance(new, dict) and old.keys() == new.keys():
            return {key: compare(old[key], new[key]) for key in old}
        if isinstance(old, list) and isinstance(new, list):
            return [compare(*pair) for pair in zip(old, new, strict=True)]
        fillings.append(new)
        return Hole()

    return compare(document, masked), fillings


@EVERY
@examples(0.15)
@given(_talks, policies)
def test_masking_twice_equals_once(
    writer: Writer, steps: Sequence[Step], chosen: MaskPolicy
) -> None:
    sliding = policy(chosen, cache_read_ratio=1.0)
    told = writer.tell(*steps)
    once = rewrite_request(told.body, sliding, writer.wire, writer.path).body
    assert once is rewrite_request(once, sliding, writer.wire, writer.path).body


@EVERY
@examples(0.15)
@given(_talks, policies)
def test_calls_results_and_their_order_stay(
    writer: Writer, steps: Sequence[Step], chosen: MaskPolicy
) -> None:
    told = writer.tell(*steps)
    found = rewrite_request(told.body, chosen, writer.wire, writer.path)
    after = read_conversation(json.loads(found.body), writer.wire, writer.path)
    before = told.read()
    assert len(before.results) == len(found.decisions)
    assert [e.calls for e in before.elements] == [e.calls for e in after.elements]
    assert [e.texts for e in before.elements] == [e.texts for e in after.elements]
    kinds = [(r.call_id, r.tool, r.turn, r.slots, r.is_error) for r in before.results]
    assert kinds == [(r.call_id, r.tool, r.turn, r.slots, r.is_error) for r in after.results]


@EVERY
@examples(0.1)
@given(_talks, policies)
def test_a_growing_conversation_never_unmasks(
    writer: Writer, steps: Sequence[Step], chosen: MaskPolicy
) -> None:
    sliding = policy(chosen, cache_read_ratio=1.0, keep_latest_turns=0)
    told = writer.tell(*steps)
    masked: frozenset[int] = frozenset()
    for end in range(len(told.items) + 1):
        part = told.until(end)
        now = rewrite_request(part.body, sliding, writer.wire, writer.path).masked
        assert masked <= now
        masked = now

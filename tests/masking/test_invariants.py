"""What holds for every conversation, every policy and every spelling of a request."""

import copy
import json
from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from masking import ChatMessage, MaskPolicy
from masking.messages_api import edit_messages
from masking.model import Edits, replacements_of
from masking.window.decide import find_asked_again
from tests.support.builders import (
    HOLE,
    MASK_ALL,
    Hole,
    Spelling,
    conversations,
    documents,
    examples,
    policies,
    policy,
    read,
    read_body,
    spellings,
)
from tests.support.priced import decide, evaluate, mask_old_tool_results, rewrite_request

Pair = tuple[object, object]
"""The same place before and after."""

JSON = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str)


@given(conversations(), policies)
def test_no_input_is_mutated(messages: list[ChatMessage], chosen: MaskPolicy) -> None:
    before = copy.deepcopy(messages)
    mask_old_tool_results(messages, chosen)
    assert before == messages


@given(conversations(), policies)
def test_masking_twice_equals_once(messages: list[ChatMessage], chosen: MaskPolicy) -> None:
    """With a price on moving, a shorter history may have the boundary stand elsewhere."""
    sliding = policy(chosen, cache_read_ratio=1.0)
    once = mask_old_tool_results(messages, sliding)
    assert once is mask_old_tool_results(once, sliding)


@given(conversations(), policies)
def test_only_texts_of_tool_results_change(messages: list[ChatMessage], chosen: MaskPolicy) -> None:
    after = mask_old_tool_results(messages, chosen)
    assert len(messages) == len(after)
    for old, new in zip(messages, after, strict=True):
        if old is not new:
            assert old["role"] == "tool"
            assert [*old] == [*new]
            assert {**old, "content": None} == {**new, "content": None}
            assert all(_is_masked_text(*pair) for pair in _texts(old["content"], new["content"]))


def _texts(old: object, new: object) -> Iterator[Pair]:
    """Yield what may differ: a string content, or the texts of a list's parts."""
    if not isinstance(old, list):
        yield old, new
        return
    assert isinstance(new, list)
    for part, other in zip(old, new, strict=True):
        if part != other:
            assert {**part, "text": None} == {**other, "text": None}
            yield part["text"], other["text"]


def _is_masked_text(old: object, new: object) -> bool:
    return isinstance(old, str) and isinstance(new, str) and (new != "" or old == "")


@given(conversations(), policies)
def test_every_result_has_one_decision(messages: list[ChatMessage], chosen: MaskPolicy) -> None:
    body: dict[str, object] = {"messages": messages}
    decisions = decide(read_body(body, chosen.wanted_arguments), chosen)
    expected = [
        i
        for i, message in enumerate(messages)
        if isinstance(message, dict) and message.get("role") == "tool"
    ]
    assert expected == [decision.result.element for decision in decisions]
    after = mask_old_tool_results(messages, chosen)
    for decision in decisions:
        at = decision.result.element
        assert (decision.reason == "masked") == (messages[at] is not after[at])


@examples(0.4)
@given(conversations(), policies)
def test_a_growing_conversation_never_unmasks(
    messages: list[ChatMessage], chosen: MaskPolicy
) -> None:
    masked: dict[int, ChatMessage] = {}
    for n in range(len(messages) + 1):
        after = mask_old_tool_results(messages[:n], chosen)
        assert masked == {i: after[i] for i in masked}
        masked = {i: new for i, new in enumerate(after) if new is not messages[i]}


@given(conversations())
def test_what_was_asked_for_again_stays_so(messages: list[ChatMessage]) -> None:
    found: set[int] = set()
    for n in range(len(messages) + 1):
        now = {*find_asked_again(evaluate(read(messages[:n]), MASK_ALL), MASK_ALL.window_turns)}
        before = read(messages[: n - 1]).results if n else ()
        # A result may stand before its call. Until that comes it is an orphan, and stays for that.
        bound = {place for place, result in enumerate(before) if result.turn is not None}
        assert found == now & bound
        found = now


@given(conversations(), policies, st.sampled_from([{"enabled": False}, {"window_turns": 0}]))
def test_off_masks_nothing(
    messages: list[ChatMessage], chosen: MaskPolicy, off: dict[str, object]
) -> None:
    assert messages is mask_old_tool_results(messages, policy(chosen, **off))


@given(conversations(), policies)
def test_with_skip_if_not_shorter_no_text_grows(
    messages: list[ChatMessage], chosen: MaskPolicy
) -> None:
    shrinking = policy(chosen, skip_if_not_shorter=True)
    body: dict[str, object] = {"messages": messages}
    for decision in decide(read_body(body, shrinking.wanted_arguments), shrinking):
        assert (decision.chars_after < decision.chars_before) == (decision.reason == "masked")


@examples(2)
@given(documents(), spellings, policies)
def test_bytes_differ_only_inside_the_masked_strings(
    document: dict[str, object], spelling: Spelling, chosen: MaskPolicy
) -> None:
    before = spelling.spell(document)
    after = rewrite_request(before.encode(), chosen).body.decode()
    messages = document["messages"]
    assert isinstance(messages, list)
    conversation = read_body(document, chosen.wanted_arguments)  # its tools have a size, too
    masked = edit_messages(conversation, Edits(replacements_of(decide(conversation, chosen))))
    with_holes, placeholders = _punch({**document, "messages": messages}, masked)
    at = 0
    for piece in spelling.spell(with_holes).split(HOLE):
        assert piece == after[at : at + len(piece)]
        at += len(piece)
        if placeholders:
            found, at = JSON.raw_decode(after, at)
            assert placeholders.pop(0) == found
    assert len(after) == at
    assert JSON.decode(spelling.spell({**document, "messages": masked})) == JSON.decode(after)


def _punch(
    document: dict[str, object], masked: list[ChatMessage]
) -> tuple[dict[str, object], list[str]]:
    """Return the document with a hole at each string that was masked, and what fills them."""
    placeholders: list[str] = []

    def compare(old: object, new: object) -> object:
        if old is new:
            return old
        if isinstance(old, dict) and isinstance(new, dict):
            return {key: compare(old[key], new[key]) for key in old}
        if isinstance(old, list) and isinstance(new, list):
            return [compare(*pair) for pair in zip(old, new, strict=True)]
        assert isinstance(new, str)
        placeholders.append(new)
        return Hole()

    return {**document, "messages": compare(document["messages"], masked)}, placeholders


@given(documents(), spellings, policies)
def test_rewriting_twice_equals_once(
    document: dict[str, object], spelling: Spelling, chosen: MaskPolicy
) -> None:
    sliding = policy(chosen, cache_read_ratio=1.0)
    once = rewrite_request(spelling.spell(document).encode(), sliding).body
    assert once is rewrite_request(once, sliding).body

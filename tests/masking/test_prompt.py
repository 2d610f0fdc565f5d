import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masking import MaskPolicy, rewrite_request
from masking.accounting.prefix_cache import Piece
from masking.accounting.prompt import digest_element, digest_of, read_prompt
from masking.model import Decision, Replacement, replacements_of
from masking.rewrite import Rewrite, read_request
from masking.tokens import TokenCounter, count_tools
from masking.wire.chat import CHAT
from masking.wire.format import WireFormat
from masking.wire.messages import MESSAGES
from tests.builders import (
    IMAGE,
    MASK_ALL,
    OLD,
    assistant,
    call,
    documents,
    parts,
    policies,
    policy,
    read_body,
    result,
    texts,
    turn,
    unchanged,
)

COUNTER = TokenCounter()


def mask(document: object, chosen: MaskPolicy = MASK_ALL) -> Rewrite:
    return rewrite_request(json.dumps(document).encode(), chosen)


def _count(message: object) -> int:
    texts, others = CHAT.count_parts(message)
    return others + sum(map(COUNTER.count, texts))


def _replace(document: dict[str, Any], replacements: tuple[Replacement, ...]) -> Rewrite:
    conversation = read_body(document)
    decision = Decision(conversation.results[0], "masked", replacements)
    return Rewrite(body=b"", conversation=conversation, decisions=(decision,))


def test_a_prompt_is_its_tools_and_then_its_messages() -> None:
    tools = [{"type": "function", "function": {"name": "shell"}}]
    messages: list[dict[str, object]] = [{"role": "user", "content": "go"}, *turn()]
    prompt = read_prompt(
        unchanged(read_body({"messages": messages, "tools": tools, "model": "m"})), COUNTER
    )
    assert prompt.before == (
        Piece(digest_of([tools]), count_tools(COUNTER, tools)),
        *(
            Piece(digest_element(CHAT, m), _count(m), begins_answer=m["role"] == "assistant")
            for m in messages
        ),
    )
    assert prompt.before == prompt.after
    assert 0 == prompt.altered


MARK = {"cache_control": {"type": "ephemeral"}}
NO_MARK: dict[str, object] = {}


@pytest.mark.parametrize(
    ("document", "parts_", "expected"),
    [
        pytest.param({}, [NO_MARK] * 2, [False] * 3, id="no mark"),
        pytest.param({"tools": [{}, MARK]}, [NO_MARK] * 2, [True, False, False], id="on a tool"),
        pytest.param(MARK, [NO_MARK] * 2, [False, False, True], id="at the top: on the end"),
        pytest.param({"tools": [MARK], **MARK}, [NO_MARK], [True, True], id="tool and top"),
        pytest.param({}, [MARK, NO_MARK], [False, True, False], id="on a message"),
        pytest.param(MARK, [], [True], id="at the top of a request of nothing"),
    ],
)
@pytest.mark.parametrize("wire", [CHAT, MESSAGES], ids=["chat", "messages"])
def test_a_piece_tells_whether_it_is_marked(
    wire: WireFormat,
    document: dict[str, object],
    parts_: list[dict[str, object]],
    expected: list[bool],
) -> None:
    texts_ = [{"type": "text", "text": "go", **part} for part in parts_]
    messages = [{"role": "user", "content": [text]} for text in texts_]
    request = read_request(json.dumps({**document, "messages": messages}).encode(), wire)
    assert expected == [p.is_marked for p in read_prompt(unchanged(request), COUNTER).before]


def test_a_masked_result_is_another_piece_by_as_much_smaller_as_its_placeholder() -> None:
    messages = [*turn("a"), *turn("b", parts(OLD, "x", OLD)), *turn("c")]
    masked = mask({"messages": messages}, policy(mask_text_parts=True))
    prompt = read_prompt(masked, COUNTER)
    changed = [b != a for b, a in zip(prompt.before, prompt.after, strict=True)]
    assert [False, False, True, False, True, False, False] == changed
    placeholder = COUNTER.count("<a|shell|330>")
    assert 5 == prompt.altered
    assert 4 + placeholder == prompt.after[2].tokens
    placeholders = 2 * COUNTER.count("<b|shell|330>")
    assert 4 + placeholders + COUNTER.count("x") == prompt.after[4].tokens


@pytest.mark.parametrize(
    "one", ["<a|shell|330>", "<a|shell|331>", "", OLD], ids=["one", "another", "empty", "the text"]
)
def test_another_placeholder_in_another_place_is_another_piece(one: str) -> None:
    document = {"messages": [*turn(), *turn()]}
    found = {
        read_prompt(_replace(document, replacements), COUNTER).after[2].digest
        for replacements in (
            (),
            (Replacement(("messages", 1, "content"), OLD, one),),
            (Replacement(("messages", 1, "content"), OLD, "another"),),
            (Replacement(("messages", 1, "content", 0, "text"), OLD, one),),
        )
    }
    assert 4 == len(found)


@given(documents(), policies)
def test_the_prompt_shrinks_by_what_its_replacements_save(
    document: dict[str, object], chosen: MaskPolicy
) -> None:
    masked = mask(document, chosen)
    prompt, replacements = read_prompt(masked, COUNTER), replacements_of(masked.decisions)
    saved = sum(COUNTER.count(r.text) - COUNTER.count(r.placeholder) for r in replacements)
    assert prompt.tokens_before - prompt.tokens_after == saved
    assert all(piece.tokens >= 0 for piece in (*prompt.before, *prompt.after))


@given(documents(), policies)
def test_what_is_not_masked_is_the_same_before_and_after(
    document: dict[str, object], chosen: MaskPolicy
) -> None:
    masked = mask(document, chosen)
    prompt = read_prompt(masked, COUNTER)
    changed = {d.result.element for d in masked.decisions if d.replacements}
    for place, (before, after) in enumerate(zip(prompt.before, prompt.after, strict=True), -1):
        assert (place not in changed) == (before == after)
        assert (place not in changed) == (before.digest == after.digest)


def nest(depth: int) -> object:
    value: object = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param("\ud83d", id="a lone surrogate"),
        pytest.param(10**30, id="an integer beyond 64 bits"),
        pytest.param(10**5_000, id="an integer of thousands of digits"),
        pytest.param([10**5_000, "\ud83d"], id="both"),
        pytest.param(float("nan"), id="no number"),
        pytest.param(nest(300), id="nested deeper than one encoder goes"),
        pytest.param(nest(100_000), id="nested deeper than any goes"),
        pytest.param({"type": "text"}, id="a part"),
        pytest.param(None, id="nothing"),
    ],
)
def test_nothing_raises(odd: object) -> None:
    for document in (
        {"messages": [{"role": "tool", "content": odd}], "tools": [odd]},
        {"messages": [{"role": "tool", "content": [odd]}], "tools": odd},
        {"messages": [odd, {"role": odd, "tool_calls": [odd], "cache_control": odd}]},
    ):
        prompt = read_prompt(unchanged(read_body(document)), COUNTER)
        assert prompt.tokens_before == prompt.tokens_after >= 0


json_values: st.SearchStrategy[Any] = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.integers(-(10**40), 10**40),
        st.floats(allow_nan=False, allow_infinity=False),
        texts,
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


@given(json_values, json_values)
def test_digests_are_equal_where_the_json_is(one: object, other: object) -> None:
    assert (json.dumps(one) == json.dumps(other)) == (digest_of(one) == digest_of(other))
    assert digest_of(one) == digest_of(json.loads(json.dumps(one)))
    assert 16 == len(digest_of(one))


MESSAGE = {"role": "assistant", "content": "a", "tool_calls": [call()]}


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({**MESSAGE, "role": "user"}, id="its role"),
        pytest.param({**MESSAGE, "content": "b"}, id="its content"),
        pytest.param({**MESSAGE, "content": None}, id="its content, for none"),
        pytest.param({**MESSAGE, "content": parts("a", "")}, id="its content, for two parts"),
        pytest.param({**MESSAGE, "content": [*parts("a"), IMAGE]}, id="an image added"),
        pytest.param({**MESSAGE, "content": ["a"]}, id="its content, for a list of a string"),
        pytest.param({**MESSAGE, "content": []}, id="its content, for an empty list"),
        pytest.param({**MESSAGE, "tool_calls": [call("b")]}, id="a call's id"),
        pytest.param({**MESSAGE, "name": "x"}, id="a key more"),
        pytest.param({"role": "assistant", "content": "a"}, id="a key less"),
        pytest.param(dict(reversed(MESSAGE.items())), id="the order of its keys"),
    ],
)
def test_a_message_with_anything_else_in_it_is_another(other: dict[str, object]) -> None:
    assert digest_element(CHAT, MESSAGE) != digest_element(CHAT, other)


MARK = {"cache_control": {"type": "ephemeral"}}


@pytest.mark.parametrize(
    ("plain", "marked"),
    [
        pytest.param(result(), {**result(), **MARK}, id="a message"),
        pytest.param(
            result(),
            {**result(), "content": parts(OLD), **MARK},
            id="a result, as a list of a part",
        ),
        pytest.param(
            {"role": "user", "content": "go"},
            {"role": "user", "content": [{"type": "text", "text": "go", **MARK}]},
            id="a string, as a part that is marked",
        ),
        pytest.param(
            {"role": "user", "content": [*parts("a"), IMAGE]},
            {"role": "user", "content": [*parts("a"), {**IMAGE, **MARK}]},
            id="the last of several parts",
        ),
        pytest.param(assistant(call()), {**assistant(call()), **MARK}, id="a message of calls"),
        pytest.param("go", "go", id="a message that is no object"),
    ],
)
def test_a_cache_marker_makes_no_other_message(plain: object, marked: object) -> None:
    """As mini-swe-agent moves it on to the last message of every request."""
    assert digest_element(CHAT, plain) == digest_element(CHAT, marked)


def test_a_marker_inside_a_calls_arguments_is_no_marker() -> None:
    asked = {"role": "assistant", "content": None, "tool_calls": [{"id": "a", **MARK}]}
    assert digest_element(CHAT, asked) != digest_element(
        CHAT, {**asked, "tool_calls": [{"id": "a"}]}
    )

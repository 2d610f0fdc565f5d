"""A prompt in tokens before and after masking: its pieces, its sizes, its parts."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masking import MaskPolicy, rewrite_request
from masking.accounting.prompt import (
    PARTS,
    Prompt,
    Runs,
    Sizes,
    digest_elements,
    digest_of,
    measure,
    read_prompt,
    run_lengths,
)
from masking.conversation import Piece
from masking.model import Decision, Reason, Replacement
from masking.redaction import RedactionPolicy
from masking.reduction import ReductionOptions
from masking.request_cache import RequestCache
from masking.rewrite import Rewrite, Strategies, read_request
from masking.tokens import TokenCounter
from masking.wire.chat import CHAT
from masking.wire.format import WireFormat, render_tools
from masking.wire.messages import MESSAGES
from masking.wire.responses import RESPONSES
from tests.masking.test_request_cache import NAMES, POLICIES, grow, outcome
from tests.support.builders import (
    IMAGE,
    MASK_ALL,
    OLD,
    assistant,
    call,
    documents,
    list_replacements,
    parts,
    policies,
    policy,
    read,
    read_body,
    result,
    texts,
    turn,
    unanswered,
    unchanged,
)
from tests.support.marks import as_one_test
from tests.support.priced import rewrite_request as rewrite_priced
from tests.support.wire_conversations import (
    IN_EVERY_FORMAT,
    IN_TWO_FORMATS,
    WRITERS,
    Ask,
    Give,
    Model,
    Step,
    Told,
    Tools,
    User,
    Writer,
    spell,
    turns,
)
from tests.support.wire_conversations import turn as wire_turn

COUNTER = TokenCounter()


def mask(document: object, chosen: MaskPolicy = MASK_ALL) -> Rewrite:
    return rewrite_request(json.dumps(document).encode(), chosen)


def digest(message: object) -> bytes:
    return digest_of(CHAT.unmark(message))


def _count(message: object) -> int:
    texts, others = CHAT.count_parts(message)
    return others + sum(map(COUNTER.count, texts))


def _replace(document: dict[str, Any], replacements: tuple[Replacement, ...]) -> Rewrite:
    conversation = read_body(document)
    decision = Decision(conversation.results[0], "masked", replacements)
    return unchanged(conversation, (decision,))


def test_a_prompt_is_its_tools_and_then_its_messages() -> None:
    tools = [{"type": "function", "function": {"name": "shell"}}]
    messages: list[dict[str, object]] = [{"role": "user", "content": "go"}, *turn()]
    prompt = read_prompt(
        unchanged(read_body({"messages": messages, "tools": tools, "model": "m"})), COUNTER
    )
    assert prompt.before == (
        Piece(digest_of([tools]), COUNTER.count(render_tools(tools))),
        *(Piece(digest(m), _count(m), begins_answer=m["role"] == "assistant") for m in messages),
    )
    assert prompt.before == prompt.after
    assert 0 == prompt.altered


MARK = {"cache_control": {"type": "ephemeral"}}
NO_MARK: dict[str, object] = {}


@as_one_test
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


def test_a_breakpoint_marks_its_piece() -> None:
    breakpoint_ = {"prompt_cache_breakpoint": {"mode": "explicit"}}
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": "go", **part}]}
        for part in (NO_MARK, breakpoint_, NO_MARK)
    ]
    request = read_request(json.dumps({"input": items}).encode(), RESPONSES)
    expected = [False, False, True, False]
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
            (Replacement(("content",), OLD, one),),
            (Replacement(("content",), OLD, "another"),),
            (Replacement(("content", 0, "text"), OLD, one),),
        )
    }
    assert 4 == len(found)


@given(documents(), policies)
def test_the_prompt_shrinks_by_what_its_replacements_save(
    document: dict[str, object], chosen: MaskPolicy
) -> None:
    masked = mask(document, chosen)
    prompt, replacements = read_prompt(masked, COUNTER), list_replacements(masked.decisions)
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


@as_one_test
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


@as_one_test
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
    assert digest(MESSAGE) != digest(other)


MARK = {"cache_control": {"type": "ephemeral"}}


@as_one_test
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
    assert digest(plain) == digest(marked)


def test_a_marker_inside_a_calls_arguments_is_no_marker() -> None:
    asked = {"role": "assistant", "content": None, "tool_calls": [{"id": "a", **MARK}]}
    assert digest(asked) != digest({**asked, "tool_calls": [{"id": "a"}]})


def rewrite_and_measure(body: bytes, chosen: MaskPolicy = MASK_ALL) -> tuple[Rewrite, Sizes]:
    masked = rewrite_request(body, chosen)
    prompt = read_prompt(masked, COUNTER)
    return masked, measure(masked, prompt)


PLACEHOLDER = "<a|shell|330>"
CONVERSATION = [
    {"role": "user", "content": "gö"},
    *turn("a"),
    *turn("b", 7),
    result("orphan"),
    *turn("a"),
]


def test_everything_is_counted_before_and_after() -> None:
    body = json.dumps({"messages": CONVERSATION}, ensure_ascii=False).encode()
    _, sizes = rewrite_and_measure(body)
    text, placeholder = COUNTER.count(OLD), COUNTER.count(PLACEHOLDER)
    tokens = read_prompt(unchanged(read(CONVERSATION)), COUNTER).tokens_before
    assert sizes == Sizes(
        messages=8,
        tool_turns=3,
        tool_results=4,
        masked=1,
        kept={"not_string": 1, "orphan": 1, "in_window": 1},
        result_reasons=((1, "masked"), (1, "not_string"), (1, "orphan"), (1, "in_window")),
        tool_chars_before=3 * 330,
        tool_chars_after=2 * 330 + len(PLACEHOLDER),
        request_tokens_before=tokens,
        request_tokens_after=tokens - text + placeholder,
        composition={
            "user": COUNTER.count("gö") + 4,
            "assistant": 42,
            "results": 2 * text + 16,
            "placeholders": placeholder,
        },
    )


def test_without_a_prompt_tokens_are_not_known() -> None:
    body = json.dumps({"messages": CONVERSATION}).encode()
    sizes = measure(rewrite_request(body, MASK_ALL))
    assert (None, None) == (sizes.request_tokens_before, sizes.request_tokens_after)
    assert (1, 990) == (sizes.masked, sizes.tool_chars_before)


@pytest.mark.parametrize(
    ("messages", "chosen"),
    [
        pytest.param([], MASK_ALL, id="no messages"),
        pytest.param([None, "x", {}], MASK_ALL, id="no results"),
        pytest.param([*turn(), *unanswered()], policy(enabled=False), id="off"),
    ],
)
def test_where_nothing_is_masked_before_is_after(messages: object, chosen: MaskPolicy) -> None:
    _, sizes = rewrite_and_measure(json.dumps({"messages": messages}).encode(), chosen)
    assert 0 == sizes.masked
    assert (sizes.tool_chars_before, sizes.request_tokens_before) == (
        sizes.tool_chars_after,
        sizes.request_tokens_after,
    )


@given(documents(), policies)
def test_the_parts_add_up(document: dict[str, object], chosen: MaskPolicy) -> None:
    masked, sizes = rewrite_and_measure(json.dumps(document).encode(), chosen)
    assert sizes.tool_results == sizes.masked + sum(sizes.kept.values())
    assert "masked" not in sizes.kept
    replacements = list_replacements(masked.decisions)
    shrunk = sum(len(r.text) - len(r.placeholder) for r in replacements)
    assert shrunk == sizes.tool_chars_before - sizes.tool_chars_after
    assert sizes.request_tokens_before is not None
    saved = sum(COUNTER.count(r.text) - COUNTER.count(r.placeholder) for r in replacements)
    assert saved == sizes.request_tokens_before - (sizes.request_tokens_after or 0)


@pytest.mark.parametrize(
    ("reasons", "row"),
    [
        pytest.param([], (), id="no result"),
        pytest.param(["masked"], ((1, "masked"),), id="one result"),
        pytest.param(
            ["masked"] * 12 + ["error", "in_window", "in_window"],
            ((12, "masked"), (1, "error"), (2, "in_window")),
            id="runs",
        ),
        pytest.param(
            ["masked", "error", "masked"],
            ((1, "masked"), (1, "error"), (1, "masked")),
            id="a reason that comes back",
        ),
    ],
)
def test_reasons_are_counted_in_a_row(reasons: list[Reason], row: Runs) -> None:
    assert row == run_lengths(reasons)


# What a prompt is composed of, in every wire format.


OFF = Strategies()
REDUCE = ReductionOptions(
    enabled=True, max_input_chars=1_500, preserve_recent_raw_turns=2, observation_masking=False
)
TALK: Sequence[Step] = (User("Fix it."), *wire_turn("a"), *wire_turn("b"), Model((), "Done."))


def measure_parts(told: Told, strategies: Strategies = OFF) -> tuple[Sizes, Mapping[str, int]]:
    """Return the sizes of a request, and of its parts, which add up to it."""
    found = rewrite_priced(told.read(), strategies)
    sizes = measure(found, read_prompt(found, COUNTER))
    assert sizes.composition is not None
    assert sizes.request_tokens_after == sum(sizes.composition.values())
    return sizes, sizes.composition


@as_one_test
@IN_EVERY_FORMAT
def test_each_element_is_its_speakers(writer: Writer) -> None:
    _, parts = measure_parts(writer.tell(*TALK))
    assert ["user", "assistant", "results"] == [*parts]
    assert parts["results"] >= 2 * COUNTER.count(OLD) > parts["user"] + parts["assistant"]
    assert parts["user"] < 12, "what only carries results is not the user's"


@as_one_test
@IN_EVERY_FORMAT
def test_what_masking_puts_in_place_is_told_apart(writer: Writer) -> None:
    _, before = measure_parts(writer.tell(*TALK))
    sizes, after = measure_parts(writer.tell(*TALK), Strategies(schema1=MASK_ALL))
    assert (1, ["user", "assistant", "results", "placeholders"]) == (sizes.masked, [*after])
    assert 0 < after["placeholders"] < 20
    saved = (sizes.request_tokens_before or 0) - (sizes.request_tokens_after or 0)
    assert before["results"] - saved == after["results"] + after["placeholders"]
    assert (before["user"], before["assistant"]) == (after["user"], after["assistant"])


@as_one_test
@IN_EVERY_FORMAT
def test_a_placeholder_that_the_client_sends_is_one(writer: Writer) -> None:
    told = writer.tell(*TALK)
    masked = rewrite_priced(told.read(), Strategies(schema1=MASK_ALL))
    again = read_request(masked.body, writer.wire, writer.path)
    found = rewrite_priced(again, Strategies(schema1=MASK_ALL))
    sizes = measure(found, read_prompt(found, COUNTER))
    assert {"already_masked": 1, "in_window": 1} == sizes.kept
    assert measure_parts(told, Strategies(schema1=MASK_ALL))[1] == sizes.composition


@as_one_test
@IN_EVERY_FORMAT
def test_what_is_dropped_is_gone_and_the_summary_is_the_users(writer: Writer) -> None:
    told = writer.tell(User("Fix it."), *(step for n in range(9) for step in wire_turn(f"t{n}")))
    _, before = measure_parts(told)
    sizes, after = measure_parts(told, Strategies(reduction=REDUCE))
    assert "summarization" == sizes.reduction_stage
    assert before["user"] < after["user"]
    assert 4 * after["results"] < before["results"]


TOOLS = [{"name": "shell", "description": "runs a command"}]
CALL = {"id": "a", "type": "function", "function": {"name": "shell", "arguments": "{}"}}
DATA_IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


@as_one_test
@pytest.mark.parametrize(
    ("writer", "extra", "expected"),
    [
        ("chat", {"tools": TOOLS}, {"tools"}),
        ("messages", {"tools": TOOLS, "system": "Be brief."}, {"tools", "system"}),
        ("messages", {"system": [{"type": "text", "text": "Be brief."}]}, {"system"}),
        ("responses", {"tools": TOOLS, "instructions": "Be brief."}, {"tools", "system"}),
        ("gemini", {"tools": TOOLS, "systemInstruction": {"parts": [{"text": "Brief."}]}},
         {"tools", "system"}),
        ("converse", {"toolConfig": {"tools": TOOLS}, "system": [{"text": "Be brief."}]},
         {"tools", "system"}),
        ("ollama", {"tools": TOOLS}, {"tools"}),
    ],
)  # fmt: skip
def test_what_stands_before_the_list_is_system_and_tools(
    writer: str, extra: Mapping[str, object], expected: set[str]
) -> None:
    told = next(each for each in WRITERS if each.name == writer).tell(*TALK)
    _, plain = measure_parts(told)
    document = {**told.document, **extra}
    body = spell(document).encode()
    found = rewrite_priced(read_request(body, told.wire, told.writer.path), OFF)
    parts = measure(found, read_prompt(found, COUNTER)).composition or {}
    assert expected == {*parts} - {*plain}
    assert plain == {part: tokens for part, tokens in parts.items() if part not in expected}
    if "tools" in expected:
        assert COUNTER.count(render_tools(TOOLS)) == parts["tools"]


@as_one_test
@pytest.mark.parametrize(
    ("writer", "item", "part"),
    [
        ("chat", {"role": "system", "content": "Be brief."}, "system"),
        ("chat", {"role": "developer", "content": "Be brief."}, "system"),
        ("responses", {"role": "developer", "content": "Be brief."}, "system"),
        ("ollama", {"role": "system", "content": "Be brief."}, "system"),
        ("chat", {"role": "oracle", "content": "Who knows?"}, "unknown"),
        ("chat", {"role": "user", "content": [DATA_IMAGE]}, "user"),
        ("chat", {"role": "assistant", "content": None, "tool_calls": [CALL]}, "assistant"),
        ("chat", {"role": "tool", "tool_call_id": "a", "content": [DATA_IMAGE]}, "results"),
    ],
)
def test_an_element_of_the_list_is_its_speakers(
    writer: str, item: Mapping[str, object], part: str
) -> None:
    told = next(each for each in WRITERS if each.name == writer).tell()
    assert [part] == [*measure_parts(told._replace(items=[item]))[1]]


def test_a_result_that_keeps_some_of_its_texts_has_both() -> None:
    writer = WRITERS[0]
    several = Tools((Give("a", (OLD, "ok")),))
    told = writer.tell(Model((Ask("a"),)), several, *wire_turn("b"))
    chosen = policy(MASK_ALL, mask_text_parts=True, skip_if_not_shorter=True)
    _, parts = measure_parts(told, Strategies(schema1=chosen))
    told_whole = writer.tell(Model((Ask("a"),)), Tools((Give("a", OLD),)), *wire_turn("b"))
    _, whole = measure_parts(told_whole, Strategies(schema1=chosen))
    assert (whole["placeholders"], whole["results"] + COUNTER.count("ok")) == (
        parts["placeholders"], parts["results"],
    )  # fmt: skip


def test_without_anything_there_are_no_parts() -> None:
    assert {} == measure_parts(WRITERS[0].tell())[1]


@given(documents(), policies)
def test_the_parts_of_a_prompt_add_up(document: Mapping[str, object], chosen: MaskPolicy) -> None:
    chat = WRITERS[0]
    body = spell(document).encode()
    conversation = read_request(body, chat.wire, chat.path)
    found = rewrite_priced(conversation, Strategies(schema1=chosen))
    sizes = measure(found, read_prompt(found, COUNTER))
    parts = sizes.composition or {}
    assert sum(parts.values()) == sizes.request_tokens_after
    assert [part for part in PARTS if part in parts] == [*parts]
    assert ("placeholders" in parts) >= (sizes.masked > 0)


# Elements are counted once, and what is remembered of them changes no number.


WAYS = {
    **{name: Strategies(schema1=chosen) for name, chosen in POLICIES.items()},
    "all strategies": Strategies(
        redaction=RedactionPolicy(True, ("shell",)),
        schema1=MASK_ALL,
        reduction=ReductionOptions(enabled=True, max_input_chars=4_000),
    ),
}


OF_TEXTS = ("tool_chars_before", "tool_chars_after", "masked_images", "kept", "masked")
"""The sizes that need no tokens, and are the same without them."""


class _Counter(TokenCounter):
    """Counts tokens, and how often it is asked."""

    asked = 0

    def count(self, text: str) -> int:
        self.asked += 1
        return super().count(text)


def count_all(rewrite: Rewrite, counter: TokenCounter) -> tuple[Prompt, Sizes]:
    prompt = read_prompt(rewrite, counter)
    sizes, uncounted = measure(rewrite, prompt), measure(rewrite)
    assert {name: getattr(uncounted, name) for name in OF_TEXTS} == {
        name: getattr(sizes, name) for name in OF_TEXTS
    }
    return prompt, sizes


@IN_TWO_FORMATS
@pytest.mark.parametrize("name", [*NAMES, "all strategies"])
def test_a_session_is_counted_as_by_a_process_that_remembers_nothing(
    writer: Writer, name: str
) -> None:
    table, counter = RequestCache(), TokenCounter()
    for told in grow(writer):
        cold = outcome(told.body, writer, WAYS[name], None)
        warm = outcome(told.body, writer, WAYS[name], table)
        if isinstance(cold, Rewrite) and isinstance(warm, Rewrite):
            expected = count_all(cold, TokenCounter())
            assert expected == count_all(warm, counter)
            assert expected == count_all(warm, counter)


@as_one_test
@IN_EVERY_FORMAT
def test_only_what_is_new_is_counted(writer: Writer) -> None:
    table, counter, strategies = RequestCache(), _Counter(), WAYS["sliding"]
    told = writer.tell(*(step for n in range(30) for step in wire_turn(f"c_{n}", f"result {n}")))
    asked = []
    for end in (*range(len(told.items) - 6, len(told.items) + 1, 2), len(told.items)):
        found = outcome(told.until(end).body, writer, strategies, table)
        assert isinstance(found, Rewrite)
        read_prompt(found, counter)
        asked.append(counter.asked)
        counter.asked = 0
    assert asked[0] > 40
    assert max(asked[1:-1]) <= 20
    assert asked[-1] == 0


def test_other_placeholders_are_counted_anew() -> None:
    writer, table, counter = WRITERS[0], RequestCache(), TokenCounter()
    body = writer.tell(*turns(3), *turns(3, "b")).body
    for template in ("<{tool_call_id}>", "<masked>", "<{tool_call_id}>"):
        chosen = policy(MASK_ALL, placeholder_template=template, skip_if_not_shorter=False)
        strategies = Strategies(schema1=chosen)
        cold, warm = (outcome(body, writer, strategies, each) for each in (None, table))
        assert isinstance(cold, Rewrite)
        assert isinstance(warm, Rewrite)
        assert count_all(cold, TokenCounter()) == count_all(warm, counter)


def test_an_element_has_the_same_digest_before_it_is_counted_and_after() -> None:
    body = WRITERS[0].tell(*turns(3)).body
    request = read_request(body, CHAT)
    before = digest_elements(request)
    read_prompt(unchanged(request), TokenCounter())
    assert all(known.counted for known in request.parsed)
    assert before == digest_elements(request)

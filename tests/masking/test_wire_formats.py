"""What stands outside of the room of wire formats works on any of them alike."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest

from masking.accounting.prompt import read_prompt
from masking.conversation import (
    Conversation,
    Element,
    Purpose,
    WireFormat,
    bind,
    find_answers,
)
from masking.errors import WireError
from masking.layout import lay_out
from masking.measures.tokens import TokenCounter
from masking.memory.boundary_memory import BoundaryMemory
from masking.memory.identity import Answers, digest_opening
from masking.model import REASONS, Decision, Reason
from masking.rewrite import Rewrite, change_request, read_request, rewrite_request
from masking.strategies.order import Strategies
from masking.strategies.policy import MaskPolicy
from masking.strategies.redaction import RedactionPolicy
from masking.strategies.reduction import ReductionOptions
from masking.strategies.window import decide
from masking.wire.chat import CHAT
from masking.wire.formats import FORMATS, find_format
from masking.wire.messages import MESSAGES
from masking.wire.responses import RESPONSES
from tests.builders import OLD, TEMPLATE, policy, read
from tests.made_up_format import MADE_UP, NOTE
from tests.wire_conversations import (
    BUILDERS,
    CHAT_BUILDER,
    MADE_UP_BUILDER,
    Answered,
    FormatBuilder,
    ToolCall,
)

TURNS = 30
VERTEX = "/v1/projects/p/locations/global/publishers"
SLIDING = MaskPolicy(True, 3, False, None, TEMPLATE)
PRICED = policy(SLIDING, cache_read_ratio=0.1, cache_write_ratio=1.25)


def spell_object(turn: int) -> str:
    return json.dumps({"code": 0, "out": f"{turn}: {OLD}"})


def spell(value: object) -> str:
    return json.dumps(value, separators=(" ,", " : "))


class Told(NamedTuple):
    """A request in a format."""

    builder: FormatBuilder
    document: dict[str, Any]

    @property
    def wire(self) -> WireFormat:
        return self.builder.wire

    @property
    def body(self) -> bytes:
        """It with blanks, as a client may write them, so that each byte counts."""
        return spell(self.document).encode()

    def read(self) -> Conversation:
        return read_request(self.body, self.wire)

    def tell(self, items: list[object]) -> "Told":
        """Return a request with these elements."""
        return Told(self.builder, self.builder.request(items))


def tell(builder: FormatBuilder) -> Told:
    """Return the one conversation that this is about, in a format."""
    items = [builder.user("Fix the build.")]
    for turn in range(TURNS):
        a, b = f"a{turn}", f"b{turn}"
        items += builder.calls([ToolCall(a, "read"), ToolCall(b, "shell")])
        long = Answered(a, "read", f"{turn}: {OLD * 4}")
        items += builder.results([long, Answered(b, "shell", spell_object(turn))])
    return Told(builder, builder.request(items))


CHAT_TOLD, MADE_UP_TOLD = tell(CHAT_BUILDER), tell(MADE_UP_BUILDER)
TOLD = pytest.mark.parametrize("told", [*map(tell, BUILDERS)], ids=lambda told: told.builder.name)


def reasons(decisions: tuple[Decision, ...]) -> list[Reason]:
    return [decision.reason for decision in decisions]


@TOLD
def test_the_window_decides_alike(told: Told) -> None:
    expected = ["masked"] * 2 * (TURNS - 3) + ["in_window"] * 6
    assert expected == reasons(decide(told.read(), SLIDING))


@TOLD
def test_the_boundary_moves_when_it_pays(told: Told) -> None:
    found = {*reasons(decide(told.read(), PRICED))}
    assert {"masked", "held", "in_window"} >= found >= {"masked", "in_window"}


@TOLD
def test_turns_requests_and_openings_are_the_same(told: Told) -> None:
    chat, other = CHAT_TOLD.read(), told.read()
    assert TURNS == chat.turns == other.turns
    assert [(r.turn, r.tool) for r in chat.results] == [(r.turn, r.tool) for r in other.results]
    of_chat, of_other = lay_out(chat), lay_out(other)
    assert [r[1:] for r in of_chat.requests] == [r[1:] for r in of_other.requests]
    assert of_chat.turns == of_other.turns
    assert of_chat.sizes == of_other.sizes
    assert digest_opening(chat) == digest_opening(other)
    assert TURNS == len(Answers(chat)) == len(Answers(other))


def test_an_answer_is_one_element_or_a_run_of_them() -> None:
    elements = MADE_UP_TOLD.read().elements[:5]
    assert [range(1, 3), range(4, 5)] == [*find_answers(elements, in_runs=True)]
    alone = [range(1, 2), range(2, 3), range(4, 5)]
    assert alone == [*find_answers(elements, in_runs=False)]
    assert [] == [*find_answers(elements[:1], in_runs=True)]


def test_calls_of_one_answer_are_one_turn() -> None:
    elements = MADE_UP_TOLD.read().elements
    assert 2 * TURNS == bind(elements, MADE_UP._replace(answers_in_runs=False))[0]
    assert TURNS == bind(elements, MADE_UP)[0]


@TOLD
def test_no_byte_changes_but_what_is_masked(told: Told) -> None:
    expected = told.body.decode()
    found = rewrite_request(told.body, SLIDING, told.wire)
    for decision in found.decisions[: 2 * (TURNS - 3)]:
        (replacement,) = decision.replacements
        spelled = json.dumps(replacement.placeholder)
        text = spell(replacement.text)
        if replacement.wrap is not None:
            assert NOTE == replacement.wrap
            text = spell(json.loads(replacement.text))
            spelled = f'{{"{NOTE}":{spelled}}}'
        assert text in expected
        expected = expected.replace(text, spelled, 1)
    assert expected.encode() == found.body


@TOLD
def test_masking_twice_is_masking_once(told: Told) -> None:
    once = rewrite_request(told.body, SLIDING, told.wire).body
    assert once is rewrite_request(once, SLIDING, told.wire).body


@TOLD
def test_redaction_follows_an_answer(told: Told) -> None:
    strategies = Strategies(redaction=RedactionPolicy(True, ("shell",), TEMPLATE))
    assert told.body == change_request(told.body, told.read(), strategies).body
    answered = told.tell([*told.read().items, told.builder.answer("Done.")])
    changed = change_request(answered.body, answered.read(), strategies)
    assert ["other_tool", "redacted"] * TURNS == reasons(changed.decisions)


def reduce(told: Told, budget: int) -> Rewrite:
    options = ReductionOptions(enabled=True, max_input_chars=budget, max_observation_chars=60)
    return change_request(told.body, told.read(), Strategies(reduction=options))


@TOLD
@pytest.mark.parametrize("stage", ["masking", "summarization", "fallback"])
def test_reduction_keeps_what_belongs_together(told: Told, stage: str) -> None:
    masking = reduce(told, 30_000).plan
    assert masking is not None
    budgets = {"masking": 30_000, "summarization": masking.size_after - 1, "fallback": 10}
    changed = reduce(told, budgets[stage])
    assert changed.plan is not None
    assert stage == changed.plan.stage
    after = read_request(changed.body, told.wire)
    calls = {c.call_id for element in after.elements for c in element.calls}
    assert calls == {r.call_id for r in after.results}
    assert all(r.turn is not None for r in after.results)
    if stage == "summarization":
        summary = after.elements[0]
        assert "user" == summary.speaker
        assert "Objective: Fix the build." in summary.texts[0]


@TOLD
def test_a_memory_masks_again_what_it_masked(told: Told) -> None:
    memory, masked = BoundaryMemory(), frozenset[int]()
    items = [*told.read().items]
    for end in range(1, len(items) + 1, 3):
        part = told.tell(items[:end])
        occasion = memory.meet(part.read(), float(end), 300.0)
        found = change_request(
            part.body, part.read(), Strategies(schema1=PRICED), occasion=occasion
        )
        memory.keep(occasion, found.past)
        assert masked <= found.masked
        masked = found.masked
    assert masked


@TOLD
def test_a_prompt_shrinks_by_what_is_masked(told: Told) -> None:
    prompt = read_prompt(rewrite_request(told.body, SLIDING, told.wire), TokenCounter())
    assert 1 + len(told.read().items) == len(prompt.before) == len(prompt.after)
    assert prompt.tokens_after < prompt.tokens_before / 3


def test_texts_beside_the_list_open_a_conversation() -> None:
    request = {**MADE_UP_TOLD.document["request"], "rules": "Be kind."}
    ruled = Told(MADE_UP_BUILDER, {**MADE_UP_TOLD.document, "request": request}).read()
    assert digest_opening(ruled) != digest_opening(MADE_UP_TOLD.read())
    plain = lay_out(MADE_UP_TOLD.read()).requests[0].size
    assert plain < lay_out(ruled).requests[0].size


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({}, "no request in 'body'"),
        ({"request": 7}, "no contents in 'body.request'"),
        ({"request": {}}, "no contents in 'body.request'"),
        ({"request": {"contents": {}}}, "expected list, got dict in 'body.request.contents'"),
    ],
)
def test_a_missing_list_is_named(document: Mapping[str, object], problem: str) -> None:
    with pytest.raises(WireError) as caught:
        read_request(json.dumps(document).encode(), MADE_UP)
    assert problem == str(caught.value)


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("POST", "/v1/chat/completions", (CHAT, "answer")),
        ("POST", "/openai/deployments/x/chat/completions", (CHAT, "answer")),
        ("GET", "/v1/chat/completions", None),
        ("POST", "/v1/chat/completions/more", None),
        ("POST", "/v1/messages", (MESSAGES, "answer")),
        ("POST", "/api/anthropic/v1/messages", (MESSAGES, "answer")),
        ("POST", "/v1/messages/count_tokens", (MESSAGES, "count")),
        ("POST", "/v1/messages/batches", None),
        (
            "POST",
            f"{VERTEX}/anthropic/models/claude-opus-5@20260101:rawPredict",
            (MESSAGES, "answer"),
        ),
        ("POST", f"{VERTEX}/anthropic/models/claude-opus-5:streamRawPredict", (MESSAGES, "answer")),
        ("POST", f"{VERTEX}/mistralai/models/codestral:rawPredict", None),
        ("POST", "/model/us.anthropic.claude-opus-5-v1%3A0/invoke", (MESSAGES, "answer")),
        ("POST", "/model/anthropic.claude-v2/invoke-with-response-stream", (MESSAGES, "answer")),
        ("POST", "/model/amazon.nova-pro-v1:0/invoke", None),
        ("POST", "/v1/responses", (RESPONSES, "answer")),
        ("POST", "/responses", (RESPONSES, "answer")),
        ("POST", "/backend-api/codex/responses", (RESPONSES, "answer")),
        ("POST", "/openai/v1/responses", (RESPONSES, "answer")),
        ("POST", "/openai/deployments/x/responses", (RESPONSES, "answer")),
        ("POST", "/backend-api/codex/responses/compact", (RESPONSES, "compact")),
        ("POST", "/v1/responses/input_tokens", (RESPONSES, "count")),
        ("POST", "/v1/responses/resp_1/cancel", None),
    ],
)
def test_a_request_is_of_the_format_whose_path_it_has(
    method: str, path: str, expected: tuple[WireFormat, Purpose] | None
) -> None:
    assert expected == find_format(method, path)


def test_formats_are_told_apart_by_name_and_path() -> None:
    assert len(FORMATS) == len({wire.name for wire in FORMATS})
    patterns = [pattern for wire in FORMATS for pattern, _ in wire.paths]
    assert len(patterns) == len({*patterns})


def test_each_reason_has_a_sentence_and_a_letter_of_its_own() -> None:
    assert len(REASONS) == len({info.sentence for info in REASONS.values()})
    assert len(REASONS) == len({info.letter for info in REASONS.values()})
    assert all(len(info.letter) == 1 for info in REASONS.values())


def test_an_element_is_read_once() -> None:
    """Whatever the strategies do: only what they change is read again."""
    count = 0

    def read_counting(value: object) -> Element:
        nonlocal count
        count += 1
        return CHAT.read_element(value)

    counting = CHAT._replace(read_element=read_counting)
    body = json.dumps({"messages": CHAT_TOLD.document["messages"]}).encode()
    options = ReductionOptions(enabled=True, max_input_chars=4_000, summary_max_chars=900)
    strategies = Strategies(schema1=SLIDING, reduction=options)
    changed = change_request(body, read_request(body, counting), strategies)
    masked = len(changed.masked)
    assert masked > 0
    assert len(read(CHAT_TOLD.document["messages"]).elements) + masked + 1 == count

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
from masking.rewrite import change_request, read_request, rewrite_request
from masking.strategies.order import Strategies
from masking.strategies.policy import MaskPolicy
from masking.strategies.redaction import RedactionPolicy
from masking.strategies.reduction import ReductionOptions
from masking.strategies.window import decide
from masking.wire.chat import CHAT
from masking.wire.formats import FORMATS, find_format
from masking.wire.messages import MESSAGES
from masking.wire.responses import RESPONSES
from tests.builders import OLD, TEMPLATE, assistant, call, policy, read, result
from tests.made_up_format import MADE_UP, NOTE

TURNS = 30
VERTEX = "/v1/projects/p/locations/global/publishers"
SLIDING = MaskPolicy(True, 3, False, None, TEMPLATE)
PRICED = policy(SLIDING, cache_read_ratio=0.1, cache_write_ratio=1.25)


def spell_object(turn: int) -> dict[str, object]:
    return {"code": 0, "out": f"{turn}: {OLD}"}


def spell_chat() -> dict[str, Any]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Fix the build."}]
    for turn in range(TURNS):
        messages += [
            assistant(call(f"a{turn}", "read"), call(f"b{turn}", "shell")),
            result(f"a{turn}", f"{turn}: {OLD * 4}"),
            result(f"b{turn}", json.dumps(spell_object(turn))),
        ]
    return {"model": "m", "messages": messages}


def spell_made_up() -> dict[str, Any]:
    contents: list[dict[str, Any]] = [{"by": "human", "pieces": [{"say": "Fix the build."}]}]
    for turn in range(TURNS):
        contents += [
            {"by": "model", "pieces": [{"call": {"id": f"a{turn}", "tool": "read", "with": {}}}]},
            {"by": "model", "pieces": [{"call": {"id": f"b{turn}", "tool": "shell", "with": {}}}]},
            {
                "by": "human",
                "pieces": [
                    {"outcome": {"of": f"a{turn}", "value": f"{turn}: {OLD * 4}"}},
                    {"outcome": {"of": f"b{turn}", "value": spell_object(turn)}},
                ],
            },
        ]
    return {"model": "m", "request": {"contents": contents}}


def spell(value: object) -> str:
    return json.dumps(value, separators=(" ,", " : "))


class Told(NamedTuple):
    """One conversation as a format spells it."""

    wire: WireFormat
    document: dict[str, Any]

    @property
    def body(self) -> bytes:
        """It with blanks, as a client may write them, so that each byte counts."""
        return spell(self.document).encode()

    def read(self) -> Conversation:
        return read_request(self.body, self.wire)


CHAT_TOLD = Told(CHAT, spell_chat())
MADE_UP_TOLD = Told(MADE_UP, spell_made_up())
TOLD = pytest.mark.parametrize("told", [CHAT_TOLD, MADE_UP_TOLD], ids=lambda told: told.wire.name)


def reasons(decisions: tuple[Decision, ...]) -> list[Reason]:
    return [decision.reason for decision in decisions]


def test_the_window_decides_alike() -> None:
    chat, made_up = (decide(told.read(), SLIDING) for told in (CHAT_TOLD, MADE_UP_TOLD))
    expected = ["masked"] * 2 * (TURNS - 3) + ["in_window"] * 6
    assert expected == reasons(chat) == reasons(made_up)


@TOLD
def test_the_boundary_moves_when_it_pays(told: Told) -> None:
    found = {*reasons(decide(told.read(), PRICED))}
    assert {"masked", "held", "in_window"} >= found >= {"masked", "in_window"}


def test_turns_requests_and_openings_are_the_same() -> None:
    chat, made_up = CHAT_TOLD.read(), MADE_UP_TOLD.read()
    assert TURNS == chat.turns == made_up.turns
    assert [(r.turn, r.tool) for r in chat.results] == [(r.turn, r.tool) for r in made_up.results]
    of_chat, of_made_up = lay_out(chat), lay_out(made_up)
    assert [r[1:] for r in of_chat.requests] == [r[1:] for r in of_made_up.requests]
    assert of_chat.turns == of_made_up.turns
    assert of_chat.sizes == of_made_up.sizes
    assert digest_opening(chat) == digest_opening(made_up)
    assert TURNS == len(Answers(chat)) == len(Answers(made_up))


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
    items: list[object] = [*told.read().items]
    says = {"role": "assistant", "content": "Done."}
    items.append(says if told.wire is CHAT else {"by": "model", "pieces": [{"say": "Done."}]})
    answered = Told(told.wire, put(told, items))
    changed = change_request(answered.body, answered.read(), strategies)
    assert ["other_tool", "redacted"] * TURNS == reasons(changed.decisions)


def put(told: Told, items: list[object]) -> dict[str, Any]:
    return {"messages": items} if told.wire is CHAT else {"request": {"contents": items}}


@TOLD
@pytest.mark.parametrize(
    ("budget", "stage"), [(30_000, "masking"), (5_000, "summarization"), (10, "fallback")]
)
def test_reduction_keeps_what_belongs_together(told: Told, budget: int, stage: str) -> None:
    options = ReductionOptions(enabled=True, max_input_chars=budget, max_observation_chars=60)
    changed = change_request(told.body, told.read(), Strategies(reduction=options))
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
        part = Told(told.wire, put(told, items[:end]))
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
    ruled = Told(MADE_UP, {**MADE_UP_TOLD.document, "request": request}).read()
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
    body = json.dumps({"messages": spell_chat()["messages"]}).encode()
    options = ReductionOptions(enabled=True, max_input_chars=4_000, summary_max_chars=900)
    strategies = Strategies(schema1=SLIDING, reduction=options)
    changed = change_request(body, read_request(body, counting), strategies)
    masked = len(changed.masked)
    assert masked > 0
    assert len(read(spell_chat()["messages"]).elements) + masked + 1 == count

"""Chapter 11: the newest models bind their reasoning to everything before it.

Anthropic's refuse a request in which a text before a thinking block has changed, some of them on
some accounts alone; OpenAI's drop the reasoning without a word. So nothing is masked that later
reasoning is bound to, unless the account is known to take it.

How that is learned is in `tests/live/test_bound_accounts_live.py`. The contract's clearing by the
provider is not in the code yet; neither is the shortening of results at arrival.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import pytest

from masking import MaskPolicy, Rewrite, find_format, rewrite_request
from masking.memory import BoundaryMemory
from masking.redaction import RedactionPolicy
from masking.rewrite import Strategies, read_request
from tests.spec.talk import OUTPUT, SHORT, reasons
from tests.support.wire_conversations import (
    WRITERS,
    Ask,
    Give,
    Model,
    Step,
    Tools,
    User,
    spell,
    turn,
    turns,
)

DROPS = replace(SHORT, bound_reasoning="drop")


class Bound(NamedTuple):
    """How a client spells thoughts of a model that are bound, and what its provider does."""

    name: str
    path: str
    model: str
    binding: str


REFUSING = [
    Bound("messages", "/v1/messages", "claude-fable-5-2", "refuses"),
    Bound("messages", "/v1/messages", "claude-opus-5-5", "may_refuse"),
    Bound("converse", "/model/us.anthropic.claude-opus-5-5/converse", "", "may_refuse"),
]
DROPPING = [Bound("responses", "/v1/responses", "gpt-5.6", "drops")]
FREE = [
    Bound("messages", "/v1/messages", "claude-sonnet-4-5", ""),
    Bound("converse", "/model/us.anthropic.claude-sonnet-4-5-v1%3A0/converse", "", ""),
    Bound("responses", "/v1/responses", "gpt-5", ""),
]


def in_cases(cases: Sequence[Bound]) -> pytest.MarkDecorator:
    ids = [f"{case.name} {case.model}".strip() for case in cases]
    return pytest.mark.parametrize("bound", cases, ids=ids)


def tell(bound: Bound, *steps: Step) -> bytes:
    """Write a request to a model that binds its reasoning."""
    (writer,) = (writer for writer in WRITERS if writer.name == bound.name)
    document: dict[str, Any] = writer.tell(*steps).document
    if bound.model:
        document["model"] = bound.model
    for item in document.get("input", ()):
        if item["type"] == "reasoning":
            item["encrypted_content"] = "c2VjcmV0"
    return spell(document).encode()


def send(body: bytes, bound: Bound, policy: MaskPolicy, memory: BoundaryMemory | None) -> Rewrite:
    match = find_format("POST", bound.path)
    assert match is not None
    conversation = read_request(body, match.wire, bound.path)
    context = memory.lookup(conversation, 0.0, 300.0) if memory else None
    rewrite = rewrite_request(conversation, policy, context=context)
    if memory and context:
        memory.store(context, rewrite.past)
    return rewrite


def thinking_turn(call_id: str) -> tuple[Step, Step]:
    return Model((Ask(call_id),), thought="Hm."), Tools((Give(call_id, OUTPUT),))


TALK = (User(), *turn("a", OUTPUT), *thinking_turn("b"), *turn("c", OUTPUT), *turns(1))


@in_cases([*REFUSING, *DROPPING])
@pytest.mark.parametrize("remembers", [True, False], ids=["with a memory", "without"])
def test_nothing_is_masked_that_later_reasoning_is_bound_to(bound: Bound, remembers: bool) -> None:
    body = tell(bound, *TALK)
    rewrite = send(body, bound, SHORT, BoundaryMemory() if remembers else None)
    assert bound.binding == rewrite.binding
    assert "bound" == reasons(rewrite)[0]
    assert rewrite.body == body


@in_cases([*REFUSING, *DROPPING])
def test_what_was_masked_before_the_model_thought_stays_masked(bound: Bound) -> None:
    """Its reasoning was made with the placeholder before it. With a memory that is known."""
    memory = BoundaryMemory()
    before = (User(), *turn("a", OUTPUT), *turn("b", OUTPUT))
    assert ["masked", "in_window"] == reasons(send(tell(bound, *before), bound, SHORT, memory))
    after = tell(bound, *before, *thinking_turn("c"), *turn("d", OUTPUT))
    rewrite = send(after, bound, SHORT, memory)
    assert ["masked", "bound"] == reasons(rewrite)[:2]
    assert after == send(after, bound, SHORT, None).body  # who does not remember masks nothing


@in_cases([*REFUSING, *DROPPING])
def test_what_comes_after_the_last_reasoning_is_masked(bound: Bound) -> None:
    memory = BoundaryMemory()
    said: list[Step] = [User(), *thinking_turn("a")]
    for call_id in ("b", "c", "d"):
        rewrite = send(tell(bound, *said), bound, SHORT, memory)
        said += turn(call_id, OUTPUT)
    rewrite = send(tell(bound, *said), bound, SHORT, memory)
    assert ["masked", "masked", "masked", "in_window"] == reasons(rewrite)


@in_cases(DROPPING)
def test_a_user_may_let_openai_drop_older_reasoning(bound: Bound) -> None:
    rewrite = send(tell(bound, *TALK), bound, DROPS, None)
    assert ["masked", "masked", "masked", "in_window"] == reasons(rewrite)


@in_cases(REFUSING)
def test_no_setting_has_a_request_refused(bound: Bound) -> None:
    body = tell(bound, *TALK)
    assert body == send(body, bound, DROPS, None).body


@in_cases(REFUSING)
@pytest.mark.parametrize("setting", ["keep", "try", "drop"])
def test_an_account_that_takes_it_has_results_masked_before_reasoning(
    bound: Bound, setting: Literal["keep", "try", "drop"]
) -> None:
    """As far as the model's refusal depends on the account, and the user lets it be tried."""
    body, match = tell(bound, *TALK), find_format("POST", bound.path)
    assert match is not None
    policy = replace(SHORT, bound_reasoning=setting)
    rewrite = rewrite_request(body, policy, match.wire, bound.path, takes_changes=True)
    is_masked = bound.binding == "may_refuse" and setting != "keep"
    assert is_masked == (reasons(rewrite) == ["masked", "masked", "masked", "in_window"])
    assert is_masked == (rewrite.body != body)


@in_cases(REFUSING)
def test_no_other_strategy_changes_what_reasoning_is_bound_to(bound: Bound) -> None:
    redaction = RedactionPolicy(True, ("shell",))
    body = tell(bound, *TALK, Model(text="Done."))
    match = find_format("POST", bound.path)
    assert match is not None
    strategies = Strategies(schema1=SHORT, redaction=redaction)
    assert body == rewrite_request(body, strategies, match.wire, bound.path).body


@in_cases(FREE)
def test_the_reasoning_of_older_models_is_free(bound: Bound) -> None:
    rewrite = send(tell(bound, *TALK), bound, SHORT, None)
    assert None is rewrite.binding
    assert ["masked", "masked", "masked", "in_window"] == reasons(rewrite)


def test_a_request_may_allow_its_provider_to_drop_a_block() -> None:
    bound = REFUSING[0]
    allowed: Mapping[str, Any] = {"block_binding": {"prefix_mismatch_behavior": "drop_block"}}
    body = tell(bound, *TALK).replace(b"{", b'{"thinking" : %b ,' % spell(allowed).encode(), 1)
    assert ["masked", "masked", "masked", "in_window"] == reasons(send(body, bound, SHORT, None))

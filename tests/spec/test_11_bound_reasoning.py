"""Chapter 11: the newest models bind their reasoning to everything before it.

Anthropic's refuse a request in which a text before a thinking block has changed, some of them on
some accounts alone; OpenAI's drop the reasoning without a word. So nothing is masked that later
reasoning is bound to, unless the account is known to take it.

How that is learned is in `tests/live/test_bound_accounts_live.py`. A user may have the provider
clear instead what cannot be masked; how it answers is in `tests/live/test_clearing_live.py`. The
contract's shortening of results at arrival is not in the code yet.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import pytest

from masking import MaskPolicy, Rewrite, find_format
from masking.conversation import Conversation
from masking.memory import BoundaryMemory, Memories
from masking.proof import Prover
from masking.redaction import RedactionPolicy
from masking.rewrite import Step as RequestStep
from masking.rewrite import Strategies, read_request, rewrite_request
from masking.window import FREE as FREE_PRICES
from masking.window import BoundaryPrices
from masking.wire import MESSAGES
from tests.spec.talk import OUTPUT, SHORT, reasons
from tests.support.marks import as_one_test
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
    memories = None if memory is None else Memories(memory)
    conversation = read_request(body, match.wire, bound.path)
    step = RequestStep(
        conversation,
        Strategies(schema1=policy),
        FREE_PRICES,
        memories,
        lifetime=300.0,
        prover=Prover(),
    )
    rewrite = step.rewrite()
    step.remember(rewrite)
    return rewrite


def thinking_turn(call_id: str) -> tuple[Step, Step]:
    return Model((Ask(call_id),), thought="Hm."), Tools((Give(call_id, OUTPUT),))


TALK = (User(), *turn("a", OUTPUT), *thinking_turn("b"), *turn("c", OUTPUT), *turns(1))


@in_cases([*REFUSING, *DROPPING])
@pytest.mark.parametrize("remembers", [True, False], ids=["with a memory", "without"])
def test_nothing_is_masked_that_later_reasoning_is_bound_to(bound: Bound, remembers: bool) -> None:
    body = tell(bound, *TALK)
    rewrite = send(body, bound, SHORT, BoundaryMemory() if remembers else None)
    assert bound.binding == rewrite.conversation.binding
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
    step = RequestStep(
        read_request(body, match.wire, bound.path), Strategies(schema1=policy), prover=Prover()
    )
    rewrite = step.rewrite(account_accepts_edits=True)
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
    assert None is rewrite.conversation.binding
    assert ["masked", "masked", "masked", "in_window"] == reasons(rewrite)


def test_a_request_may_allow_its_provider_to_drop_a_block() -> None:
    bound = REFUSING[0]
    allowed: Mapping[str, Any] = {"block_binding": {"prefix_mismatch_behavior": "drop_block"}}
    body = tell(bound, *TALK).replace(b"{", b'{"thinking" : %b ,' % spell(allowed).encode(), 1)
    assert ["masked", "masked", "masked", "in_window"] == reasons(send(body, bound, SHORT, None))


# Clearing by the provider

CLEARED = REFUSING[:2]


def send_to_clear(
    body: bytes, bound: Bound, policy: MaskPolicy, memory: BoundaryMemory, now: float = 0.0
) -> Rewrite:
    match = find_format("POST", bound.path)
    assert match is not None
    return clear(read_request(body, match.wire, bound.path), policy, memory, now=now)


def clear(
    conversation: Conversation,
    policy: MaskPolicy,
    memory: BoundaryMemory,
    prices: BoundaryPrices = FREE_PRICES,
    *,
    only: frozenset[int] | None = None,
    now: float = 0.0,
) -> Rewrite:
    """Ask the provider to clear, and remember the request as one that was taken."""
    strategies, memories = Strategies(schema1=policy), Memories(memory)
    step = RequestStep(
        conversation,
        strategies,
        prices,
        memories,
        only=only,
        now=now,
        lifetime=300.0,
        prover=Prover(),
    )
    rewrite = step.rewrite(clears=True)
    step.remember(rewrite)
    return rewrite


def edit_of(rewrite: Rewrite) -> dict[str, Any]:
    """Return the edit that a request asks for, and check that nothing else of it has changed."""
    document = json.loads(rewrite.body)
    (edit,) = document.pop("context_management")["edits"]
    assert document == rewrite.conversation.document
    assert isinstance(edit, dict)
    return edit


@in_cases(CLEARED)
def test_what_reasoning_is_bound_to_is_cleared_where_it_would_be_masked(bound: Bound) -> None:
    rewrite = send_to_clear(tell(bound, *TALK), bound, SHORT, BoundaryMemory())
    assert ["cleared", "cleared", "cleared", "in_window"] == reasons(rewrite)
    assert edit_of(rewrite) == {
        "type": "clear_tool_uses_20250919",
        "trigger": {"type": "tool_uses", "value": 1},
        "keep": {"type": "tool_uses", "value": 1},
    }
    assert {0, 1, 2} == rewrite.masked


@in_cases(CLEARED[:1])
def test_parallel_calls_count_each(bound: Bound) -> None:
    both = Model((Ask("x"), Ask("y")), thought="Hm."), Tools((Give("x", OUTPUT), Give("y", OUTPUT)))
    said = (User(), *turn("a", OUTPUT), *turn("b", OUTPUT), *both)
    rewrite = send_to_clear(tell(bound, *said), bound, SHORT, BoundaryMemory())
    assert ["cleared", "cleared", "in_window", "in_window"] == reasons(rewrite)
    assert 2 == edit_of(rewrite)["keep"]["value"]


@in_cases(CLEARED[:1])
def test_errors_and_short_results_are_cleared_as_well(bound: Bound) -> None:
    policy = replace(SHORT, min_chars=10_000, keep_last_k_per_tool=3)
    said = (User(), *turn("a", "Error: no such file"), *thinking_turn("b"), *turn("c", "x"))
    rewrite = send_to_clear(tell(bound, *said, *turns(1)), bound, policy, BoundaryMemory())
    assert ["cleared", "cleared", "cleared", "in_window"] == reasons(rewrite)


@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        (replace(SHORT, keep_tools=("she*",)), "kept_tool"),
        (replace(SHORT, mask_tools=("read*",)), "unlisted_tool"),
    ],
)
def test_tools_whose_results_are_kept_are_excluded(policy: MaskPolicy, reason: str) -> None:
    bound = CLEARED[0]
    reading = (
        Model((Ask("r", "read_file"),), thought="Hm."),
        Tools((Give("r", OUTPUT, "read_file"),)),
    )
    rewrite = send_to_clear(
        tell(bound, User(), *turn("a", OUTPUT), *reading, *thinking_turn("z")),
        bound,
        policy,
        BoundaryMemory(),
    )
    assert [reason, "cleared", "in_window"] == reasons(rewrite)
    assert ["shell"] == edit_of(rewrite)["exclude_tools"]


def send_at_a_price(body: bytes, bound: Bound, memory: BoundaryMemory) -> Rewrite:
    match = find_format("POST", bound.path)
    assert match is not None
    conversation = read_request(body, match.wire, bound.path)
    prices = BoundaryPrices(0.1, 1.25)
    return clear(conversation, replace(SHORT, window_turns=4), memory, prices)


@in_cases(CLEARED[:1])
def test_the_cut_stands_still_until_moving_pays(bound: Bound) -> None:
    memory, said, cuts = BoundaryMemory(), list[Step]([User()]), list[int]()
    for number in range(40):
        call_id = f"call_{number}"
        said += Model((Ask(call_id),), thought="Hm."), Tools((Give(call_id, OUTPUT * 9),))
        rewrite = send_at_a_price(tell(bound, *said), bound, memory)
        keep = edit_of(rewrite)["keep"]["value"] if rewrite.clearing else number + 1
        cuts.append(number + 1 - keep)
    assert cuts == sorted(cuts)
    assert 1 < len({*cuts}) < 20


@in_cases(CLEARED[:1])
def test_a_conversation_that_was_masked_is_not_cleared_besides(bound: Bound) -> None:
    memory = BoundaryMemory()
    before = (User(), *turn("a", OUTPUT), *turn("b", OUTPUT))
    masked = send(tell(bound, *before), bound, SHORT, memory)
    after = tell(bound, *before, *thinking_turn("c"), *turn("d", OUTPUT))
    rewrite = send_to_clear(after, bound, SHORT, memory)
    assert ["masked", "bound", "held", "in_window"] == reasons(rewrite)
    assert None is rewrite.clearing
    assert json.loads(rewrite.body)["messages"][:3] == json.loads(masked.body)["messages"][:3]


@in_cases(CLEARED[:1])
def test_a_conversation_that_is_cleared_is_not_masked_besides(bound: Bound) -> None:
    """Though no reasoning follows its results."""
    said = (User(), *turn("a", OUTPUT), *turn("b", OUTPUT), *turn("c", OUTPUT))
    memory = BoundaryMemory()
    for _ in range(2):
        rewrite = send_to_clear(tell(bound, *said), bound, SHORT, memory)
        assert ["cleared", "cleared", "in_window"] == reasons(rewrite)


@in_cases(CLEARED[:1])
def test_a_request_for_a_summary_asks_nothing(bound: Bound) -> None:
    asks = "Your task is to create a detailed summary of the conversation so far"
    memory = BoundaryMemory()
    send_to_clear(tell(bound, *TALK), bound, SHORT, memory)
    body = tell(bound, *TALK, User(asks))
    rewrite = send_to_clear(body, bound, SHORT, memory)
    assert (None, body) == (rewrite.clearing, rewrite.body)


@in_cases(CLEARED[:1])
def test_a_request_for_a_summary_is_cleared_where_the_whole_would_cost_too_much(
    bound: Bound,
) -> None:
    """The provider's cache holds the cleared prompt, so that all would be written anew."""
    asks = "Your task is to create a detailed summary of the conversation so far"
    memory, said = BoundaryMemory(), list[Step]([User()])
    clearing = None
    while clearing is None:
        call_id = f"call_{len(said)}"
        said += Model((Ask(call_id),), thought="Hm."), Tools((Give(call_id, OUTPUT * 9),))
        clearing = send_at_a_price(tell(bound, *said), bound, memory).clearing
    said += Model((Ask("z"),), thought="Hm."), Tools((Give("z", OUTPUT * 9),))
    rewrite = send_at_a_price(tell(bound, *said, User(asks)), bound, memory)
    assert "cleared" == reasons(rewrite)[0]
    assert rewrite.clearing


@in_cases(CLEARED[:1])
def test_what_passed_without_asking_is_another_beginning(bound: Bound) -> None:
    """The provider's cache then holds it as it was sent."""
    memory, said = BoundaryMemory(), list[Step]([User()])
    for number in range(24):
        call_id = f"call_{number}"
        said += Model((Ask(call_id),), thought="Hm."), Tools((Give(call_id, OUTPUT * 9),))
        rewrite = send_at_a_price(tell(bound, *said), bound, memory)
    assert rewrite.clearing
    for call_id in ("y", "z"):
        said += Model((Ask(call_id),), thought="Hm."), Tools((Give(call_id, OUTPUT * 9),))
    assert None is send_at_a_price(tell(bound, *said), bound, memory).clearing


@in_cases(CLEARED[:1])
def test_what_the_user_says_in_between_moves_nothing(bound: Bound) -> None:
    memory = BoundaryMemory()
    send_to_clear(tell(bound, *TALK), bound, SHORT, memory)
    rewrite = send_to_clear(
        tell(bound, *TALK, Model(text="Done."), User("And now?")), bound, SHORT, memory
    )
    assert ["cleared", "cleared", "cleared", "in_window"] == reasons(rewrite)
    assert 1 == edit_of(rewrite)["keep"]["value"]


@in_cases(CLEARED[:1])
def test_what_the_model_has_not_read_is_not_cleared(bound: Bound) -> None:
    """A provider clears by calls, so the cut stands before the call of a late result."""
    memory = BoundaryMemory()
    said = (User(), *turn("a", OUTPUT), *turn("b", OUTPUT), *turn("c", OUTPUT))
    late = (*said, Tools((Give("b", OUTPUT),)))
    rewrite = send_to_clear(tell(bound, *late), bound, SHORT, memory)
    assert ["cleared", "held", "in_window", "in_window"] == reasons(rewrite)
    assert 2 == edit_of(rewrite)["keep"]["value"]
    rewrite = send_to_clear(tell(bound, *late, Model(text="So.")), bound, SHORT, memory)
    assert ["cleared", "cleared", "in_window", "cleared"] == reasons(rewrite)
    assert 1 == edit_of(rewrite)["keep"]["value"]


@in_cases(CLEARED[:1])
def test_while_a_breaker_holds_the_boundary_the_cut_stands(bound: Bound) -> None:
    memory, match = BoundaryMemory(), find_format("POST", bound.path)
    assert match is not None
    send_to_clear(tell(bound, *TALK), bound, SHORT, memory)
    later = read_request(tell(bound, *TALK, *thinking_turn("z")), match.wire, bound.path)
    rewrite = clear(later, SHORT, memory, only=frozenset())
    assert ["cleared"] * 3 == reasons(rewrite)[:3]
    assert 2 == edit_of(rewrite)["keep"]["value"]


OBSTACLES: Mapping[str, tuple[str, dict[str, Any]]] = {
    "Vertex": ("/v1/projects/p/anthropic/models/claude-fable-5-2:rawPredict", {}),
    "no object": ("/v1/messages", {"context_management": []}),
    "no list": ("/v1/messages", {"context_management": {"edits": {}}}),
    "a tool of the vendor": ("/v1/messages", {"tools": [{"type": "web_search_20250305"}]}),
    "a tool of no known type": ("/v1/messages", {"tools": [{"type": 7}]}),
    "servers": ("/v1/messages", {"mcp_servers": [{"url": "https://example.org"}]}),
    "a call of the vendor's": (
        "/v1/messages",
        {
            "messages": [
                {"role": "user", "content": "Look."},
                {"role": "assistant", "content": [{"type": "server_tool_use", "id": "s"}]},
            ]
        },
    ),
}


@as_one_test
@pytest.mark.parametrize(("path", "others"), OBSTACLES.values(), ids=OBSTACLES)
def test_where_nothing_can_be_asked(path: str, others: dict[str, Any]) -> None:
    clearing = MESSAGES.clearing
    assert clearing is not None
    document = json.loads(tell(CLEARED[0], *TALK))
    assert clearing.is_possible(document, "/v1/messages", None)
    tools = [{"name": "shell"}, {"type": "custom", "name": "x"}, {"type": "bash_20250124"}]
    assert clearing.is_possible({**document, "tools": tools}, "/v1/messages/count_tokens", None)
    assert not clearing.is_possible({**document, **others}, path, None)


@in_cases(CLEARED[:1])
def test_nothing_is_asked_where_the_results_are_shorter_than_what_takes_their_place(
    bound: Bound,
) -> None:
    body = tell(bound, User(), *turns(3), *thinking_turn("a"))
    rewrite = send_to_clear(body, bound, SHORT, BoundaryMemory())
    assert (None, body) == (rewrite.clearing, rewrite.body)

"""An agent's own request for a summary: recognised, and left whole where it may be."""

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masking import ChatMessage, MaskPolicy
from masking.memory import BoundaryMemory
from masking.model import REASONS, Edits
from masking.prices import Pricing, ReadsAt
from masking.redaction import RedactionPolicy
from masking.rewrite import Rewrite, Strategies, read_request
from masking.window import lay_out
from masking.window.boundary import SentMoves
from masking.window.signs import is_summary_request
from masking.wire.messages import MESSAGES
from masking.wire.responses import RESPONSES
from tests.masking.test_boundary import PRICES, conversations, converse
from tests.masking.test_boundary import policy as exact
from tests.support.builders import OLD, TEMPLATE, parts, policy, read, turn
from tests.support.marks import as_one_test
from tests.support.priced import PricedPolicy, allows_whole, rewrite_request
from tests.support.schedules import Conversation, bills, costs_at_entries, masks_of_rule
from tests.support.wire_conversations import (
    IN_EVERY_FORMAT,
    WRITERS,
    Model,
    Step,
    Told,
    User,
    Writer,
    turns,
)
from tests.support.wire_conversations import turn as tell_turn

SUMMARISE = "First, think. Then generate the <state_snapshot>."
HISTORY: list[Step] = [User("Mend it."), *tell_turn("a"), *turns(3)]

MARKED_TOOLS: dict[str, dict[str, Any]] = {
    "chat": {"tools": [{"type": "function", "function": {"name": "shell"}}]},
    "messages": {"tools": [{"name": "shell", "input_schema": {}}]},
    "responses": {"tools": [{"type": "function", "name": "shell"}]},
    "gemini": {"tools": [{"functionDeclarations": [{"name": "shell"}]}]},
}
"""A request's tools, as these formats spell them."""

NO_TOOL: dict[str, dict[str, Any]] = {
    "chat": {"tool_choice": "none"},
    "messages": {"tool_choice": {"type": "none"}},
    "responses": {"tool_choice": "none"},
    "gemini": {"toolConfig": {"functionCallingConfig": {"mode": "NONE"}}},
}


def asks(told: Told, **fields: object) -> bool:
    body = json.dumps(told.document | fields).encode()
    return is_summary_request(read_request(body, told.wire, told.writer.path))


@as_one_test
@IN_EVERY_FORMAT
def test_a_history_without_tools_that_ends_with_such_an_instruction_asks_for_a_summary(
    writer: Writer,
) -> None:
    history = writer.tell(*HISTORY)
    assert asks(history.then(User(SUMMARISE)))
    assert not asks(history.then(User("Go on.")))
    assert not asks(history)
    assert not asks(history.then(User(SUMMARISE), Model(text="Done: ...")))
    assert not asks(history.then(User(SUMMARISE), *tell_turn("z")))
    assert not asks(writer.tell(User(SUMMARISE)))  # nothing could be masked in it


@pytest.mark.parametrize("name", MARKED_TOOLS)
def test_with_tools_only_the_words_of_a_known_agent_count(name: str) -> None:
    writer = next(each for each in WRITERS if each.name == name)
    told = writer.tell(*HISTORY, User(SUMMARISE))
    tools = MARKED_TOOLS[name]
    assert asks(told)
    assert not asks(told, **tools)
    assert asks(told, **tools, **NO_TOOL[name])
    by_agent = writer.tell(*HISTORY, User("Your task is to create a detailed summary of the work."))
    assert asks(by_agent, **tools)


@as_one_test
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(SUMMARISE, True, id="qwen-code"),
        pytest.param(
            "Think.\n\nThen, generate the updated <state_snapshot>.", True, id="gemini-cli"
        ),
        pytest.param(
            "Provide a detailed prompt for continuing our conversation.", True, id="a prompt"
        ),
        pytest.param("Create a handoff summary for another LLM.", True, id="a handoff"),
        pytest.param("Please summarise the conversation.", True, id="in British English"),
        pytest.param(
            "x" * 5_000 + "\nSummarize the session.", True, id="at the end of a long text"
        ),
        pytest.param(
            "x" * 5_000 + SUMMARISE + "x" * 5_000, False, id="in the middle of a long text"
        ),
        pytest.param(
            "Summarize README.md in three lines.", False, id="a summary of something else"
        ),
        pytest.param("Is the summary in README.md right?", False, id="a question about one"),
        pytest.param('<summary>Command "Generate docs" done</summary>', False, id="a note"),
        pytest.param("Go on.", False, id="something else"),
        pytest.param("", False, id="nothing"),
    ],
)
def test_an_instruction_to_summarise_is_one_to_write_down_the_history(
    text: str, expected: bool
) -> None:
    messages: list[ChatMessage] = [*turn("a"), {"role": "user", "content": text}]
    assert expected == is_summary_request(read(messages))


@pytest.mark.parametrize(("after", "expected"), [(3, True), (4, False)])
def test_an_instruction_is_one_of_the_last_texts_of_a_message(after: int, expected: bool) -> None:
    content = parts(SUMMARISE, *["A reminder."] * after)
    messages: list[ChatMessage] = [*turn("a"), {"role": "user", "content": content}]
    assert expected == is_summary_request(read(messages))


@as_one_test
@pytest.mark.parametrize(
    "opening",
    [
        pytest.param(
            "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools.\n", id="claude-code"
        ),
        pytest.param(
            "CRITICAL: Respond with text only. Do NOT call any tools. Any tool call will be "
            "rejected.\n\nYou are performing a CONTEXT CHECKPOINT COMPACTION.",
            id="vibe",
        ),
        pytest.param(
            "Please provide a concise summary of our conversation so far, capturing the key "
            "context, decisions made, and current state.",
            id="Continue",
        ),
        pytest.param("\nYour task is to create a detailed summary of the talk", id="Roo Code"),
        pytest.param("You are performing a CONTEXT CHECKPOINT COMPACTION. Create", id="codex"),
        pytest.param('<explicit_instructions type="summarize_task">\nThe', id="cline"),
        pytest.param('<explicit_instructions type="condense">\nThe', id="cline, by its user"),
    ],
)
def test_an_agent_may_ask_beside_the_last_result_and_before_a_reminder(opening: str) -> None:
    def build(text: str) -> bytes:
        call = {"type": "tool_use", "id": "a", "name": "shell", "input": {}}
        result = {"type": "tool_result", "tool_use_id": "a", "content": OLD}
        return json.dumps(
            {
                "tools": [{"name": "shell"}],
                "messages": [
                    {"role": "assistant", "content": [call]},
                    {"role": "user", "content": [result, {"type": "text", "text": text}]},
                    {"role": "system", "content": "A reminder."},
                ],
            }
        ).encode()

    assert is_summary_request(read_request(build(opening), MESSAGES))
    assert not is_summary_request(read_request(build(f"He wrote: {opening}"), MESSAGES))


def test_a_list_that_only_the_system_speaks_in_asks_nothing() -> None:
    reminder: ChatMessage = {"role": "system", "content": SUMMARISE}
    conversation = dataclasses.replace(read([reminder]), results=read(turn("a")).results)
    assert not is_summary_request(conversation)


@pytest.mark.parametrize(
    ("items", "path", "expected"),
    [
        pytest.param([], "/v1/responses", False, id="an answer"),
        pytest.param([], "/v1/responses/compact", True, id="a path of its own"),
        pytest.param(
            [{"type": "compaction_trigger"}], "/v1/responses", True, id="codex's last item"
        ),
        pytest.param(
            [{"type": "compaction_trigger"}, {"role": "user", "content": "Go on."}],
            "/v1/responses",
            False,
            id="an item in the middle",
        ),
    ],
)
def test_a_provider_is_asked_for_a_history_in_short(
    items: list[object], path: str, expected: bool
) -> None:
    told = next(each for each in WRITERS if each.name == "responses").tell(*HISTORY)
    body = json.dumps({**told.document, "input": [*told.items, *items]}).encode()
    assert expected == is_summary_request(read_request(body, RESPONSES, path))


# What becomes of it.

TENTH = PricedPolicy(
    True, 3, placeholder_template=TEMPLATE, cache_read_ratio=0.1, cache_write_ratio=1.25
)
SUMMARY: ChatMessage = {"role": "user", "content": SUMMARISE}


def talk(count: int = 40) -> list[ChatMessage]:
    messages: list[ChatMessage] = [{"role": "user", "content": "Mend it. " * 50}]
    for number in range(count):
        messages += turn(f"call_{number}", f"{number} {OLD * 5}")
    return messages


class Agent:
    """Sends requests, with a memory or without one."""

    def __init__(self, policy: MaskPolicy = TENTH, *, remembers: bool = False) -> None:
        self.strategies = Strategies(schema1=policy)
        self.memory = BoundaryMemory() if remembers else None

    def send(self, messages: list[ChatMessage]) -> Rewrite:
        conversation = read_request(json.dumps({"messages": messages}).encode())
        if self.memory is None:
            return rewrite_request(conversation, self.strategies)
        known = self.memory.lookup(conversation, 0.0, 300.0)
        outcome = rewrite_request(conversation, self.strategies, context=known.context)
        self.memory.store(known, outcome.past)
        return outcome

    def work(self, messages: list[ChatMessage]) -> list[bytes]:
        return [self.send(messages[:end]).body for end in range(1, len(messages) + 1, 2)]


BY_MEMORY = pytest.mark.parametrize("remembers", [False, True], ids=["stateless", "remembered"])


@BY_MEMORY
def test_it_goes_out_whole_and_what_follows_is_masked_as_if_it_had_not_been(
    remembers: bool,
) -> None:
    messages = talk()
    quiet, agent = Agent(remembers=remembers), Agent(remembers=remembers)
    expected = quiet.work(messages)
    found = agent.work(messages[:-4])
    asked = agent.send([*messages[:-4], SUMMARY])
    found += agent.work(messages)[-2:]
    assert asked.left_unmasked
    assert {"summary"} == {decision.reason for decision in asked.decisions}
    assert (frozenset(), None, Edits()) == (asked.masked, asked.past, asked.edits)
    assert json.loads(asked.body)["messages"] == [*messages[:-4], SUMMARY]
    assert expected == found
    assert quiet.send(messages).masked  # there was something to leave


@BY_MEMORY
@pytest.mark.parametrize(
    "changes",
    [
        pytest.param(
            {"model_window": 9_000, "cache_read_ratio": 0.5}, id="the model's window is too small"
        ),
        pytest.param({}, id="it would cost too much"),
    ],
)
def test_it_stays_masked_where_it_may_not_be_whole(
    changes: dict[str, Any], remembers: bool
) -> None:
    messages = talk(20)
    agent = Agent(policy(TENTH, **changes), remembers=remembers)
    agent.work(messages)
    masked = agent.send(messages).masked
    assert masked
    asked = agent.send([*messages, SUMMARY])
    assert (False, masked) == (asked.left_unmasked, asked.masked)


def test_the_same_request_goes_out_whole_where_the_window_is_larger() -> None:
    half = policy(TENTH, cache_read_ratio=0.5)
    least = int(lay_out(read([*talk(20), SUMMARY])).requests[-1].size / 0.6)
    windows = [least - 1, least + 1]
    asked = [Agent(policy(half, model_window=w)).send([*talk(20), SUMMARY]) for w in windows]
    assert [False, True] == [each.left_unmasked for each in asked]


def test_where_the_window_is_off_there_is_nothing_to_leave() -> None:
    asked = Agent(policy(TENTH, enabled=False)).send([*talk(9), SUMMARY])
    assert ({"off"}, False) == ({d.reason for d in asked.decisions}, asked.left_unmasked)


def test_a_window_that_slides_costs_nothing_to_leave() -> None:
    sliding = policy(TENTH, cache_read_ratio=1.0, cache_write_ratio=1.0)
    assert Agent(sliding).send([*talk(9), SUMMARY]).left_unmasked


def test_what_is_redacted_stays_redacted() -> None:
    messages = [*talk(9), {"role": "assistant", "content": "Done."}, SUMMARY]
    strategies = Strategies(
        schema1=TENTH, redaction=RedactionPolicy(enabled=True, tool_names=("shell",))
    )
    asked = rewrite_request(json.dumps({"messages": messages}).encode(), strategies)
    assert asked.left_unmasked
    assert {"redacted"} == {decision.reason for decision in asked.decisions}


# The promise


@given(
    conversations,
    st.sampled_from([Pricing(0.5, 1.0), Pricing(0.1, 1.25), Pricing(0.02, 1)]),
    st.integers(1, 4),
    st.booleans(),
)
def test_the_promise_holds_with_the_whole_request_billed(
    conversation: Conversation, prices: Pricing, window: int, remembers: bool
) -> None:
    rule = exact(prices, window)
    masks = masks_of_rule(conversation, rule)
    made = None
    if remembers:
        new = [now - before for before, now in zip([frozenset(), *masks], masks, strict=False)]
        made = SentMoves({n: sorted(places) for n, places in enumerate(new[:-1]) if places})
    if allows_whole(conversation.requests, conversation.results, rule, made):
        paid = bills(conversation, [*masks[:-1], frozenset()], prices)[-1]
        full = bills(conversation, [frozenset()] * len(masks), prices)[-1]
        assert paid <= full * 1.1 * (1 + 1e-9)


@pytest.mark.parametrize("reads_at", ["marks", "request ends"])
@given(conversations, st.integers(1, 4), st.integers(0, 100))
def test_it_holds_where_a_cache_is_read_at_entries_alone(
    reads_at: ReadsAt, conversation: Conversation, window: int, part: int
) -> None:
    prices, nothing = Pricing(0.1, 1.25), [frozenset[int]()] * len(conversation.requests)
    rule = policy(exact(prices, window), reads_at=reads_at)
    head = int(conversation.requests[0].size * part / 100)
    masks = masks_of_rule(conversation, rule, head)
    if allows_whole(*conversation, rule, marked=head):
        sent = [*masks[:-1], frozenset[int]()]
        paid = sum(costs_at_entries(conversation, sent, prices, rule, head))
        full = sum(costs_at_entries(conversation, nothing, prices, rule, head))
        assert paid <= full * 1.1 * (1 + 1e-9)


@pytest.mark.parametrize(
    ("least", "times"),
    [
        pytest.param(0, 0, id="any prefix is cached"),
        pytest.param(1_024, 2, id="what precedes the first result is too short"),
    ],
)
def test_a_prefix_that_is_too_short_to_be_cached_is_paid_for_in_full(
    least: int, times: int
) -> None:
    """At the move, and once more at the request that goes out whole."""
    conversation, prices, nothing = (
        converse([(100, [2_000])] * 12, 900),
        PRICES[3],
        frozenset[int](),
    )
    made = SentMoves({11: range(9)})
    paid = bills(conversation, [*[nothing] * 11, frozenset(range(9)), nothing], prices)[-1]
    paid += times * (prices.write - prices.read) * conversation.results[0].offset
    loss = paid / bills(conversation, [nothing] * 13, prices)[-1] - 1
    assert [False, True] == [
        allows_whole(
            *conversation,
            policy(exact(prices, 3, loss=loss + more), shortest_prefix=least),
            made,
        )
        for more in (-0.001, 0.001)
    ]


def test_the_reason_is_one_of_a_whole_request() -> None:
    names = [*REASONS]
    assert names.index("summary") == names.index("bound") + 1

"""Bound reasoning that the provider drops where a text before it has changed.

The provider of these tests signs each thinking block with a digest of all that it was sent before
the block. It refuses a request in which such a digest no longer fits, unless that has it dropped.
"""

import json
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from addon.memory import decode_branches, encode_branches
from masking.accounting import read_prompt
from masking.memory import BoundaryMemory, Memories, Remembered
from masking.model import Decision
from masking.proof import Prover
from masking.rewrite import Rewrite, Strategies, read_request
from masking.rewrite import Step as RequestStep
from masking.tokens import TokenCounter
from masking.window import BoundaryPrices, MaskPolicy
from masking.wire.format import Document
from masking.wire.messages import MESSAGES
from tests.support.bound_thinking import is_taken, sign
from tests.support.builders import OLD, TEMPLATE
from tests.support.marks import as_one_test

MODEL = "claude-fable-5-2"
DROP_BLOCK = {"prefix_mismatch_behavior": "drop_block"}
BETA = "thinking-binding-controls-2026-08-01"
DAY = 86_400.0

POLICY = MaskPolicy(True, 2, False, None, TEMPLATE)
LONGER = replace(POLICY, window_turns=4, placeholder_template="[{tool_name} masked]")
OFF = replace(POLICY, enabled=False)
SLIDES, MARKED = BoundaryPrices(), BoundaryPrices(0.1, 1.25, reads_at="marks")


class Step(NamedTuple):
    """One request: whether its answer thinks, what its user has set, and what happens before it.

    forgets: whether the file with the memory is deleted first, and the proxy started anew.
    """

    thinks: bool = True
    drops: bool = True
    restarts: bool = False
    forgets: bool = False
    policy: MaskPolicy = POLICY
    prices: BoundaryPrices = SLIDES


class Session:
    """An agent, the core with a memory that is kept in a file, and the provider."""

    def __init__(self, **others: object) -> None:
        self.others = {"model": MODEL, **others}
        self.messages: list[dict[str, Any]] = [{"role": "user", "content": "Repair it."}]
        self.file: dict[bytes, str] = {}
        self.refused: list[int] = []
        self.restart()

    def restart(self) -> None:
        memory = BoundaryMemory(self._write)
        known = [*self.file.items()]
        memory.load((opening, Remembered(decode_branches(line))) for opening, line in known)
        self.memories = Memories(memory)

    def _write(self, opening: bytes, remembered: Remembered) -> None:
        self.file[opening] = encode_branches(remembered.branches)

    @property
    def body(self) -> bytes:
        return json.dumps({**self.others, "messages": self.messages}).encode()

    def send(self, step: Step) -> Rewrite:
        if step.forgets:
            self.file.clear()
        if step.restarts or step.forgets:
            self.restart()
        client = read_request(self.body, MESSAGES, "/v1/messages")
        strategies = Strategies(schema1=step.policy)
        met = RequestStep(
            client, strategies, step.prices, self.memories, lifetime=DAY, prover=Prover()
        )
        rewrite = met.rewrite(drops=step.drops)
        met.remember(rewrite)
        return rewrite

    def take(self, step: Step) -> Rewrite:
        """Send the conversation so far, and add the answer and its tool result."""
        rewrite = self.send(step)
        sent = json.loads(rewrite.body)
        binding = (sent.get("thinking") or {}).get("block_binding")
        assert rewrite.drops == (binding == DROP_BLOCK) == (BETA in rewrite.betas)
        if not (rewrite.drops or is_taken(sent)):
            self.refused.append(len(self.messages))
        number = len(self.messages)
        thought = {"type": "thinking", "thinking": "Hm. " * 50, "signature": sign(sent["messages"])}
        call = {"type": "tool_use", "id": f"c{number}", "name": "shell", "input": {"n": number}}
        result = {"type": "tool_result", "tool_use_id": f"c{number}", "content": f"{number} {OLD}"}
        self.messages += [
            {"role": "assistant", "content": [*([thought] if step.thinks else []), call]},
            {"role": "user", "content": [result]},
        ]
        return rewrite


def reasons(decisions: tuple[Decision, ...]) -> list[str]:
    return [decision.reason for decision in decisions]


def test_what_may_not_be_masked_is_masked_and_the_reasoning_after_it_dropped() -> None:
    session = Session(max_tokens=5)
    rewrites = [session.take(Step()) for _ in range(5)]
    assert [False] * 3 + [True] * 2 == [each.drops for each in rewrites]
    last = rewrites[-1]
    assert ["masked", "masked", "in_window", "in_window"] == reasons(last.decisions)
    # No other byte has changed: what is added stands at the end.
    own = json.dumps({**session.others, "messages": session.messages[:9]})
    thinking = json.dumps(
        {"thinking": {"type": "adaptive", "block_binding": DROP_BLOCK}}, separators=(",", ":")
    )
    placeholders = [r.placeholder for each in last.decisions for r in each.replacements]
    for number, placeholder in zip((1, 3), placeholders, strict=True):
        own = own.replace(f'"{number} {OLD}"', json.dumps(placeholder))
    assert own[:-1] + "," + thinking[1:] == last.body.decode()
    # The second thought was made before the first result was masked, and the third is the last one
    # before the second was. The first stands before all that was masked.
    assert {3, 5, 7} == last.dropped
    prompt = read_prompt(last, TokenCounter())
    [first, second] = [prompt.before[n].tokens - prompt.after[n].tokens for n in (2, 4)]
    assert (0, True) == (first, 50 <= second)
    assert [] == session.refused


def test_what_the_client_says_of_thinking_is_added_to() -> None:
    thinking = {"type": "adaptive", "display": "summarized"}
    session = Session(thinking=thinking)
    last = [session.take(Step()) for _ in range(4)][-1]
    assert {**thinking, "block_binding": DROP_BLOCK} == json.loads(last.body)["thinking"]


@pytest.mark.parametrize(
    ("change", "masked"), [({"drops": False}, 1), ({"policy": OFF}, 0), ({"policy": LONGER}, 2)]
)
def test_once_it_was_asked_each_request_asks_whatever_the_settings_say(
    change: dict[str, Any], masked: int
) -> None:
    session = Session()
    for _ in range(4):
        session.take(Step())
    changed = Step()._replace(restarts=True, **change)
    rewrites = [session.take(changed) for _ in range(3)]
    assert [True] * 3 == [each.drops for each in rewrites]
    assert ([], True) == (session.refused, session.take(Step()).drops)
    assert masked == reasons(rewrites[-1].decisions).count("masked")


def test_a_conversation_that_was_forgotten_may_hold_reasoning_that_no_longer_fits() -> None:
    session = Session()
    for _ in range(4):
        session.take(Step())
    assert session.take(Step(forgets=True)).drops
    assert [] == session.refused
    unbound = Session()
    for _ in range(4):
        unbound.take(Step(thinks=False))
    assert not unbound.take(Step(thinks=False, forgets=True)).drops


def test_a_request_that_is_left_whole_for_a_summary_asks_too() -> None:
    session = Session()
    for _ in range(4):
        session.take(Step())
    asks = "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools."
    session.messages[-1]["content"].append({"type": "text", "text": asks})
    asked = session.send(Step())
    assert (True, True) == (asked.left_unmasked, asked.drops)


def test_nothing_asks_where_reasoning_is_bound_to_nothing_or_nothing_changes_before_it() -> None:
    free, thoughtless = Session(model="claude-opus-5"), Session()
    for _ in range(5):
        assert not free.take(Step()).drops
        last = thoughtless.take(Step(thinks=False))
        assert not last.drops
    assert "masked" in reasons(last.decisions)


def test_without_a_memory_and_beside_clearing_nothing_is_dropped() -> None:
    session = Session()
    for _ in range(5):
        session.take(Step(drops=False))
    client = read_request(session.body, MESSAGES, "/v1/messages")
    alone = RequestStep(client, Strategies(schema1=POLICY)).rewrite(drops=True)
    assert (False, client.request.body) == (alone.drops, alone.body)
    met = RequestStep(
        client, Strategies(schema1=POLICY), SLIDES, session.memories, lifetime=DAY, prover=Prover()
    )
    cleared = met.rewrite(drops=True, clears=True)
    assert (True, False) == (cleared.clearing is not None, cleared.drops)
    assert ("context-management-2025-06-27",) == cleared.betas


def test_a_provider_also_clears_what_a_client_has_added_to_a_result() -> None:
    left = []
    for reminder in ("", "\n<system-reminder>Go on.</system-reminder>"):
        session = Session()
        for _ in range(4):
            session.take(Step(drops=False))
            session.messages[-1]["content"][0]["content"] += reminder
        client = read_request(session.body, MESSAGES, "/v1/messages")
        met = RequestStep(
            client,
            Strategies(schema1=POLICY),
            SLIDES,
            session.memories,
            lifetime=DAY,
            prover=Prover(),
        )
        cleared = met.rewrite(clears=True)
        assert ["cleared", "cleared"] == reasons(cleared.decisions)[:2]
        prompt = read_prompt(cleared, TokenCounter())
        left.append([prompt.after[n].tokens for n in (3, 5)])
    assert left[0] == left[1]


def test_what_was_dropped_in_a_conversation_is_not_cleared_in_it() -> None:
    session = Session()
    for _ in range(4):
        session.take(Step())
    client = read_request(session.body, MESSAGES, "/v1/messages")
    met = RequestStep(
        client, Strategies(schema1=POLICY), SLIDES, session.memories, lifetime=DAY, prover=Prover()
    )
    both = met.rewrite(clears=True)
    assert (None, True) == (both.clearing, both.drops)


@as_one_test
@pytest.mark.parametrize(
    ("document", "path", "model", "expected"),
    [
        ({}, "/v1/messages", MODEL, True),
        ({}, "", MODEL, True),
        ({}, "/v1/messages/count_tokens", "claude-opus-5-5", True),
        ({}, "/model/anthropic.claude/invoke", MODEL, False),
        ({}, "/v1/messages", "my-alias", False),
        ({"thinking": {"type": "adaptive"}}, "", "my-alias", True),
        ({"thinking": {"type": "enabled", "budget_tokens": 9}}, "", MODEL, True),
        ({"thinking": {"type": "disabled"}}, "", MODEL, False),
        ({"thinking": 7}, "", MODEL, False),
        ({"thinking": {"type": "adaptive", "block_binding": {}}}, "", MODEL, True),
        ({"thinking": {"type": "adaptive", "block_binding": DROP_BLOCK}}, "", MODEL, False),
        ({"thinking": {"type": "adaptive", "block_binding": 7}}, "", MODEL, False),
    ],
)
def test_what_a_client_says_of_thinking_stays(
    document: Document, path: str, model: str, expected: bool
) -> None:
    assert MESSAGES.dropping is not None
    assert expected == MESSAGES.dropping.is_possible(document, path, model)


def test_a_request_without_thinking_is_left_as_it_is() -> None:
    session = Session()
    for _ in range(4):
        session.take(Step())
    session.others["thinking"] = {"type": "disabled"}
    rewrite = session.send(Step())
    assert (False, ()) == (rewrite.drops, rewrite.betas)
    assert ["masked"] == [each for each in reasons(rewrite.decisions) if each == "masked"]


def test_a_move_takes_the_reasoning_after_it_out_of_the_prompt() -> None:
    """What is left to be written anew is less, so a move pays earlier than where it stays."""

    def first_masked(session: Session, *, drops: bool = True) -> int:
        for number in range(60):
            rewrite = session.take(Step(drops=drops, prices=MARKED))
            if "masked" in reasons(rewrite.decisions):
                return number
        return 60

    dropping = first_masked(Session())
    keeping = first_masked(Session(model="claude-opus-5"), drops=False)
    assert dropping < keeping


on, prices = st.sampled_from([POLICY, LONGER]), st.sampled_from([SLIDES, MARKED])
yes, no, either = st.just(True), st.just(False), st.booleans()
steps = st.tuples(either, either, either, no, on | st.just(OFF), prices) | st.tuples(
    either, yes, no, yes, on, prices
)
"""The memory is lost only while reasoning may be dropped: else nobody knows that it was."""


@given(st.lists(steps, min_size=4, max_size=24))
def test_no_request_through_the_proxy_is_refused(given_steps: list[tuple[Any, ...]]) -> None:
    session, has_dropped = Session(), False
    for each in given_steps:
        step = Step(*each)
        # What was masked before any of it stood before reasoning comes back, as with all settings.
        is_off = step.policy is OFF and not has_dropped
        has_dropped |= session.take(step._replace(policy=POLICY) if is_off else step).drops
    assert [] == session.refused

"""Reasoning that is bound to everything before it, against a provider that checks it.

The provider of these tests signs each thinking block with a digest of all that it was sent before
the block, and refuses a request in which such a digest no longer fits, as Claude's does.
"""

import json
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from addon.memory import decode_branches, encode_branches
from masking.memory import BoundaryMemory, Remembered
from masking.redaction import RedactionPolicy
from masking.reduction import ReductionOptions
from masking.rewrite import Rewrite, Strategies, read_request
from masking.window import MaskPolicy
from masking.window.policy import BoundReasoning
from masking.wire import is_binding_assumed
from masking.wire.messages import MESSAGES
from tests.support.bound_thinking import forget_thinking, is_taken, sign
from tests.support.builders import OLD, TEMPLATE
from tests.support.made_up_format import change
from tests.support.marks import as_one_test
from tests.support.priced import PricedPolicy, rewrite_request

BINDS, FREE = "claude-opus-5-5", "claude-opus-5"
SLIDING = PricedPolicy(True, 2, False, None, TEMPLATE)
PRICED = replace(SLIDING, cache_read_ratio=0.1, cache_write_ratio=1.25, reads_at="marks")
LONGER = replace(SLIDING, window_turns=4, placeholder_template="[{tool_name} masked]")
POLICIES = (SLIDING, PRICED, LONGER)
DAY = 86_400.0


class Step(NamedTuple):
    """One request: whether its answer thinks, which way it goes, and what happens before it."""

    thinks: bool = False
    way: Literal["proxy", "direct"] = "proxy"
    restarts: bool = False
    policy: MaskPolicy = SLIDING


@dataclass
class Session:
    """An agent, the core with a memory that is kept in a file, and the provider."""

    model: str = BINDS
    others: Strategies = field(default_factory=Strategies)
    thinking: dict[str, object] = field(default_factory=dict)
    messages: list[dict[str, Any]] = field(
        default_factory=lambda: [{"role": "user", "content": "Repair it."}]
    )
    refused: list[Step] = field(default_factory=list)
    file: dict[bytes, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self.memory = BoundaryMemory(self._write)
        known = self.file.items()
        self.memory.load((opening, Remembered(decode_branches(line))) for opening, line in known)

    def _write(self, opening: bytes, remembered: Remembered) -> None:
        self.file[opening] = encode_branches(remembered.branches)

    def take(self, step: Step) -> Rewrite | None:
        """Send the conversation so far, and add the answer and its tool result."""
        if step.restarts:
            self.restart()
        rewrite = self.send(step)
        sent = json.loads(rewrite.body if rewrite else self.body)
        if not self._is_taken(sent):
            self.refused.append(step)
            forget_thinking(self.messages)  # as claude-code does
            rewrite = self.send(step)
            sent = json.loads(rewrite.body if rewrite else self.body)
            assert self._is_taken(sent)
        number = len(self.messages)
        thought = {"type": "thinking", "thinking": "Hm.", "signature": sign(sent["messages"])}
        call = {"type": "tool_use", "id": f"c{number}", "name": "shell", "input": {"n": number}}
        result = {"type": "tool_result", "tool_use_id": f"c{number}", "content": f"{number} {OLD}"}
        self.messages += [
            {"role": "assistant", "content": [*([thought] if step.thinks else []), call]},
            {"role": "user", "content": [result]},
        ]
        return rewrite

    @property
    def body(self) -> bytes:
        document = {"model": self.model, "messages": self.messages, "thinking": self.thinking}
        return json.dumps(document).encode()

    def send(self, step: Step) -> Rewrite | None:
        if step.way == "direct":
            return None
        conversation = read_request(self.body, MESSAGES)
        known = self.memory.lookup(conversation, 0.0, DAY)
        strategies = replace(self.others, schema1=step.policy)
        rewrite = rewrite_request(conversation, strategies, context=known.context)
        self.memory.store(known, rewrite.past)
        return rewrite

    def _is_taken(self, sent: dict[str, Any]) -> bool:
        return self.model == FREE or bool(self.thinking) or is_taken(sent)


def reasons(rewrite: Rewrite | None) -> list[str]:
    assert rewrite is not None
    return [decision.reason for decision in rewrite.decisions]


THINKS, PLAIN = Step(thinks=True), Step()


def test_what_stands_before_reasoning_is_not_masked() -> None:
    session = Session()
    for _ in range(6):
        last = session.take(THINKS)
    assert session.refused == []
    assert reasons(last) == ["bound"] * 3 + ["in_window"] * 2


def test_without_reasoning_a_new_model_is_masked_like_any_other() -> None:
    session = Session()
    for _ in range(6):
        last = session.take(PLAIN)
    assert reasons(last) == ["masked"] * 3 + ["in_window"] * 2


def test_what_was_masked_when_reasoning_was_made_stays_masked_and_no_more() -> None:
    session = Session()
    for step in [PLAIN] * 5 + [THINKS] + [PLAIN] * 3:
        last = session.take(step)
    assert session.refused == []
    assert reasons(last) == ["masked"] * 3 + ["bound"] * 2 + ["held"] + ["in_window"] * 2


def test_results_after_the_last_reasoning_are_masked_again() -> None:
    """Once all that is not masked yet stands behind the reasoning."""
    session = Session()
    for step in [PLAIN] * 2 + [THINKS] + [PLAIN] * 6:
        last = session.take(replace_policy(step, LONGER))
    assert session.refused == []
    assert "masked" not in reasons(last)
    kept = Session()
    for step in [THINKS] + [PLAIN] * 6:
        last = kept.take(step)
    assert kept.refused == []
    assert reasons(last) == ["masked"] * 4 + ["in_window"] * 2


def replace_policy(step: Step, policy: MaskPolicy) -> Step:
    return step._replace(policy=policy)


def test_a_proxy_that_joins_late_sends_all_as_it_came() -> None:
    session = Session()
    for step in [THINKS._replace(way="direct")] * 6 + [THINKS] * 3:
        last = session.take(step)
    assert session.refused == []
    assert reasons(last) == ["bound"] * 6 + ["in_window"] * 2


def test_a_proxy_that_was_passed_by_sends_all_as_it_came() -> None:
    """The agent answered the refusal by leaving out its reasoning; the new one is bound anew."""
    session = Session()
    direct = THINKS._replace(way="direct")
    for step in [PLAIN] * 5 + [THINKS] + [direct] * 3 + [THINKS]:
        last = session.take(step)
    assert session.refused == [direct]
    assert reasons(last) == ["bound"] * 7 + ["in_window"] * 2


def test_a_restart_and_other_settings_change_nothing() -> None:
    session = Session()
    for step in [PLAIN] * 5 + [THINKS, THINKS]:
        session.take(step)
    before = session.take(THINKS)
    after = session.take(Step(thinks=True, restarts=True, policy=LONGER))
    assert session.refused == []
    assert reasons(before)[:3] == reasons(after)[:3] == ["masked"] * 3


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        pytest.param([PLAIN] * 5 + [THINKS], False, id="reasoning that was made later"),
        pytest.param([PLAIN] * 6, True, id="no reasoning"),
    ],
)
def test_a_request_for_a_summary_is_whole_where_nothing_is_bound_to_what_is_masked(
    steps: list[Step], expected: bool
) -> None:
    session = Session()
    for step in steps:
        session.take(step)
    asks = "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools."
    session.messages[-1]["content"].append({"type": "text", "text": asks})
    asked = session.send(PLAIN)
    assert asked is not None
    assert (expected, not expected) == (asked.left_unmasked, "masked" in reasons(asked))
    assert session._is_taken(json.loads(asked.body))


def test_a_request_may_allow_reasoning_to_be_dropped() -> None:
    drop: dict[str, object] = {
        "type": "adaptive",
        "block_binding": {"prefix_mismatch_behavior": "drop_block"},
    }
    session = Session(thinking=drop)
    for _ in range(6):
        last = session.take(THINKS)
    assert reasons(last) == ["masked"] * 3 + ["in_window"] * 2


def test_reasoning_of_older_models_is_bound_to_nothing() -> None:
    session = Session(model=FREE)
    for _ in range(6):
        last = session.take(THINKS)
    assert reasons(last) == ["masked"] * 3 + ["in_window"] * 2


@pytest.mark.parametrize("thinks", [True, False])
def test_without_a_memory_nothing_is_masked(thinks: bool) -> None:
    """Reasoning may come with the answer, and the next request could not be sent alike."""
    session = Session()
    for _ in range(6):
        session.take(Step(thinks=thinks, way="direct"))
    conversation = read_request(session.body, MESSAGES)
    rewrite = rewrite_request(conversation, Strategies(schema1=SLIDING))
    assert rewrite.body is session.body or rewrite.body == session.body
    assert reasons(rewrite) == ["bound"] * 4 + ["in_window"] * 2


def test_other_strategies_stand_back() -> None:
    others = Strategies(
        redaction=RedactionPolicy(True, ("shell",)),
        reduction=ReductionOptions(enabled=True, max_input_chars=100),
    )
    session = Session(others=others)
    for step in [PLAIN, THINKS] * 4:
        last = session.take(step)
    assert session.refused == []
    assert last is not None
    assert last.redactions is None
    assert last.plan is None


@pytest.mark.parametrize(("setting", "masked"), [("keep", 0), ("drop", 3)])
def test_reasoning_that_is_only_dropped_may_be_given_up(
    setting: BoundReasoning, masked: int
) -> None:
    wire = change(MESSAGES, on_history_edit=lambda *_: "drops")
    session = Session()
    for _ in range(5):
        session.take(THINKS._replace(way="direct"))
    conversation = read_request(session.body, wire)
    policy = replace(SLIDING, bound_reasoning=setting)
    found = reasons(rewrite_request(conversation, Strategies(schema1=policy)))
    assert found.count("masked") == masked
    assert found.count("bound") == 3 - masked


steps = st.builds(
    Step,
    st.booleans(),
    st.sampled_from(["proxy", "proxy", "proxy", "direct"]),
    st.booleans(),
    st.sampled_from(POLICIES),
)


@given(st.lists(steps, min_size=4, max_size=24))
def test_no_request_through_the_proxy_is_refused(given_steps: list[Step]) -> None:
    """Unless the agent itself went past the proxy meanwhile, with reasoning made behind it."""
    session = Session()
    for step in given_steps:
        session.take(step)
    assert all(step.way == "direct" for step in session.refused)


@as_one_test
@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (None, True),
        ("sonnet", True),
        ("claude-opus-5-5", False),
        ("gpt-5.6", False),
        ("codex-auto-review", True),
    ],
)
def test_a_name_that_tells_nothing_is_known_as_such(model: str | None, expected: bool) -> None:
    assert expected == is_binding_assumed(model)

"""The strategies together: their order, one decision for each result, the client's own bytes."""

import json
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masking.accounting.prompt import read_prompt
from masking.errors import WireError
from masking.messages_api import redact_tool_results, reduce_history
from masking.model import ChatMessage
from masking.redaction import RedactionPolicy
from masking.reduction import ReductionOptions
from masking.rewrite import Rewrite, Strategies, read_request
from masking.tokens import TokenCounter
from masking.window import MaskPolicy
from tests.support.builders import MASK_ALL, OLD, TEMPLATE, documents, policies, turn, unanswered
from tests.support.marks import as_one_test
from tests.support.priced import mask_old_tool_results, prices_of, rewrite_request

OFF = Strategies()
ANSWER: ChatMessage = {"role": "assistant", "content": "So it is."}
QUESTION: ChatMessage = {"role": "user", "content": "Why?"}
REDACT = RedactionPolicy(True, ("read",), "[{tool_name} {original_chars}]")
REDUCE = ReductionOptions(enabled=True, max_input_chars=700, preserve_recent_raw_turns=2)


def change(messages: list[ChatMessage], strategies: Strategies) -> Rewrite:
    body = json.dumps({"model": "m", "messages": messages}, indent=1).encode()
    return rewrite_request(read_request(body), strategies)


def reasons(found: Rewrite) -> list[str]:
    return [decision.reason for decision in found.decisions]


TALK = [
    *[QUESTION, *turn("a", tool="read"), *turn("b", tool="shell"), ANSWER],
    *[QUESTION, *turn("c", tool="read"), *turn("d", tool="shell")],
]


@as_one_test
@pytest.mark.parametrize(
    ("strategies", "expected"),
    [
        pytest.param(OFF, ["off"] * 4, id="all off"),
        pytest.param(
            Strategies(redaction=REDACT),
            ["redacted", "other_tool", "in_use", "other_tool"],
            id="redaction",
        ),
        pytest.param(
            Strategies(schema1=MASK_ALL), ["masked", "masked", "masked", "in_window"], id="window"
        ),
        pytest.param(
            Strategies(redaction=REDACT, schema1=MASK_ALL),
            ["redacted", "masked", "masked", "in_window"],
            id="what redaction has settled the window leaves alone",
        ),
        pytest.param(
            Strategies(reduction=REDUCE), ["reduced", "reduced", "reduced", "off"], id="reduction"
        ),
        pytest.param(
            Strategies(redaction=REDACT, reduction=REDUCE),
            ["redacted", "reduced", "reduced", "other_tool"],
            id="what redaction has settled reduction leaves alone",
        ),
        pytest.param(
            Strategies(schema1=replace(MASK_ALL, window_turns=2), reduction=REDUCE),
            ["masked", "masked", "reduced", "in_window"],
            id="what the window has masked reduction leaves alone",
        ),
        pytest.param(
            Strategies(redaction=REDACT, schema1=MASK_ALL, reduction=REDUCE),
            ["redacted", "masked", "masked", "in_window"],
            id="reduction comes last, and finds the budget kept",
        ),
        pytest.param(
            Strategies(reduction=replace(REDUCE, max_input_chars=400)),
            ["dropped", "dropped", "dropped", "off"],
            id="a reduction that drops messages drops their results",
        ),
        pytest.param(
            Strategies(redaction=REDACT, reduction=replace(REDUCE, max_input_chars=400)),
            ["dropped", "dropped", "dropped", "other_tool"],
            id="whoever had settled them",
        ),
    ],
)
def test_every_result_is_decided_once_by_the_first_that_settles_it(
    strategies: Strategies, expected: list[str]
) -> None:
    assert expected == reasons(change(TALK, strategies))


def test_each_placeholder_is_that_of_its_strategy() -> None:
    window = replace(MASK_ALL, window_turns=3)
    found = change(TALK, Strategies(redaction=REDACT, schema1=window, reduction=REDUCE))
    contents = [d.replacements[0].placeholder if d.replacements else None for d in found.decisions]
    shell = TEMPLATE.format(tool_call_id="b", tool_name="shell", original_chars=len(OLD))
    masked = change(TALK, Strategies(schema1=MASK_ALL)).decisions[1].replacements[0].placeholder
    assert shell == masked
    assert f"[read {len(OLD)}]" == contents[0]
    assert "[observation masked" in (contents[1] or "")


def test_a_placeholder_that_redaction_finds_is_not_masked_again() -> None:
    talk = [QUESTION, *turn("a", f"[read {9_000}]", tool="read"), ANSWER, *unanswered(2)]
    found = change(talk, Strategies(redaction=REDACT, schema1=MASK_ALL))
    assert ["already_masked"] == reasons(found)


def test_a_summary_never_brings_back_what_was_redacted() -> None:
    talk = [QUESTION, *turn("a", "the secret " * 60, tool="read"), ANSWER, QUESTION, *unanswered()]
    options = ReductionOptions(enabled=True, max_input_chars=20, preserve_recent_raw_turns=1)
    plain = change(talk, Strategies(reduction=replace(options, max_input_chars=600)))
    found = change(talk, Strategies(redaction=REDACT, reduction=options))
    assert plain.plan is not None
    assert found.plan is not None
    assert b"secret" not in found.body


def test_what_the_window_masked_a_summary_may_still_quote() -> None:
    talk = [QUESTION, *turn("a", "the outcome was 42. " * 60), ANSWER, QUESTION, *unanswered(2)]
    options = ReductionOptions(
        enabled=True, max_input_chars=400, preserve_recent_raw_turns=1, observation_masking=False
    )
    words: ChatMessage = {"role": "user", "content": "words " * 200}
    long = [*talk[:1], words, *talk[1:]]
    found = change(long, Strategies(schema1=MASK_ALL, reduction=options))
    assert found.plan is not None
    assert "summarization" == found.plan.stage
    assert b"the outcome was 42" in found.body


def test_a_reduction_that_would_leave_only_the_system_is_set_aside() -> None:
    options = ReductionOptions(
        enabled=True, max_input_chars=10, preserve_recent_raw_turns=0, summary_max_chars=0
    )
    done: ChatMessage = {"role": "assistant", "content": "Done."}
    talk: list[ChatMessage] = [{"role": "system", "content": "s"}, *TALK, done]
    found = change(talk, Strategies(schema1=MASK_ALL, reduction=options))
    assert change(talk, Strategies(schema1=MASK_ALL)).body == found.body
    assert found.plan is not None
    assert ("fallback", frozenset()) == (found.plan.stage, found.plan.dropped)


@pytest.mark.parametrize("redaction", [RedactionPolicy(), REDACT])
@pytest.mark.parametrize(
    "reduction", [ReductionOptions(), replace(REDUCE, max_input_chars=400)], ids=["", "drops"]
)
def test_what_the_window_masks_is_known_whoever_settled_it(
    redaction: RedactionPolicy, reduction: ReductionOptions
) -> None:
    strategies = Strategies(redaction=redaction, schema1=MASK_ALL, reduction=reduction)
    assert {0, 1, 2} == change(TALK, strategies).masked


@as_one_test
@pytest.mark.parametrize(
    "strategies",
    [
        OFF,
        Strategies(redaction=RedactionPolicy(True)),
        Strategies(redaction=replace(REDACT, enabled=False)),
        Strategies(reduction=replace(REDUCE, enabled=False)),
        Strategies(reduction=replace(REDUCE, max_input_chars=0)),
        Strategies(reduction=replace(REDUCE, max_input_chars=10**6)),
    ],
)
def test_what_is_off_or_has_nothing_to_do_leaves_the_very_same_bytes(
    strategies: Strategies,
) -> None:
    body = json.dumps({"messages": TALK}).encode()
    assert rewrite_request(read_request(body), strategies).body is body
    assert strategies.can_change == strategies.reduction.reduces


redactions = st.builds(
    RedactionPolicy,
    st.booleans(),
    st.sampled_from([(), ("shell",), ("shell", "read", "a", "b")]),
    st.sampled_from([TEMPLATE, "x"]),
)
reductions = st.builds(
    ReductionOptions,
    enabled=st.booleans(),
    max_input_chars=st.sampled_from([1, 30, 200, 2_000]),
    preserve_recent_raw_turns=st.integers(0, 4),
    summary_max_chars=st.sampled_from([0, 60, 1_400]),
    observation_masking=st.booleans(),
)


@given(documents(), redactions, policies, reductions)
def test_bytes_and_messages_agree_whatever_is_on(
    document: dict[str, object],
    redaction: RedactionPolicy,
    policy: MaskPolicy,
    reduction: ReductionOptions,
) -> None:
    """One after the other on messages gives what all at once gives on bytes."""
    body = json.dumps(document).encode()
    strategies = Strategies(redaction=redaction, schema1=policy, reduction=reduction)
    decoded = read_request(body)
    try:
        found = rewrite_request(decoded, strategies)
    except WireError:
        return
    messages, arrived = (json.loads(data)["messages"] for data in (body, found.body))
    if not reduction.enabled:
        assert len(messages) == len(arrived)
    if not redaction.redacts and not reduction.enabled and prices_of(policy).slides:
        assert repr(mask_old_tool_results(messages, policy)) == repr(arrived)
    if not policy.masks and not reduction.enabled:
        assert repr(redact_tool_results(messages, redaction)) == repr(arrived)
    if not policy.masks and not redaction.redacts:
        assert repr(reduce_history(messages, reduction).messages) == repr(arrived)
    counted = Counter(decision.reason for decision in found.decisions)
    assert len(found.conversation.results) == counted.total()


@given(documents(), redactions, policies)
def test_redaction_never_makes_the_window_unmask(
    document: dict[str, object], redaction: RedactionPolicy, policy: MaskPolicy
) -> None:
    body = json.dumps(document).encode()
    alone = rewrite_request(body, policy)
    together = rewrite_request(read_request(body), Strategies(redaction=redaction, schema1=policy))
    for one, both in zip(alone.decisions, together.decisions, strict=True):
        settled = both.reason in ("redacted", "already_masked")
        assert one.reason == both.reason or settled or one.reason == "off"


@pytest.mark.parametrize(("least", "expected"), [(330, "masked"), (331, "too_short")])
def test_a_result_that_is_shorter_than_the_least_is_left_alone(least: int, expected: str) -> None:
    found = change(TALK, Strategies(schema1=replace(MASK_ALL, min_chars=least)))
    assert expected == found.decisions[0].reason


def test_a_dropped_message_is_no_part_of_the_prompt() -> None:
    found = change(TALK, Strategies(reduction=replace(REDUCE, max_input_chars=400)))
    prompt = read_prompt(found, TokenCounter())
    assert len(prompt.after) < len(prompt.before) == prompt.altered
    assert [0, 0, 0, len(OLD)] == [decision.chars_after for decision in found.decisions]

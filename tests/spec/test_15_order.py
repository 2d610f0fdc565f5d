"""Chapter 15: redaction, then the window, then reduction; and what is sent whole.

The chapters before this one say what each strategy does; here they meet. Each may be on alone.
"""

import json
from dataclasses import replace

import pytest

from masking import RedactionPolicy, ReductionOptions, rewrite_request
from masking.rewrite import Strategies
from masking.window import FREE, BoundaryPrices, is_summary_request
from tests.spec.talk import CACHED, CHAT, OUTPUT, SHORT, Proxy, mask, reasons
from tests.support.marks import as_one_test
from tests.support.wire_conversations import IN_EVERY_FORMAT, Model, User, Writer, turn

REDACTION = RedactionPolicy(True, ("read",), "(redacted)")
REDUCTION = ReductionOptions(enabled=True, max_input_chars=1_700, preserve_recent_raw_turns=6)
TALK = (
    User("Fix the build."),
    *turn("a", OUTPUT),
    *turn("b", OUTPUT, "read"),
    Model(text="I see."),
    User("And now?"),
    *turn("c", OUTPUT, "read"),
    *turn("d", OUTPUT),
)


@as_one_test
@IN_EVERY_FORMAT
def test_a_result_has_one_decision_that_of_the_first_strategy_which_settles_it(
    writer: Writer,
) -> None:
    strategies = Strategies(redaction=REDACTION, schema1=SHORT)
    rewrite = mask(writer.tell(*TALK), strategies)
    assert ["masked", "redacted", "masked", "in_window"] == reasons(rewrite)
    assert 2 == rewrite.body.count(b"(redacted)")  # redacted, and masked to be redacted later
    assert mask(writer.tell(*TALK), SHORT).masked == rewrite.masked  # the window does not move


@as_one_test
@IN_EVERY_FORMAT
@pytest.mark.parametrize("prices", [FREE, CACHED], ids=["a window that slides", "cached"])
def test_what_will_be_redacted_is_masked_in_the_same_words(
    writer: Writer, prices: BoundaryPrices
) -> None:
    """No text changes twice: not when the window masks it, and again once it is redacted."""
    strategies = Strategies(redaction=REDACTION, schema1=SHORT)
    told = [User("Fix the build."), *turn("a", OUTPUT * 20, "read"), *turn("b", OUTPUT * 20)]
    proxy, sent = Proxy(), []
    for number in range(8):
        if number == 6:
            told += [Model(text="I see."), User("And now?")]
        told += turn(f"c{number}")
        masked = proxy.send(writer.tell(*told), strategies, prices)
        sent.append((masked.decisions[0].reason, masked.body.count(b"(redacted)")))
        alone = mask(writer.tell(*told), strategies, prices)
        assert alone.decisions[1].reason != "masked" or b"<a read" not in alone.body
    assert ("masked", 1) in sent
    assert ("redacted", 1) == sent[-1]
    assert {("in_window", 0), ("held", 0), ("masked", 1), ("redacted", 1)} >= {*sent}


def test_with_other_settings_what_was_masked_stays_so_in_words_that_are_shorter() -> None:
    """Words for redaction that are longer than a result wait until it is redacted."""
    long = RedactionPolicy(True, ("read",), "(redacted) " * 80)
    proxy, shrinks = Proxy(), replace(SHORT, skip_if_not_shorter=True)
    request = CHAT.tell(User("Fix the build."), *turn("a", OUTPUT, "read"), *turn("b"))
    assert b"<a read 600>" in proxy.send(request, shrinks).body
    wider = replace(shrinks, window_turns=2)
    for redaction, words in ((REDACTION, b"(redacted)"), (long, b"<a read 600>")):
        rewrite = proxy.send(request, Strategies(redaction=redaction, schema1=wider))
        assert "masked" == rewrite.decisions[0].reason
        assert words in rewrite.body
    new = mask(request, Strategies(redaction=long, schema1=shrinks))
    assert ["not_shorter", "in_window"] == reasons(new)


@as_one_test
@IN_EVERY_FORMAT
def test_reduction_comes_last_and_sees_what_the_others_have_left(writer: Writer) -> None:
    told = writer.tell(*TALK)
    alone = mask(told, Strategies(reduction=REDUCTION))
    assert alone.plan is not None
    assert alone.plan.changes
    after = mask(told, Strategies(redaction=REDACTION, schema1=SHORT, reduction=REDUCTION))
    assert after.plan is not None
    assert not after.plan.changes  # what is left is within the budget


def test_a_summary_quotes_nothing_that_was_redacted() -> None:
    """It may quote what the window has masked: the agent still has that."""
    options = ReductionOptions(
        enabled=True, max_input_chars=1_000, preserve_recent_raw_turns=2, observation_masking=False
    )
    strategies = Strategies(redaction=REDACTION, schema1=SHORT, reduction=options)
    old = (*turn("s", f"hunter2 {OUTPUT}", "read"), *turn("o", f"public {OUTPUT}"))
    told = CHAT.tell(User("Fix the build. " * 100), *old, Model(text="I see."), User(), *turn("c"))
    body = mask(told, strategies).body
    assert b"Summary of earlier history" in body
    assert (True, False) == (b"public" in body, b"hunter2" in body)


@as_one_test
@IN_EVERY_FORMAT
def test_if_no_strategy_is_on_the_request_is_the_clients(writer: Writer) -> None:
    told = writer.tell(*TALK)
    body = told.body
    rewrite = rewrite_request(body, Strategies(), told.wire, writer.path)
    assert body is rewrite.body
    assert not Strategies().can_change


# An agent's own request for a summary of its history goes out whole, so that the summary is good.

SUMMARIZE = User("Please write a summary of the conversation so far.")


@as_one_test
@IN_EVERY_FORMAT
def test_an_agents_request_for_a_summary_goes_out_whole(writer: Writer) -> None:
    told = writer.tell(*TALK, SUMMARIZE)
    assert is_summary_request(told.read())
    rewrite = mask(told, SHORT)
    assert ["summary"] * 4 == reasons(rewrite)
    assert (told.body, True) == (rewrite.body, rewrite.left_unmasked)


@as_one_test
@IN_EVERY_FORMAT
def test_a_request_for_a_summary_changes_nothing_of_what_is_decided_next(writer: Writer) -> None:
    proxy = Proxy()
    told = writer.tell(*TALK)
    before = proxy.send(told)
    assert ["summary"] * 4 == reasons(proxy.send(told.then(SUMMARIZE)))
    assert before.body == proxy.send(told).body


@as_one_test
@IN_EVERY_FORMAT
@pytest.mark.parametrize(("window", "expected"), [(100_000, "summary"), (100, "masked")])
def test_a_request_for_a_summary_goes_out_whole_only_where_it_fits_the_models_window(
    writer: Writer, window: int, expected: str
) -> None:
    """The agent compacts by the masked size; the whole history may have outgrown its model."""
    told = writer.tell(*TALK, SUMMARIZE)
    assert expected == reasons(mask(told, SHORT, BoundaryPrices(model_window=window)))[0]


def test_an_agent_that_still_has_its_tools_goes_on_working() -> None:
    tools = {"tools": [{"type": "function", "function": {"name": "shell"}}]}
    document = CHAT.tell(*TALK, SUMMARIZE).document | tools  # an agent that still has its tools
    rewrite = rewrite_request(json.dumps(document).encode(), SHORT)
    assert "masked" == reasons(rewrite)[0]

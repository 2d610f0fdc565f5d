"""Chapter 10: what a proxy with a memory remembers of a conversation.

Without one the request alone decides. With one, what was masked stays masked, a conversation that
is first met in its middle starts unmasked, and a prefix that the provider has forgotten is masked
up to the window's edge. What is remembered is a result, not a place.
"""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from masking import MaskPolicy, RedactionPolicy
from masking.conversation import read_conversation
from masking.memory import digest_opening
from masking.rewrite import Strategies
from masking.wire import CHAT as CHAT_WIRE
from tests.spec.talk import (
    CACHED,
    CHAT,
    IN_FORMATS_WITH_LISTS,
    OUTPUT,
    SHORT,
    Proxy,
    mask,
    reasons,
    requests,
)
from tests.support.marks import as_one_test
from tests.support.wire_conversations import (
    IN_EVERY_FORMAT,
    RUN_AGAIN,
    Ask,
    Give,
    Model,
    RunAgain,
    Step,
    Told,
    Tools,
    User,
    Writer,
    turn,
    turns,
)

FOUR = replace(SHORT, window_turns=4)
LARGE = OUTPUT * 10


@as_one_test
@IN_EVERY_FORMAT
@pytest.mark.parametrize("restarts", [False, True], ids=["", "after a restart"])
@pytest.mark.parametrize(
    "later",
    [
        pytest.param(replace(SHORT, window_turns=9), id="a longer window"),
        pytest.param(replace(SHORT, keep_last_k_per_tool=9), id="the last of a tool stay"),
        pytest.param(replace(SHORT, keep_tools=("shell",)), id="the tool is protected"),
        pytest.param(replace(SHORT, placeholder_template="[gone]"), id="another template"),
        pytest.param(replace(SHORT, min_chars=9_999), id="no result is long enough"),
    ],
)
def test_other_settings_or_a_restart_unmask_nothing(
    writer: Writer, later: MaskPolicy, restarts: bool
) -> None:
    """What was masked keeps its very words, so the provider's cache stays whole."""
    proxy = Proxy()
    before, now = [*requests(writer, 7)][-2:]
    sent = [proxy.send(told) for told in [*requests(writer, 7)][:-1]][-1]
    assert 4 == len(sent.masked)
    if restarts:
        proxy.restart()
    assert sent.body == proxy.send(before, later).body
    assert sent.masked <= proxy.send(now, later).masked


@as_one_test
@IN_EVERY_FORMAT
def test_a_newer_rule_about_errors_unmasks_nothing_either(writer: Writer) -> None:
    proxy = Proxy()
    told = writer.tell(
        User(), *turn("a", f"Traceback (most recent call last):\n{OUTPUT}"), *turns(1)
    )
    careless = replace(SHORT, keep_errors=False)
    assert ["masked", "in_window"] == reasons(proxy.send(told, careless))
    assert ["masked", "in_window"] == reasons(proxy.send(told, SHORT))
    assert ["error", "in_window"] == reasons(mask(told, SHORT))


@as_one_test
@IN_FORMATS_WITH_LISTS
@pytest.mark.parametrize("restarts", [False, True], ids=["", "after a restart"])
def test_redaction_unmasks_no_text_that_its_words_are_too_long_for(
    writer: Writer, restarts: bool
) -> None:
    """All others have its words from then on, so that no text changes twice."""
    given = Tools((Give("a", (OUTPUT, "A few words, and some more.")),))
    told = writer.tell(User("Build it."), Model((Ask("a"),)), given, *turns(1))
    proxy, window = Proxy(), replace(SHORT, placeholder_template="[gone]", mask_text_parts=True)
    words = "Redacted, as nobody is to read it again."
    redacts = Strategies(schema1=window, redaction=RedactionPolicy(True, ("shell",), words))
    sent = [proxy.send(told, window)]
    if restarts:
        proxy.restart()
    sent.append(proxy.send(told, redacts))
    placed = [[each.placeholder for each in rewrite.decisions[0].replacements] for rewrite in sent]
    assert [["[gone]", "[gone]"], [words, "[gone]"]] == placed


@IN_EVERY_FORMAT
def test_a_conversation_that_is_first_met_in_its_middle_starts_unmasked(writer: Writer) -> None:
    """Its prefix is cached as it is; what a proxy without a memory would mask, it never was."""
    *_, told = requests(writer, 26, LARGE)
    assert mask(told, FOUR, CACHED).masked
    assert told.body == Proxy().send(told, FOUR, CACHED).body


@as_one_test
@IN_EVERY_FORMAT
@pytest.mark.parametrize(("pause", "expected"), [(299.0, "held"), (301.0, "masked")])
def test_a_prefix_that_the_provider_has_forgotten_is_masked_up_to_the_windows_edge(
    writer: Writer, pause: float, expected: str
) -> None:
    """As far as the promise holds should that guess be wrong. A warm prefix is left alone."""
    proxy, policy = Proxy(), replace(FOUR, max_loss=1.0)
    *earlier, last = requests(writer, 12, LARGE)
    for told in earlier:
        assert told.body == proxy.send(told, policy, CACHED).body
    found = reasons(proxy.send(last, policy, CACHED, now=pause))
    assert [expected] * 7 + ["in_window"] * 4 == found


@as_one_test
@IN_EVERY_FORMAT
def test_who_goes_back_finds_what_was_sent_then(writer: Writer) -> None:
    proxy = Proxy()
    sent = [proxy.send(told).body for told in requests(writer, 7)]
    fourth = [*requests(writer, 7)][3]
    assert sent[3] == proxy.send(fourth).body
    other = fourth.then(User("No, another way."))
    assert mask(other, SHORT).body == proxy.send(other).body


# A result, not a place


@as_one_test
@IN_EVERY_FORMAT
def test_another_result_at_the_same_place_is_not_masked_for_that(writer: Writer) -> None:
    """A task that is run again is answered alike, by the same ids; one tool gives an error."""

    def tell(first: str) -> Told:
        return writer.tell(User("Build it."), *turn("call_0", first), *turn("call_1", OUTPUT))

    proxy = Proxy()
    wide = replace(SHORT, window_turns=9)
    assert ["masked", "in_window"] == reasons(proxy.send(tell(OUTPUT)))
    assert ["masked", "in_window"] == reasons(proxy.send(tell(OUTPUT), wide))
    assert ["in_window", "in_window"] == reasons(proxy.send(tell(f"{OUTPUT}!"), wide))
    failed = tell(f"Error: the disk is full.\n{OUTPUT}")
    assert ["error", "in_window"] == reasons(proxy.send(failed))


@as_one_test
@IN_EVERY_FORMAT
@pytest.mark.parametrize("again", RUN_AGAIN, ids=[again.case for again in RUN_AGAIN])
def test_no_other_result_is_ever_masked_because_something_is_remembered(
    writer: Writer, again: RunAgain
) -> None:
    proxy = Proxy()
    for count in range(1, 7):
        proxy.send(writer.tell(*again.tell_first(count)))
    for count in range(1, 7):
        told = writer.tell(*again.tell_second(count))
        assert mask(told, SHORT).body == proxy.send(told).body


# Which conversation


OPENING = (
    {"role": "system", "content": "You are an agent."},
    {"role": "user", "content": "Fix the build."},
)


def spellings() -> Iterator[tuple[str, list[object], bool]]:
    system, user = OPENING
    parts = [{"type": "text", "text": user["content"]}]
    marked = [{**parts[0], "cache_control": {"type": "ephemeral"}}]
    yield "the same", [system, user], True
    yield "later", [system, user, {"role": "assistant", "content": "Done."}], True
    yield "a list of parts", [system, {**user, "content": parts}], True
    yield "a cache mark", [system, {**user, "content": marked}], True
    billing = {"role": "system", "content": "x-anthropic-billing-header: cc_version=2; cch=1;"}
    yield "a billing header", [billing, system, user], True
    yield "another task", [system, {**user, "content": "Fix the tests."}], False
    yield "another agent", [{**system, "content": "You are a cook."}, user], False


@as_one_test
@pytest.mark.parametrize(
    ("messages", "expected"),
    [pytest.param(messages, expected, id=case) for case, messages, expected in spellings()],
)
def test_a_conversation_is_known_by_its_texts_up_to_the_first_of_the_users(
    messages: list[object], expected: bool
) -> None:
    one, other = (
        digest_opening(read_conversation({"messages": each}, CHAT_WIRE))
        for each in ([*OPENING], messages)
    )
    assert expected == (one == other)


@as_one_test
@IN_EVERY_FORMAT
def test_conversations_with_one_opening_are_told_apart_by_all_answers_so_far(
    writer: Writer,
) -> None:
    """As where an agent is given one task several times, or works on it in parallel."""

    def tell(*tools: str) -> Told:
        said: list[Step] = [User("Build it.")]
        for number, tool in enumerate(tools):
            said += Model((Ask(f"c{number}", tool),)), Tools((Give(f"c{number}", OUTPUT, tool),))
        return writer.tell(*said)

    proxy = Proxy()
    for count in range(6):
        proxy.send(tell(*["read"] * count))
    wide = replace(SHORT, window_turns=9)
    assert 4 == len(proxy.send(tell(*["read"] * 5), wide).masked)
    assert 0 == len(proxy.send(tell("shell", *["read"] * 4), wide).masked)
    assert 2 == len(proxy.send(tell(*["read"] * 3, "shell", "shell"), wide).masked)


def test_a_text_that_has_become_a_list_is_left_alone_where_lists_are() -> None:
    proxy, told = Proxy(), CHAT.tell(User("Fix the build."), *turns(5))
    policy = replace(SHORT, mask_images=True, mask_text_parts=False)
    sent = proxy.send(told, policy)
    assert "masked" == sent.decisions[0].reason
    text = sent.decisions[0].result.texts[0]
    items = [
        {**item, "content": [{"type": "text", "text": text}]}
        if item.get("content") == text
        else item
        for item in told.items
        if isinstance(item, dict)
    ]
    again = proxy.send(told._replace(items=items), policy)
    assert "not_string" == again.decisions[0].reason

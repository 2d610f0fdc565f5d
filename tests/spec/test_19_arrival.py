"""Chapter 19: at arrival, a long result is shortened to its head and its tail.

The first time that it is sent, and ever after in the same words: what a cache has never held costs
nothing to change, and reasoning is never bound to what it has not seen. Off unless asked for.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from masking import ConfigError, MaskPolicy, rewrite_request
from masking.arrival import OUTCOMES, ArrivalPolicy
from masking.redaction import RedactionPolicy
from masking.rewrite import Rewrite, Strategies, read_request
from masking.window import recall_id
from masking.wire.messages import MESSAGES
from tests.spec.talk import IN_FORMATS_WITH_LISTS, SHORT, mask, reasons
from tests.support.arrivals import OFF, SHORTENS, Remembering, shorten_lines, write_lines
from tests.support.marks import as_one_test
from tests.support.wire_conversations import (
    IN_EVERY_FORMAT,
    WRITERS,
    Ask,
    Give,
    Model,
    Step,
    Told,
    Tools,
    User,
    Writer,
    turn,
    turns,
)

LONG = write_lines("output")
"""2,000 characters, in lines of 50."""

ON = Strategies(arrival=SHORTENS, schema1=OFF)
"""Shortens what is longer than 1,000 to 300 and 200; the window masks nothing."""

STOPPED = replace(ON, arrival=replace(SHORTENS, enabled=False))
OTHER_WORDS = replace(ON, arrival=replace(SHORTENS, head_chars=99, marker_template="[...]"))


def texts_of(sent: Rewrite) -> list[str]:
    return [result.text for result in sent.conversation.results]


def kinds(sent: Rewrite) -> list[str]:
    return [each.outcome for each in sent.arrived.long_results]


def asked(name: str, arguments: Mapping[str, object], text: str = LONG) -> Sequence[Step]:
    return Model((Ask(name, "shell", arguments),)), Tools((Give(name, text),))


# What is left


def test_it_is_off_by_default() -> None:
    assert not ArrivalPolicy().enabled
    assert not Strategies().can_change


@as_one_test
@IN_EVERY_FORMAT
def test_a_long_result_becomes_its_head_a_marker_and_its_tail(writer: Writer) -> None:
    """And no byte changes beside it."""
    told = writer.tell(User("Fix the build."), *turn("a", LONG), *turn("b", LONG[:1_000]))
    sent = mask(told, ON)
    expected = f"{LONG[:300]}\n[... 1500 of 2000 characters left out ...]\n{LONG[-200:]}"
    assert [expected, LONG[:1_000]] == texts_of(sent)
    before, after = (body.decode() for body in (told.body, sent.body))
    assert before.replace(json.dumps(LONG), json.dumps(expected)) == after


@as_one_test
@IN_EVERY_FORMAT
def test_it_is_cut_at_a_lines_end_within_200_characters_or_else_anywhere(writer: Writer) -> None:
    lines, marker = "x" * 89 + "\n", "\n[... {} of 1800 characters left out ...]\n"
    sent = mask(writer.tell(User(), *turn("a", lines * 20)), ON)
    assert [lines * 3 + marker.format(1_350) + lines * 2] == texts_of(sent)
    sent = mask(writer.tell(User(), *turn("a", "x" * 1_800)), ON)
    assert ["x" * 300 + marker.format(1_300) + "x" * 200] == texts_of(sent)


@IN_FORMATS_WITH_LISTS
def test_in_a_list_each_text_is_shortened_by_itself(writer: Writer) -> None:
    told = writer.tell(User(), Model((Ask("a"),)), Tools((Give("a", ("ok", LONG, LONG[:900])),)))
    assert [f"ok{shorten_lines(LONG)}{LONG[:900]}"] == texts_of(mask(told, ON))


@as_one_test
@IN_EVERY_FORMAT
def test_what_is_shortened_already_stays(writer: Writer) -> None:
    once = mask(writer.tell(User(), *turn("a", LONG)), ON).body
    told = writer.tell(User(), *turn("a", shorten_lines(LONG)))
    assert once == told.body == mask(told, ON).body


def test_lengths_that_could_make_a_text_longer_are_an_error() -> None:
    with pytest.raises(ConfigError) as raised:
        ArrivalPolicy(enabled=True, max_chars=5_000)
    assert "max_chars" == raised.value.path


# What stays whole

FAILED = f"Traceback (most recent call last):\n{LONG}"
BLOCK = f"{LONG}BEGIN_DISPATCH_RESULT\n{{}}\nEND_DISPATCH_RESULT"
STAYS: Mapping[str, Sequence[Step]] = {
    "error": turn("a", FAILED),
    "file": asked("a", {"file_path": "a.py"}),
    "kept_tool": turn("a", LONG, "Task"),
    "unknown_call": [Model(text="Hm."), Tools((Give("a", LONG),))],
    "recalled": asked("a", {"command": f"obsmask recall {recall_id(LONG)}"}),
    "dispatch": turn("a", BLOCK),
    "asked_again": [*turn("a", write_lines("first")), *turn("b", LONG)],
    "already_shortened": turn("a", f"{LONG}\n[... 1 of 2 characters left out ...]\n{LONG}"),
}


@as_one_test
@IN_EVERY_FORMAT
@pytest.mark.parametrize("why", STAYS)
def test_what_stays_whole(writer: Writer, why: str) -> None:
    """Errors, files, sub-agents, what no call asked for, what was asked for by its id or again."""
    sent = mask(writer.tell(User(), *STAYS[why]), ON)
    assert why in OUTCOMES
    assert why == kinds(sent)[-1]
    assert len(texts_of(sent)[-1]) >= 2_000


def test_reminders_behind_a_result_stay() -> None:
    told = WRITERS[1].tell(
        User(), *turn("a", f"{LONG}x\n<system-reminder>Be brief.</system-reminder>")
    )
    assert b"<system-reminder>Be brief.</system-reminder>" in mask(told, ON).body


# What was sent stays so


def requests(writer: Writer, count: int) -> list[Told]:
    said: list[Step] = [User("Fix the build.")]
    made = []
    for number in range(count):
        said += asked(f"c{number}", {"n": number}, write_lines(f"{number}"))
        made.append(writer.tell(*said))
    return made


@as_one_test
@IN_EVERY_FORMAT
@pytest.mark.parametrize("restarts", [False, True], ids=["", "after a restart"])
@pytest.mark.parametrize(
    "later", [pytest.param(STOPPED, id="stopped"), pytest.param(OTHER_WORDS, id="other words")]
)
def test_what_was_sent_shortened_stays_so(
    writer: Writer, later: Strategies, restarts: bool
) -> None:
    proxy, (first, second) = Remembering(), requests(writer, 2)
    sent = proxy.send(first.read(), ON)
    if restarts:
        proxy.restart()
    assert sent.body == proxy.send(first.read(), later).body
    assert texts_of(sent) == texts_of(proxy.send(second.read(), later))[:1]


@as_one_test
@IN_EVERY_FORMAT
def test_what_was_sent_whole_or_stood_there_at_first_sight_stays_so(writer: Writer) -> None:
    proxy, made = Remembering(), requests(writer, 3)
    assert ["shortened"] == kinds(Remembering().send(made[0].read(), ON))
    assert [] == kinds(proxy.send(made[0].read(), STOPPED))
    assert ["sent_whole", "shortened"] == kinds(proxy.send(made[1].read(), ON))
    assert ["sent_whole", "sent_whole", "shortened"] == kinds(
        Remembering().send(made[2].read(), ON)
    )


@as_one_test
@IN_EVERY_FORMAT
def test_with_the_window_switched_off_all_goes_whole(writer: Writer) -> None:
    proxy, (first, second) = Remembering(), requests(writer, 2)
    proxy.send(first.read(), ON)
    off = replace(ON, schema1=MaskPolicy())
    assert second.body == proxy.send(second.read(), off).body


@pytest.mark.parametrize("remembers", [False, True])
def test_where_reasoning_is_bound_it_needs_a_memory(remembers: bool) -> None:
    document = WRITERS[1].tell(User(), *turn("a", LONG)).document | {"model": "claude-opus-5-5"}
    body = json.dumps(document).encode()
    told = read_request(body, MESSAGES)
    sent = Remembering().send(told, ON) if remembers else rewrite_request(body, ON, MESSAGES)
    assert remembers == (sent.body != body)


# It runs first


@as_one_test
@IN_EVERY_FORMAT
def test_placeholders_give_the_length_that_the_client_sent(writer: Writer) -> None:
    told = writer.tell(User(), *turn("a", LONG), *turns(1))
    sent = mask(told, replace(ON, schema1=SHORT))
    assert ["masked", "in_window"] == reasons(sent)
    assert b" shell 2000>" in sent.body
    redaction = RedactionPolicy(True, ("shell",), "<{original_chars}>")
    answered = writer.tell(User(), *turn("a", LONG), Model(text="Done."), User())
    assert b"<2000>" in mask(answered, replace(ON, redaction=redaction)).body


@as_one_test
@IN_EVERY_FORMAT
def test_the_window_sees_what_is_left(writer: Writer) -> None:
    told = writer.tell(User(), *turn("a", LONG), *turns(1))
    chosen = replace(SHORT, min_chars=1_000)
    assert ["masked", "in_window"] == reasons(mask(told, chosen))
    assert ["too_short", "in_window"] == reasons(mask(told, replace(ON, schema1=chosen)))

"""What a reduction leaves is a request that the provider takes, in every wire format."""

import json
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from masking.conversation import Conversation, find_answers
from masking.history_summary import LABEL
from masking.model import Element
from masking.reduction import ReductionOptions, count_chars
from masking.rewrite import Rewrite, Strategies, read_request
from masking.wire.converse import CONVERSE
from tests.support.builders import OLD
from tests.support.made_up_format import MADE_UP
from tests.support.marks import as_one_test
from tests.support.priced import rewrite_request
from tests.support.wire_conversations import (
    WRITERS,
    Ask,
    Give,
    Model,
    Step,
    Told,
    Tools,
    User,
    Writer,
    in_each,
    turn,
)
from tests.tools.provider.dialects import DIALECTS

REAL = [writer for writer in WRITERS if writer.wire is not MADE_UP]
EVERY = in_each(REAL)


def find_problem(told: Told, body: bytes) -> str | None:
    """Return why a strict provider would refuse a request."""
    path = told.writer.path
    dialect = next((each for each in DIALECTS if re.fullmatch(each.path, path)), None)
    request: dict[str, Any] = json.loads(body)
    if dialect is None:
        return find_problem_of_converse(request["messages"])
    return dialect.check(dialect.receive(request, path, (), body))


def find_problem_of_converse(messages: Sequence[Mapping[str, Any]]) -> str | None:
    """Return why Bedrock's Converse would refuse these messages."""
    for before, message in pairwise([{"role": "assistant", "content": []}, *messages]):
        if before["role"] == message["role"]:
            return "roles must alternate between user and assistant, beginning with user"
        blocks = message["content"]
        calls = {b["toolUse"]["toolUseId"] for b in before["content"] if "toolUse" in b}
        results = [b["toolResult"]["toolUseId"] for b in blocks if "toolResult" in b]
        if not blocks or sorted(calls) != sorted(results):
            return "each call must have its result in the next message"
    return "the model must answer something" if messages[-1]["role"] != "user" else None


def reduce(told: Told, options: ReductionOptions) -> Rewrite:
    return rewrite_request(told.read(), Strategies(reduction=options))


# What is kept so that the order of speakers stays one that the provider takes.


class Kept(NamedTuple):
    case: str
    formats: str
    steps: Sequence[Step]
    recent: int
    expected: str
    """The positions of the steps that are kept, after an S if there is a summary."""
    summary_max_chars: int = 60


LONG = User(OLD * 9)
FIRST, SECOND = turn("a", "ok"), turn("b", "ok")
SAYS, WHY, YES = Model((), "So."), User("Why?"), User("Yes.")

KEPT = [
    Kept("after a summary comes the model",
         "messages gemini converse",
         [LONG, *FIRST, *SECOND], 2, "S34"),
    Kept("the user may follow a summary", "chat messages responses ollama",
         [LONG, SAYS, WHY, SAYS, YES], 3, "S234"),
    Kept("the model's words before the user's stay, too", "gemini converse",
         [LONG, SAYS, WHY, SAYS, YES], 3, "S1234"),
    Kept("the model's turn before the user's words stays, too", "gemini converse",
         [LONG, *FIRST, *SECOND, WHY, SAYS, YES], 3, "S34567"),
    Kept("there is no answer before the user's words", "gemini", [LONG, WHY, *FIRST], 3, "123"),
    Kept("without a summary the user's last words before the model's stay, too",
         "messages gemini converse",
         [LONG, *FIRST, WHY, *FIRST, *SECOND], 2, "367", 0),
    Kept("without a summary the model may speak first", "chat responses ollama",
         [LONG, *FIRST, *SECOND], 2, "34", 0),
    Kept("without a summary the user speaks first", "messages gemini converse",
         [LONG, SAYS, WHY, SAYS, YES], 3, "234", 0),
    Kept("reasoning stays with what it led to", "responses",
         [LONG, *FIRST, Model((), "So.", "Hm."), YES], 2, "S34"),
    Kept("nothing recent", "messages gemini converse", [LONG, *FIRST, *SECOND, SAYS], 0, "S"),
    Kept("nothing recent but what was not read", "messages gemini converse",
         [LONG, *FIRST, *SECOND], 0, "S34"),
    Kept("nothing would be left",
         "messages gemini converse",
         [LONG, *FIRST, *SECOND, SAYS], 0, "012345", 0),
    Kept("the model spoke first before", "messages", [*turn("a", OLD * 9), *FIRST, *SECOND], 2,
         "45", 0),
    Kept("a late result would come right after another", "gemini",
         [LONG, Model((Ask("a"), Ask("b"))), Tools((Give("a", "ok"),)), SAYS,
          Tools((Give("b", "ok"),)), SAYS, YES], 3, "0123456"),
]  # fmt: skip


@as_one_test
@pytest.mark.parametrize(
    ("writer", "kept"),
    [
        pytest.param(writer, kept, id=f"{kept.case} ({writer.name})")
        for kept in KEPT
        for writer in WRITERS
        if writer.name in kept.formats.split()
    ],
)
def test_what_is_kept(writer: Writer, kept: Kept) -> None:
    options = ReductionOptions(
        enabled=True,
        max_input_chars=500,
        preserve_recent_raw_turns=kept.recent,
        summary_max_chars=kept.summary_max_chars,
        observation_masking=False,
    )
    after = [*read_request(reduce(writer.tell(*kept.steps), options).body, writer.wire).items]
    if kept.expected.startswith("S"):
        assert LABEL in json.dumps(after.pop(0))
    steps = [kept.steps[int(at)] for at in kept.expected.removeprefix("S")]
    assert writer.tell(*steps).items == after


# Conversations that providers take: all calls are answered at once, and the model speaks next.

words = st.sampled_from(["Go on.", "You must never stop.", "- [ ] Test it.", "é " * 30])
thoughts = st.sampled_from(["", "Hm.", "So."])


@st.composite
def conversations(draw: st.DrawFn, writer: Writer) -> list[Step]:
    kinds = ["turn", "turn", "turn", "words"]
    kinds += [] if writer.wire is CONVERSE else ["interrupted"]
    steps: list[Step] = [User(draw(words))]
    for number in range(draw(st.integers(1, 8))):
        kind = draw(st.sampled_from(kinds))
        if kind == "words":
            steps += [Model((), draw(words), draw(thoughts)), User(draw(words))]
            continue
        asked = [Ask(f"call_{number}_{n}") for n in range(draw(st.integers(1, 3)))]
        steps.append(Model((*asked,), draw(st.sampled_from(["", "I look."])), draw(thoughts)))
        given = (Give(a.call_id, draw(st.sampled_from([OLD, "ok", OLD * 3]))) for a in asked)
        steps.append(Tools(tuple(given)))
        if kind == "interrupted":
            steps.append(User(draw(words)))
    return steps


@st.composite
def options_for(draw: st.DrawFn, told: Told) -> ReductionOptions:
    share = draw(st.sampled_from([0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99]))
    return ReductionOptions(
        enabled=True,
        max_input_chars=max(1, int(count_chars(told.read().elements) * share)),
        preserve_recent_raw_turns=draw(st.sampled_from([0, 1, 2, 3, 4, 5, 7])),
        summary_max_chars=draw(st.sampled_from([0, 40, 200, 1_400])),
        observation_masking=draw(st.booleans()),
    )


@EVERY
@given(data=st.data())
def test_the_provider_takes_what_is_left(writer: Writer, data: st.DataObject) -> None:
    told = writer.tell(*data.draw(conversations(writer)))
    assert find_problem(told, told.body) is None
    changed = reduce(told, data.draw(options_for(told)))
    assert changed.plan is not None
    event(str(changed.plan.stage))
    assert find_problem(told, changed.body) is None
    before, after = told.read(), read_request(changed.body, writer.wire)
    assert answers_of(after) <= answers_of(before)
    if writer.wire.role_order == "alternating":
        assert count_repeats(after.elements) <= count_repeats(before.elements)


def answers_of(conversation: Conversation) -> set[str]:
    """Return the answers of the assistant, each with all of its elements."""
    runs = find_answers(conversation.elements, in_runs=conversation.wire.answers_in_runs)
    return {json.dumps([conversation.items[at] for at in run]) for run in runs}


def count_repeats(elements: Sequence[Element]) -> int:
    """Count the neighbours in which the same side speaks twice."""
    sides = [element.speaker == "assistant" for element in elements]
    return sum(one == other for one, other in pairwise(sides))

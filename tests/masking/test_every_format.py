"""What holds of a conversation holds of it in every wire format.

Each conversation is told once, in plain words, and each format spells it.
"""

import json
from collections.abc import Sequence
from typing import NamedTuple

import pytest

from masking.accounting.prompt import read_prompt
from masking.conversation import Conversation, bind, find_answers
from masking.history import History
from masking.memory import BoundaryMemory, digest_answers, digest_opening
from masking.model import Decision, Element, parse_arguments
from masking.redaction import RedactionPolicy
from masking.reduction import ReductionOptions
from masking.rewrite import Rewrite, Strategies, read_request
from masking.rewrite import Step as RequestStep
from masking.tokens import TokenCounter
from masking.window import MaskPolicy, lay_out
from tests.support.builders import MASK_ALL, OLD, TEMPLATE, policy
from tests.support.made_up_format import MADE_UP, NOTE, change
from tests.support.marks import as_one_test
from tests.support.priced import PricedPolicy, decide, prices_of, rewrite_request
from tests.support.wire_conversations import (
    IN_EVERY_FORMAT,
    IN_TWO_FORMATS,
    RUN_AGAIN,
    WRITERS,
    Ask,
    Give,
    Model,
    RunAgain,
    Step,
    Told,
    Tools,
    User,
    Writer,
    spell,
    turn,
    turns,
)

TURNS = 30
SLIDING = PricedPolicy(True, 3, False, None, TEMPLATE)
PRICED = policy(SLIDING, cache_read_ratio=0.1, cache_write_ratio=1.25)


def parallel(number: int) -> tuple[Step, Step]:
    """A turn with two calls: one gives a long text, the other an object or its JSON."""
    first, second = f"a{number}", f"b{number}"
    return (
        Model((Ask(first, "read"), Ask(second, "shell"))),
        Tools(
            (
                Give(first, f"{number}: {OLD * 4}", "read"),
                Give(second, {"code": 0, "out": f"{number}: {OLD}"}, "shell"),
            )
        ),
    )


LONG: Sequence[Step] = [
    User("Fix the build."),
    *(step for number in range(TURNS) for step in parallel(number)),
]


def reasons(decisions: Sequence[Decision]) -> list[str]:
    return [decision.reason for decision in decisions]


# Which call a result answers.


class Bound(NamedTuple):
    case: str
    steps: Sequence[Step]
    expected: Sequence[tuple[int | None, str | None]]
    """The turn and the tool of each result."""
    turns: int
    needs_ids: bool = False
    """Without ids results answer calls by their order."""


A, B = Ask("a", "read"), Ask("b", "shell")
FROM_A, FROM_B = Give("a", tool="read"), Give("b")

BOUND = [
    Bound("one turn", [Model((A,)), Tools((FROM_A,))], [(0, "read")], 1),
    Bound("a turn that is not answered yet", [User(), Model((A,))], [], 1),
    Bound("an answer without calls is no turn",
          [Model(text="Hm."), User(), Model((A,)), Tools((FROM_A,))], [(0, "read")], 1),
    Bound("words before a call", [Model((A,), "I look."), Tools((FROM_A,))], [(0, "read")], 1),
    Bound("parallel calls are one turn",
          [Model((A, B)), Tools((FROM_A, FROM_B))], [(0, "read"), (0, "shell")], 1),
    Bound("parallel results as they come in",
          [Model((A, B)), Tools((FROM_B, FROM_A))], [(0, "shell"), (0, "read")], 1),
    Bound("one of two calls is answered", [Model((A, B)), Tools((FROM_B,))], [(0, "shell")], 1),
    Bound("two calls of one tool", [Model((A, Ask("a2", "read"))),
          Tools((FROM_A, Give("a2", tool="read")))], [(0, "read"), (0, "read")], 1),
    Bound("the results come in two goes",
          [Model((A, B)), Tools((FROM_A,)), Tools((FROM_B,))], [(0, "read"), (0, "shell")], 1),
    Bound("the user speaks in between",
          [Model((A,)), User("Wait."), Tools((FROM_A,))], [(0, "read")], 1),
    Bound("an id that is used again: the nearest earlier turn",
          [Model((A,)), Tools((FROM_A,)), Model((Ask("a", "shell"),)), Tools((Give("a"),))],
          [(0, "read"), (1, "shell")], 2),
    Bound("an id that every turn uses", [*turn("a"), *turn("a"), *turn("a")],
          [(0, "shell"), (1, "shell"), (2, "shell")], 3),
    Bound("several results for one call", [Model((A,)), Tools((FROM_A, FROM_A))],
          [(0, "read"), (0, "read")], 1, needs_ids=True),
    Bound("a late result of an id that is used again",
          [*turn("a"), *turn("a"), User(), Tools((Give("a"),))],
          [(0, "shell"), (1, "shell"), (1, "shell")], 2, needs_ids=True),
    Bound("a late result of an earlier turn",
          [Model((A,)), User(), Model((B,)), Tools((FROM_B, FROM_A))],
          [(1, "shell"), (0, "read")], 2, needs_ids=True),
    Bound("no call has the id", [*turn("a"), Tools((Give("x"),))],
          [(0, "shell"), (None, None)], 1),
    Bound("no call at all", [User(), Tools((FROM_A,)), User()], [(None, None)], 0),
    Bound("a result before its call: the first later turn",
          [User(), Tools((FROM_A,)), Model((A,)), User(), Model((Ask("a", "shell"),))],
          [(0, "read")], 2, needs_ids=True),
]  # fmt: skip


@as_one_test
@IN_EVERY_FORMAT
def test_a_result_has_the_arguments_of_its_call(writer: Writer) -> None:
    plan, notes = ({"path": path, "lines": [1, 2]} for path in ("docs/PLAN.md", "notes.md"))
    calls = (Ask("a", "read", plan), Ask("b", "shell", notes))
    results = writer.tell(Model(calls), Tools((FROM_A, FROM_B))).read().results
    assert [plan, notes] == [parse_arguments(result.arguments) for result in results]


@as_one_test
@IN_EVERY_FORMAT
def test_an_argument_keeps_a_result(writer: Writer) -> None:
    plan = Model((Ask("a", "read", {"path": "docs/PLAN.md"}),))
    chosen = policy(keep_arguments=("*/PLAN.md",))
    told = writer.tell(plan, Tools((FROM_A,)), *turn("b"), *turn("c"))
    decisions = decide(told.read(), chosen)
    assert ["kept_argument", "masked", "in_window"] == reasons(decisions)


def test_a_result_without_a_call_has_no_arguments() -> None:
    (result,) = WRITERS[0].tell(User(), Tools((FROM_A,))).read().results
    assert {} == parse_arguments(result.arguments)


@as_one_test
@pytest.mark.parametrize(
    ("writer", "given"),
    [
        pytest.param(writer, given, id=f"{given.case} ({writer.name})")
        for given in BOUND
        for writer in WRITERS
        if writer.has_ids or not given.needs_ids
    ],
)
def test_which_call_a_result_answers(writer: Writer, given: Bound) -> None:
    found = writer.tell(*given.steps).read()
    assert given.expected == [(result.turn, result.tool) for result in found.results]
    assert given.turns == found.turns


# What becomes of an old result.


class Old(NamedTuple):
    case: str
    given: Give
    expected: str
    policy: MaskPolicy = MASK_ALL
    needs: str = ""
    """What a format must have, so that it can spell this."""


KEEPS_ERRORS = policy(keep_errors=True)
PARTS = policy(mask_text_parts=True)

OLDER = [
    Old("a long text", Give("a"), "masked"),
    Old("an empty text", Give("a", ""), "masked"),
    Old("a short text", Give("a", "ok"), "not_shorter", policy(skip_if_not_shorter=True)),
    Old("a short text that need not shrink", Give("a", "ok"), "masked"),
    Old("below min_chars", Give("a", "ok"), "too_short", policy(min_chars=9)),
    Old("of exactly min_chars", Give("a", OLD), "masked", policy(min_chars=len(OLD))),
    Old("the window is off", Give("a"), "off", policy(enabled=False)),
    Old("a placeholder", Give("a", "<a|shell|7>"), "already_masked", needs="has_ids"),
    Old("another's placeholder", Give("a", "<b|shell|7>"), "masked"),
    Old("an error by its words", Give("a", "timeout"), "error", KEEPS_ERRORS),
    Old("an error by its JSON", Give("a", '{"error": "no"}'), "error", KEEPS_ERRORS),
    Old("an error by its flag", Give("a", fails=True), "error", KEEPS_ERRORS, "tells_errors"),
    Old("an error that need not stay", Give("a", fails=True), "masked"),
    Old("errors stay, and this is none", Give("a"), "masked", KEEPS_ERRORS),
    Old("a list of texts", Give("a", (OLD, "b" * 99)), "masked", PARTS, "has_lists"),
    Old("a list of texts, left alone", Give("a", (OLD, OLD)), "not_string", MASK_ALL, "has_lists"),
    Old("a list of texts, one an error",
        Give("a", ("fine", "exception")), "error", policy(PARTS, keep_errors=True), "has_lists"),
    Old("a list of placeholders",
        Give("a", ("<a|shell|7>", "<a|shell|9>")), "already_masked", PARTS, "has_lists has_ids"),
    Old("a list of short texts", Give("a", ("ok", "ok")), "not_shorter", PARTS, "has_lists"),
    Old("of a tool that is kept", Give("a"), "kept_tool", policy(keep_tools=("sh*",))),
    Old("of a tool that is not listed", Give("a"), "unlisted_tool", policy(mask_tools=("read",))),
    Old("among the last of its tool", Give("a"), "last_k", policy(keep_last_k_per_tool=9)),
]  # fmt: skip


@as_one_test
@pytest.mark.parametrize(
    ("writer", "old"),
    [
        pytest.param(writer, old, id=f"{old.case} ({writer.name})")
        for old in OLDER
        for writer in WRITERS
        if all(getattr(writer, needed) for needed in old.needs.split())
    ],
)
def test_what_becomes_of_an_old_result(writer: Writer, old: Old) -> None:
    told = writer.tell(User(), Model((Ask("a"),)), Tools((old.given,)), *turns(1))
    body = told.body
    found = rewrite_request(body, old.policy, writer.wire)
    recent = "off" if old.expected == "off" else "in_window"
    assert [old.expected, recent] == reasons(found.decisions)
    assert (old.expected == "masked") == (found.body is not body)


@as_one_test
@IN_EVERY_FORMAT
def test_the_window_decides_alike(writer: Writer) -> None:
    expected = ["masked"] * 2 * (TURNS - 3) + ["in_window"] * 6
    assert expected == reasons(decide(writer.tell(*LONG).read(), SLIDING))


@as_one_test
@IN_EVERY_FORMAT
def test_the_boundary_moves_when_it_pays(writer: Writer) -> None:
    found = {*reasons(decide(writer.tell(*LONG).read(), PRICED))}
    assert {"masked", "held", "in_window"} >= found >= {"masked", "in_window"}


@as_one_test
@IN_EVERY_FORMAT
def test_what_stays_of_a_target_is_its_latest_result(writer: Writer) -> None:
    reads = [
        step
        for n, name in enumerate(("a.py", "b.py", "a.py"))
        for step in (
            Model((Ask(f"c{n}", "read", {"path": name}),)),
            Tools((Give(f"c{n}", tool="read"),)),
        )
    ]
    told = writer.tell(User(), *reads, *turns(1))
    chosen = policy(keep_latest_turns=9)
    decisions = rewrite_request(told.body, chosen, writer.wire).decisions
    assert ["masked", "latest", "latest", "in_window"] == reasons(decisions)


# Requests, turns and openings.


@as_one_test
@IN_EVERY_FORMAT
def test_turns_requests_and_openings_are_the_same(writer: Writer) -> None:
    model, found = WRITERS[0].tell(*LONG).read(), writer.tell(*LONG).read()
    assert TURNS == found.turns
    assert [(r.turn, r.tool) for r in model.results] == [(r.turn, r.tool) for r in found.results]
    expected, layout = lay_out(model), lay_out(found)
    assert [r[1:] for r in expected.requests] == [r[1:] for r in layout.requests]
    assert (expected.turns, expected.sizes) == (layout.turns, layout.sizes)
    assert digest_opening(model) == digest_opening(found)
    answers = digest_answers(found).answers
    assert TURNS == len(answers) == len({*answers})


@as_one_test
@IN_EVERY_FORMAT
def test_a_result_lies_between_two_requests(writer: Writer) -> None:
    """And what stands before it in the prompt is what its offset says."""
    layout = lay_out(writer.tell(*LONG).read())
    sizes = [request.size for request in layout.requests]
    assert sorted(sizes) == sizes
    for place, offset in enumerate(layout.offsets):
        turn_ = layout.turns[place]
        assert sizes[turn_ - 1] < offset
        assert offset + layout.sizes[place] <= sizes[turn_]


# Bytes.


@as_one_test
@IN_EVERY_FORMAT
def test_no_byte_changes_but_what_is_masked(writer: Writer) -> None:
    told = writer.tell(*LONG)
    expected = told.body.decode()
    found = rewrite_request(told.body, SLIDING, writer.wire)
    for decision in found.decisions[: 2 * (TURNS - 3)]:
        (replacement,) = decision.replacements
        spelled = json.dumps(replacement.placeholder)
        text = spell(replacement.text)
        if replacement.wrap is not None:
            assert NOTE == replacement.wrap
            text = spell(json.loads(replacement.text))
            spelled = f'{{"{NOTE}":{spelled}}}'
        assert text in expected
        expected = expected.replace(text, spelled, 1)
    assert expected.encode() == found.body


@as_one_test
@IN_EVERY_FORMAT
def test_masking_twice_is_masking_once(writer: Writer) -> None:
    once = rewrite_request(writer.tell(*LONG).body, SLIDING, writer.wire).body
    assert once is rewrite_request(once, SLIDING, writer.wire).body


@as_one_test
@IN_EVERY_FORMAT
def test_an_element_is_read_once(writer: Writer) -> None:
    """Whatever the strategies do: only what they change is read again, and the new summary."""
    count = 0

    def read_counting(value: object) -> Element:
        nonlocal count
        count += 1
        return writer.wire.read_element(value)

    told = writer.tell(*LONG)
    counting = change(writer.wire, read_element=staticmethod(read_counting))
    options = reduce_to(2_400, summary_max_chars=600)
    strategies = Strategies(schema1=SLIDING, reduction=options)
    client = read_request(told.body, counting)
    step = RequestStep(client, strategies, prices_of(SLIDING))  # the proof reads for itself
    changed = step.rewrite()
    masked = {changed.conversation.results[place].element for place in changed.masked}
    assert masked
    assert len(told.items) + len(masked) + 1 == count


# The other strategies.


def reduce_to(max_input_chars: int, summary_max_chars: int = 1_400) -> ReductionOptions:
    """Keep the last turn, which is two elements or more."""
    return ReductionOptions(
        enabled=True,
        max_input_chars=max_input_chars,
        preserve_recent_raw_turns=2,
        summary_max_chars=summary_max_chars,
    )


@as_one_test
@IN_EVERY_FORMAT
def test_redaction_follows_an_answer(writer: Writer) -> None:
    strategies = Strategies(redaction=RedactionPolicy(True, ("shell",), TEMPLATE))
    told = writer.tell(*LONG)
    assert told.body == rewrite_request(told.read(), strategies).body
    answered = told.then(Model(text="Done."))
    changed = rewrite_request(answered.read(), strategies)
    assert ["other_tool", "redacted"] * TURNS == reasons(changed.decisions)


@as_one_test
@IN_EVERY_FORMAT
def test_words_before_a_call_redact_nothing(writer: Writer) -> None:
    """Even where the words and the call are two elements."""
    strategies = Strategies(redaction=RedactionPolicy(True, ("shell",), TEMPLATE))
    told = writer.tell(User(), *turn("a"), Model((Ask("b"),), "I look.", "Hm."))
    changed = rewrite_request(told.read(), strategies)
    assert ["in_use"] == reasons(changed.decisions)


@as_one_test
@IN_EVERY_FORMAT
def test_a_redaction_is_new_after_the_first_answer(writer: Writer) -> None:
    """An answer with thoughts is one answer, where it is two elements, too."""
    strategies = Strategies(redaction=RedactionPolicy(True, ("shell",), TEMPLATE))
    told = writer.tell(User(), *turn("a"), Model((), "Done.", "Hm."))
    for expected in (True, False):
        (decision,) = rewrite_request(told.read(), strategies).decisions
        assert ("redacted", expected) == (decision.reason, decision.is_new)
        told = told.then(User(), Model((), "Yes.", "Hm."))


@as_one_test
@IN_EVERY_FORMAT
@pytest.mark.parametrize(
    ("budget", "stage"), [(30_000, "masking"), (3_300, "summarization"), (10, "fallback")]
)
def test_reduction_keeps_what_belongs_together(writer: Writer, budget: int, stage: str) -> None:
    told = writer.tell(*LONG)
    strategies = Strategies(reduction=reduce_to(budget))
    changed = rewrite_request(told.read(), strategies)
    assert changed.plan is not None
    assert stage == changed.plan.stage
    after = read_request(changed.body, writer.wire)
    calls = [c.call_id for element in after.elements for c in element.calls]
    assert sorted(map(str, calls)) == sorted(str(r.call_id) for r in after.results)
    assert all(r.turn is not None for r in after.results)
    if stage == "summarization":
        summary = after.elements[0]
        assert "user" == summary.speaker
        assert "Objective: Fix the build." in summary.texts[0]


@IN_TWO_FORMATS
def test_a_memory_masks_again_what_it_masked(writer: Writer) -> None:
    memory, masked = BoundaryMemory(), frozenset[int]()
    told = writer.tell(*LONG)
    for end in range(1, len(told.items) + 1):
        part = told.until(end).read()
        if not _is_asked(part):
            continue
        known = memory.lookup(part, float(end), 300.0)
        found = rewrite_request(part, Strategies(schema1=PRICED), context=known.context)
        memory.store(known, found.past)
        assert masked <= found.masked
        masked = found.masked
    assert masked


@IN_TWO_FORMATS
@pytest.mark.parametrize("again", RUN_AGAIN, ids=[again.case for again in RUN_AGAIN])
def test_a_memory_masks_no_result_because_of_another_one(writer: Writer, again: RunAgain) -> None:
    """A task that is run again is answered alike, and its tools give something else."""
    chosen = Strategies(schema1=policy(SLIDING, window_turns=8, keep_errors=True))
    memory = BoundaryMemory()

    def send(told: Told, now: int) -> Rewrite:
        known = memory.lookup(told.read(), float(now), 300.0)
        sent = rewrite_request(told.read(), chosen, context=known.context)
        memory.store(known, sent.past)
        return sent

    for count in range(1, 14):
        first = send(writer.tell(*again.tell_first(count)), count)
    assert first.masked
    for count in range(1, 14):
        told = writer.tell(*again.tell_second(count))
        alone = rewrite_request(told.read(), chosen)
        assert alone.body == send(told, 20 + count).body
    # The first one goes on as if there had been no other.
    assert first.masked == send(writer.tell(*again.tell_first(13)), 40).masked


def _is_asked(request: Conversation) -> bool:
    """Whether the model is to answer now: all its calls have results."""
    elements = request.elements
    asked = sum(len(element.calls) for element in elements)
    return asked == sum(len(element.results) for element in elements)


@as_one_test
@IN_EVERY_FORMAT
def test_a_prompt_shrinks_by_what_is_masked(writer: Writer) -> None:
    told = writer.tell(*LONG)
    prompt = read_prompt(rewrite_request(told.body, SLIDING, writer.wire), TokenCounter())
    assert 1 + len(told.items) == len(prompt.before) == len(prompt.after)
    assert prompt.tokens_after < prompt.tokens_before / 3


# Where formats differ.


def test_an_answer_is_one_element_or_a_run_of_them() -> None:
    elements = WRITERS[-1].tell(*LONG).read().elements[:5]
    assert [range(1, 3), range(4, 5)] == [*find_answers(elements, in_runs=True)]
    alone = [range(1, 2), range(2, 3), range(4, 5)]
    assert alone == [*find_answers(elements, in_runs=False)]
    assert [] == [*find_answers(elements[:1], in_runs=True)]


def test_calls_of_one_answer_are_one_turn() -> None:
    elements = WRITERS[-1].tell(*LONG).read().elements
    assert 2 * TURNS == bind(History(), elements, change(MADE_UP, answers_in_runs=False))[0]
    assert TURNS == bind(History(), elements, MADE_UP)[0]


def test_texts_beside_the_list_open_a_conversation() -> None:
    told = WRITERS[-1].tell(*LONG)
    document = told.document
    document["request"]["rules"] = "Be kind."
    ruled = read_request(spell(document).encode(), MADE_UP)
    assert digest_opening(ruled) != digest_opening(told.read())
    assert lay_out(told.read()).requests[0].size < lay_out(ruled).requests[0].size

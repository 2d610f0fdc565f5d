import copy
from typing import NamedTuple

import pytest

from masking import ChatMessage, reduction
from masking.history_summary import BEGIN, END, LABEL, OUTCOMES
from masking.messages_api import edit_messages, reduce_history
from masking.reduction import ReductionOptions, ReductionPlan, count_chars, plan_reduction
from masking.wire.chat import CHAT
from tests.support.builders import (
    IMAGE,
    OLD,
    assistant,
    call,
    parts,
    read,
    result,
    turn,
    unanswered,
)
from tests.support.marks import as_one_test


def options(max_input_chars: int = 1, **changes: object) -> ReductionOptions:
    return ReductionOptions(enabled=True, max_input_chars=max_input_chars, **changes)  # type: ignore[arg-type]


def system(content: object = "rules", role: str = "system") -> ChatMessage:
    return {"role": role, "content": content}


def user(content: object = "go on") -> ChatMessage:
    return {"role": "user", "content": content}


def says(content: object = "hm") -> ChatMessage:
    return {"role": "assistant", "content": content}


def recent(count: int = 4) -> list[ChatMessage]:
    """The last messages, which are kept: a character each."""
    return [user(str(n % 10)) for n in range(count)]


MASKED = "[observation masked — 330 chars]"
BLOCK = f'{BEGIN}{{"status":"ok"}}{END}'

STORY = [system(), user("Fix it"), *turn(), says(), *recent()]
"""349 characters: 5 of the system's, 340 that are not kept (330 in a tool result), 4 that are."""

SUMMARY = f"{LABEL}4)\nObjective: Fix it\n{OUTCOMES}\n- shell: {'old output ' * 10}old out..."
"""What the story's old messages are summed up in."""


# When, and how far.


class Stage(NamedTuple):
    case: str
    options: ReductionOptions
    stage: str | None
    size: int
    dropped: int = 0


_ALL, _MASKED, _SUMMED = 347, 49, 9 + len(SUMMARY)
_SHORT = 30
"""With a summary this long, each stage leaves less than the one before."""

STAGES = [
    Stage("off", ReductionOptions(max_input_chars=1), None, _ALL),
    Stage("no budget", options(0), None, _ALL),
    Stage("a negative budget", options(-1), None, _ALL),
    Stage("one below the budget", options(_ALL + 1), None, _ALL),
    Stage("exactly at the budget", options(_ALL), None, _ALL),
    Stage("one above the budget", options(_ALL - 1), "masking", _MASKED),
    Stage("masked, one below", options(_MASKED + 1), "masking", _MASKED),
    Stage("masked, exactly at it", options(_MASKED), "masking", _MASKED),
    Stage("masked, one above", options(_MASKED - 1, summary_max_chars=_SHORT),
          "summarization", 9 + _SHORT, 4),
    Stage("summed up, exactly at it", options(9 + _SHORT, summary_max_chars=_SHORT),
          "summarization", 9 + _SHORT, 4),
    Stage("summed up, one above", options(8 + _SHORT, summary_max_chars=_SHORT), "fallback", 9, 4),
    Stage("cut, exactly at it", options(9), "fallback", 9, 4),
    Stage("cut, one above", options(8), "fallback", 9, 4),
    Stage("cut, far above", options(1), "fallback", 9, 4),
    Stage("no masking, one above", options(_ALL - 1, observation_masking=False),
          "summarization", _SUMMED, 4),
    Stage("no masking, summed up, exactly at it", options(_SUMMED, observation_masking=False),
          "summarization", _SUMMED, 4),
    Stage("no masking, summed up, one above", options(_SUMMED - 1, observation_masking=False),
          "fallback", 9, 4),
    Stage("a summary of the default length", options(_SUMMED, max_observation_chars=1,
          observation_masking=False), "summarization", _SUMMED, 4),
    Stage("no summary", options(_MASKED - 1, summary_max_chars=0), "fallback", 9, 4),
    Stage("a summary of less than nothing", options(_MASKED - 1, summary_max_chars=-1),
          "fallback", 9, 4),
    Stage("a clipped placeholder, exactly at it", options(_MASKED - 12, max_observation_chars=20),
          "masking", _MASKED - 12),
    Stage("a clipped placeholder, one above", options(_MASKED - 13, max_observation_chars=20),
          "fallback", 9, 4),
]  # fmt: skip


@as_one_test
@pytest.mark.parametrize("given", STAGES, ids=lambda given: given.case)
def test_no_more_is_done_than_the_budget_asks_for(given: Stage) -> None:
    after = reduce_history(STORY, given.options)
    assert (given.stage, given.size) == (after.reduction_stage, after.final_size)
    assert given.dropped == after.dropped_count
    assert (given.stage is not None) == after.reduced
    assert (after.messages is STORY) == (given.stage is None)
    assert ("fallback" if given.stage == "fallback" else "ok") == after.invariant_status


@as_one_test
@pytest.mark.parametrize("given", STAGES, ids=lambda given: given.case)
def test_the_plan_tells_the_sizes(given: Stage) -> None:
    plan = plan_reduction(read(STORY), given.options)
    assert (_ALL, given.size) == (plan.size_before, plan.size_after)


@pytest.mark.parametrize("messages", [[], [user(OLD)], turn(), [system(OLD), user(OLD)]])
def test_two_messages_are_never_reduced(messages: list[ChatMessage]) -> None:
    after = reduce_history(messages, options(1, preserve_recent_raw_turns=0))
    assert after.messages is messages
    assert after.reduction_stage is None
    assert not after.reduced


def test_the_defaults() -> None:
    assert ReductionOptions() == ReductionOptions(
        enabled=False,
        max_input_chars=400_000,
        preserve_recent_raw_turns=4,
        summary_max_chars=1_400,
        observation_masking=True,
        max_observation_chars=80,
    )


# What each stage leaves.


def test_masking_replaces_old_results_and_nothing_else() -> None:
    after = reduce_history(STORY, options(_MASKED))
    assert [*STORY[:3], {**STORY[3], "content": MASKED}, *STORY[4:]] == after.messages
    assert all(new is old for at, (new, old) in enumerate(zip(after.messages, STORY)) if at != 3)  # noqa: B905
    assert (1, 330 - 32) == (after.masked_count, after.masked_chars)


def test_a_summary_takes_the_place_of_old_messages() -> None:
    after = reduce_history(STORY, options(_SUMMED, observation_masking=False))
    assert [system(), user(SUMMARY), *recent()] == after.messages
    assert (0, 0) == (after.masked_count, after.masked_chars)


def test_a_summary_quotes_results_as_they_were_before_they_were_masked() -> None:
    with_masking = reduce_history([*STORY[:4], says(OLD), *STORY[5:]], options(_SUMMED))
    assert [system(), user(SUMMARY), *recent()] == with_masking.messages
    assert "summarization" == with_masking.reduction_stage
    assert (1, 330 - 32) == (with_masking.masked_count, with_masking.masked_chars)


def test_the_fallback_leaves_what_is_kept() -> None:
    after = reduce_history(STORY, options(1))
    assert [STORY[0], *STORY[5:]] == after.messages
    assert (1, 330 - 32, 4) == (after.masked_count, after.masked_chars, after.dropped_count)
    assert 9 == after.final_size


@as_one_test
@pytest.mark.parametrize("budget", [1, 8, 9, 10, 38, 39, 48, _SUMMED, _ALL - 1])
def test_without_masking_the_later_stages_do_what_they_do_with_it(budget: int) -> None:
    """As far as masking was not enough."""
    chosen = {"summary_max_chars": 30}
    without = reduce_history(STORY, options(budget, observation_masking=False, **chosen))
    with_it = reduce_history(STORY, options(budget, **chosen))
    assert (0, 0) == (without.masked_count, without.masked_chars)
    assert "masking" != without.reduction_stage
    if with_it.reduction_stage != "masking":
        assert without.messages == with_it.messages
        assert without.reduction_stage == with_it.reduction_stage


# Where the summary comes.


class Place(NamedTuple):
    case: str
    before: list[ChatMessage]
    expected: list[str]
    """The roles afterwards; the summary is `SUMMARY`."""


PLACES = [
    Place("no system message", [], ["SUMMARY"]),
    Place("after one", [system()], ["system", "SUMMARY"]),
    Place("after several", [system(), system(role="developer"), system()],
          ["system", "developer", "system", "SUMMARY"]),
    Place("before one that is not among the first", [system(), user("Fix"), system("more")],
          ["system", "SUMMARY", "system"]),
    Place("where none is among the first", [user("Fix"), system("more", "developer"), says()],
          ["SUMMARY", "developer"]),
    Place("what is no object is no system message", [None, system()],  # type: ignore[list-item]
          ["SUMMARY", "system"]),
]  # fmt: skip


@as_one_test
@pytest.mark.parametrize("given", PLACES, ids=lambda given: given.case)
def test_the_summary_comes_after_the_first_system_messages(given: Place) -> None:
    messages = [*given.before, says(OLD), says(OLD), *recent()]
    after = reduce_history(messages, options(600))
    assert "summarization" == after.reduction_stage
    at = given.expected.index("SUMMARY")
    assert "user" == after.messages[at]["role"]
    assert str(after.messages[at]["content"]).startswith(LABEL)
    roles = [message["role"] for message in after.messages]
    assert [*given.expected[:at], "user", *given.expected[at + 1 :], *["user"] * 4] == roles


# What is kept.


class Kept(NamedTuple):
    case: str
    messages: list[ChatMessage]
    kept: list[int]
    recent: int = 2


TWO = assistant(call("a"), call("b"))

KEPT = [
    Kept("the last messages", [user(), says(), user(), says()], [2, 3]),
    Kept("system and developer messages", [system(), user(), system(role="developer"), *recent(2)],
         [0, 2, 3, 4]),
    Kept("a system message does not count as recent", [user(), says(), user(), system()],
         [1, 2, 3]),
    Kept("none of the others", [system(), user(), says(), user()], [0], 0),
    Kept("less than none", [system(), user(), says(), user()], [0], -2),
    Kept("none of the others, and no system message", [user(), says(), user()], [], 0),
    Kept("all of them", [system(), user(), says(), user()], [0, 1, 2, 3], 3),
    Kept("more than there are", [system(), user(), says(), user()], [0, 1, 2, 3], 99),
    Kept("the call of a recent result", [user(), *turn("a"), user()], [1, 2, 3]),
    Kept("the other results of its call", [user(), TWO, result("a"), result("b"), user()],
         [1, 2, 3, 4]),
    Kept("an old result of a recent call", [user(), result("a"), user(), assistant(call("a"))],
         [1, 2, 3]),
    Kept("a late result's call, and not what is between", [assistant(call("a")), *recent(3),
         result("a"), user()], [0, 4, 5]),
    Kept("not an older call of the same id", [*turn("a"), user(), *turn("a")], [3, 4]),
    Kept("a third result's nearest call, with its result", [*turn("a"), *turn("a"), user(),
         result("a")], [2, 3, 4, 5]),
    Kept("an unanswered call at the end", [*turn("a"), user(), *unanswered()], [2, 3]),
    Kept("an old unanswered call goes", [*unanswered(), user(), says(), user()], [2, 3]),
    Kept("a recent orphan stays", [*turn("a"), says(), user(), result("b")], [3, 4]),
    Kept("a result that the model has not read", [*turn("a"), user(), user()], [0, 1], 0),
    Kept("a late one of an old call", [assistant(call("a")), user(), says(), result("a"), user()],
         [0, 3], 0),
    Kept("an old orphan goes", [result("b"), user(), says(), user()], [2, 3]),
    Kept("a recent result without an id", [*turn("a"), says(), user(), result(None)],
         [3, 4]),
    Kept("a message of another role, and one without",
         [{"role": "function", "content": "x"}, user(), {"content": "x"}, {"role": 7}], [2, 3]),
    Kept("what is no object", [user(), 7, user(), None], [2, 3]),  # type: ignore[list-item]
]  # fmt: skip


@as_one_test
@pytest.mark.parametrize("given", KEPT, ids=lambda given: given.case)
def test_what_is_kept(given: Kept) -> None:
    messages = [copy.deepcopy(message) for message in given.messages]
    messages = [*messages, system(OLD)]  # over the budget, whatever else there is
    kept = [*given.kept, len(messages) - 1]
    after = reduce_history(messages, options(1, preserve_recent_raw_turns=given.recent))
    assert "fallback" == after.reduction_stage
    assert kept == [at for at, m in enumerate(messages) if any(m is new for new in after.messages)]
    assert len(messages) - len(kept) == after.dropped_count
    assert (after.messages is messages) == (len(kept) == len(messages))
    assert (len(kept) < len(messages)) == after.reduced


def test_everything_kept_is_the_very_same_list_and_still_tells_that_it_is_too_long() -> None:
    messages = [system(), *turn("a")]
    after = reduce_history(messages, options(1))
    assert after.messages is messages
    assert not after.reduced
    assert ("fallback", "fallback") == (after.reduction_stage, after.invariant_status)
    assert (0, 0, 0) == (after.dropped_count, after.masked_count, after.masked_chars)
    assert 335 == after.final_size


# What is masked.


class Mask(NamedTuple):
    case: str
    message: ChatMessage
    content: object
    """Afterwards."""
    masked: int = 1
    chosen: ReductionOptions = options(2_000)


def kept(case: str, message: ChatMessage) -> Mask:
    return Mask(case, message, message.get("content"), 0)


MASKS = [
    Mask("a string", result(), MASKED),
    Mask("a result without an id", result(None), MASKED),
    Mask("an orphan", result("nowhere"), MASKED),
    Mask("an error", {**result(), "is_error": True}, MASKED),
    Mask("in code points", result("a", "😀e\u0301\ud83d" * 9), "[observation masked — 36 chars]"),
    kept("as long as its placeholder", result("a", "x" * 31)),
    kept("empty", result("a", "")),
    kept("already masked", result("a", "[observation masked — 99999 chars]")),
    Mask("text parts, each for itself", result("a", parts(OLD, "short", OLD)),
         parts(MASKED, "short", MASKED)),
    Mask("what else a part says", result("a", [{"cache_control": {}, **parts(OLD)[0]}]),
         [{"cache_control": {}, **parts(MASKED)[0]}]),
    kept("short text parts", result("a", parts("short", "short"))),
    Mask("text beside an image", result("a", [*parts(OLD), IMAGE]), [*parts(MASKED), IMAGE]),
    kept("an image", result("a", [IMAGE])),
    kept("null", result("a", None)),
    kept("an empty list", result("a", [])),
    kept("a number", result("a", 7)),
    kept("an object", result("a", {"type": "text", "text": OLD})),
    kept("no content", {"role": "tool", "tool_call_id": "a"}),
    kept("a message of the user", user(OLD)),
    kept("a message of the assistant", says(OLD)),
    kept("words beside a call", {**assistant(call("b")), "content": OLD}),
    kept("a system message", system(OLD)),
    kept("a result of the older kind", {"role": "function", "name": "ls", "content": OLD}),
    Mask("a dispatch result", result("a", f"{OLD}{BLOCK}{OLD}"),
         f"[dispatch output masked — 660 chars]\n{BLOCK}"),
    Mask("dispatch results in two parts", result("a", parts(f"{OLD}{BLOCK}", f"{BLOCK}{OLD}", OLD)),
         parts(*[f"[dispatch output masked — 330 chars]\n{BLOCK}"] * 2, MASKED)),
    kept("a dispatch result that begins in one part and ends in the next",
         result("a", parts(f"{OLD}{BEGIN}", f"{END}{OLD}"))),
    kept("one beside one that lies in one part", result("a", parts(BEGIN, f"{END}{OLD}{BLOCK}"))),
    Mask("clipped", result(), "[obse...", 1, options(2_000, max_observation_chars=8)),
    Mask("clipped to none", result(), "[", 1, options(2_000, max_observation_chars=0)),
    Mask("a dispatch result, clipped", result("a", f"{OLD}{BLOCK}"), f"[dis...\n{BLOCK}", 1,
         options(2_000, max_observation_chars=7)),
]  # fmt: skip


def _size(message: object) -> int:
    return count_chars([CHAT.read_element(message)])


@as_one_test
@pytest.mark.parametrize("given", MASKS, ids=lambda given: given.case)
def test_what_is_masked(given: Mask) -> None:
    fill = result("filled", "x" * 2_000)
    calls = assistant(call("a")), assistant(call("filled"))
    messages = [calls[0], given.message, calls[1], fill, says(""), *recent()]
    after = reduce_history(messages, given.chosen)
    assert "masking" == after.reduction_stage
    assert {**given.message, "content": given.content} == {"content": None, **after.messages[1]}
    assert (after.messages[1] is given.message) == (given.masked == 0)
    assert given.masked + 1 == after.masked_count
    saved = _size(given.message) - _size({"content": given.content})
    assert saved == after.masked_chars - (2_000 - _size(after.messages[3]))


def test_a_result_in_a_pair_that_is_kept_is_not_masked() -> None:
    messages = [*turn("old"), TWO, result("a"), user(), user(), user(), result("b")]
    after = reduce_history(messages, options(1_000))
    assert [MASKED, OLD, OLD] == [m["content"] for m in after.messages if m["role"] == "tool"]


def test_one_message_object_in_two_places() -> None:
    repeated = result("a")
    messages = [assistant(call("a")), repeated, *recent(), assistant(call("a")), repeated]
    after = reduce_history(messages, options(500))
    assert [MASKED, OLD] == [m["content"] for m in after.messages if m["role"] == "tool"]
    assert OLD == repeated["content"]


# After another strategy.

GONE = "<gone>" * 20
_SENT = [user("Fix it"), *turn("a", GONE), *turn("b"), says(""), *recent()]
_SUM_UP = options(400, observation_masking=False)
_SOURCES = [user("Fix it"), *turn("a", "3 passed"), *turn("b"), says(""), *recent()]


def test_a_result_that_was_settled_before_is_not_masked_again() -> None:
    plan = plan_reduction(read(_SENT), options(300), settled={0})
    assert [GONE, MASKED] == [
        m["content"] for m in edit_messages(read(_SENT), plan.edits) if m["role"] == "tool"
    ]
    assert 1 == plan.masked_count


def _say(plan: ReductionPlan) -> str:
    assert isinstance(plan.summary, dict)
    return str(plan.summary["content"])


def test_a_summary_quotes_the_sources() -> None:
    plan = plan_reduction(read(_SENT), _SUM_UP, settled={0}, sources=read(_SOURCES))
    assert "summarization" == plan.stage
    assert f"{OUTCOMES}\n- shell: 3 passed\n- shell: old output" in _say(plan)


@pytest.mark.parametrize("sources", [None, _SENT])
def test_a_summary_quotes_no_placeholders(sources: list[ChatMessage] | None) -> None:
    plan = plan_reduction(
        read(_SENT), _SUM_UP, settled={0}, sources=None if sources is None else read(sources)
    )
    assert f"{OUTCOMES}\n- shell: old output" in _say(plan)


def test_sources_of_another_conversation_are_an_error() -> None:
    with pytest.raises(ValueError, match="zip"):
        plan_reduction(read(_SENT), _SUM_UP, sources=read([user(), *recent(8)]))


# The pairs are looked at after each stage.


@pytest.mark.parametrize("budget", [1, 60, 400])
def test_where_a_stage_would_part_a_pair_it_is_not_taken(
    budget: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing parts a pair, unless what is kept were not closed over them."""
    monkeypatch.setattr(reduction, "close_over_pairs", lambda kept, _: frozenset(kept))
    messages = [user(OLD), user(OLD), *turn("a", "x"), *recent(3)]
    after = reduce_history(messages, options(budget))
    assert after.messages is messages
    assert ("fallback", "fallback") == (after.reduction_stage, after.invariant_status)
    assert (0, 664) == (after.dropped_count, after.final_size)


@as_one_test
@pytest.mark.parametrize("stray", [result("b"), result(None), *unanswered()])
@pytest.mark.parametrize("at", [0, 2, 6])
def test_a_pair_that_was_broken_before_is_no_reason_to_go_on(stray: ChatMessage, at: int) -> None:
    messages = [*turn("a", OLD * 3), says(""), *recent()]
    messages.insert(at, stray)
    assert "masking" == reduce_history(messages, options(500)).reduction_stage

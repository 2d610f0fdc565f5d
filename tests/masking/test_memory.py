"""What is remembered of a conversation, and which request continues which."""

import itertools
import random
from collections.abc import Sequence

import orjson
import pytest

from masking import ChatMessage, Conversation
from masking.conversation import read_conversation
from masking.memory import (
    Anchor,
    BoundaryMemory,
    ConversationContext,
    Move,
    Past,
    Remembered,
    ResultIds,
    digest_answers,
    digest_opening,
    estimate_lifetime,
    is_held_out,
)
from masking.request_cache import RequestCache
from masking.rewrite import read_request
from masking.window import BoundaryPosition
from masking.window.placeholder import Rendering
from masking.wire.chat import CHAT
from masking.wire.messages import MESSAGES
from tests.support.builders import assistant, call, parts, read, read_body, result, turn
from tests.support.images import png
from tests.support.marks import as_one_test

OPENING: list[ChatMessage] = [
    {"role": "system", "content": "You are an agent."},
    {"role": "user", "content": "Mend it."},
]
TALK = [*OPENING, *turn("a"), *turn("b"), *turn("c")]


def body(messages: list[ChatMessage]) -> Conversation:
    return read(messages)


def digest(messages: list[ChatMessage]) -> Sequence[bytes]:
    return digest_answers(read(messages)).answers


def anchor(count: int, messages: list[ChatMessage] = TALK) -> Anchor:
    return find(BoundaryMemory(), cut(messages, count)).anchor


def cut(messages: list[ChatMessage], count: int) -> list[ChatMessage]:
    """Return a conversation up to so many messages of the assistant, and what follows the last."""
    said = [n for n, message in enumerate(messages) if message["role"] == "assistant"]
    return messages[: (*said, len(messages))[count]]


def move(count: int, messages: list[ChatMessage] = TALK) -> Move:
    results = (ResultIds(body(messages))[0],)
    return Move(anchor(count, messages), BoundaryPosition(1, 1), results, Rendering("<…>", True))


def past(count: int, *moves: Move, messages: list[ChatMessage] = TALK, sent: float = 0.0) -> Past:
    return Past(met=anchor(0), moves=moves, last=anchor(count, messages), sent=sent)


def find(
    memory: BoundaryMemory, messages: list[ChatMessage], now: float = 0.0
) -> ConversationContext:
    context = memory.lookup(body(messages), now, 300.0).context
    assert context is not None
    return context


def keep(memory: BoundaryMemory, what: Past, messages: list[ChatMessage]) -> None:
    memory.store(memory.lookup(body(messages), 0.0, 300.0), what)


# Which conversation


@as_one_test
@pytest.mark.parametrize(
    "messages",
    [
        pytest.param([*TALK, *turn("d")], id="a later request"),
        pytest.param([OPENING[0], {"role": "user", "content": parts("Mend it.")}], id="as parts"),
        pytest.param(
            [{**OPENING[0], "cache_control": {"type": "ephemeral"}}, OPENING[1]], id="marked"
        ),
        pytest.param([*OPENING, {"role": "user", "content": "Now."}], id="another question"),
        pytest.param(
            [
                {"role": "system", "content": "x-anthropic-billing-header: cc_version=2; cch=1;"},
                *OPENING,
            ],
            id="with a billing header",
        ),
    ],
)
def test_an_opening_is_the_same(messages: list[ChatMessage]) -> None:
    assert digest_opening(body(TALK)) == digest_opening(body(messages))


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param([{"role": "user", "content": "Mend it."}], id="without the system's text"),
        pytest.param([OPENING[0], {"role": "user", "content": "Mend it"}], id="another task"),
        pytest.param(
            [{**OPENING[0], "content": "You are an agent.Mend"}, {**OPENING[1], "content": " it."}],
            id="cut elsewhere",
        ),
        pytest.param([], id="nothing"),
    ],
)
def test_an_opening_is_another_one(messages: list[ChatMessage]) -> None:
    assert digest_opening(body(TALK)) != digest_opening(body(messages))


def test_an_opening_is_that_of_the_request_alone_whatever_was_read_before() -> None:
    said: ChatMessage = {"role": "assistant", "content": "Hi."}
    other: ChatMessage = {"role": "user", "content": "Break it."}
    talks: list[list[ChatMessage]] = [
        OPENING[:1],
        [OPENING[0], said],
        [OPENING[0], said, other],
        TALK,
        [OPENING[0], other, *turn("a")],
        [OPENING[0], *turn("a")],
        [OPENING[0], said, *turn("a"), OPENING[1]],
        TALK[:5],
    ]
    cache = RequestCache()
    for messages in [*talks, *reversed(talks)]:
        encoded = orjson.dumps({"messages": messages})
        known = cache.read(encoded, CHAT)
        assert digest_opening(read_request(encoded)) == digest_opening(known)
        assert digest_opening(known) == digest_opening(known)


def test_an_opening_without_a_user_stays_the_same_as_well() -> None:
    talks = [
        [OPENING[0], *turn("a")],
        [OPENING[0], *turn("a"), *turn("b")],
        [OPENING[0], *turn("a"), OPENING[1], *turn("b")],
    ]
    assert 1 == len({digest_opening(body(talk)) for talk in talks})
    assert digest_opening(body([])) == digest_opening(body(turn("a")))


@as_one_test
@pytest.mark.parametrize(
    "answer",
    [
        {"role": "assistant", "content": "Another text."},
        assistant(call("z")),
        assistant(call("a", "read")),
        assistant(call("a", "shell", "a.py")),
        assistant(),
        {"role": "assistant", "tool_calls": [None, {"function": None}]},
    ],
)
def test_messages_of_the_assistant_are_told_apart(answer: ChatMessage) -> None:
    one, other = digest(TALK), digest([*OPENING, answer])
    assert one[0] != other[0]
    assert len(other) == 1


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ({"n": 1}, {"n": 1}, True),
        ({"n": 1}, {"n": 2}, False),
        ({"n": "\ud800"}, {"n": "\ud801"}, True),
    ],
    ids=["the same", "others", "what cannot be spelled"],
)
def test_answers_with_arguments_that_are_objects(one: object, other: object, alike: bool) -> None:
    def answers(arguments: object) -> bytes:
        use = {"type": "tool_use", "id": "a", "name": "shell", "input": arguments}
        message = {"role": "assistant", "content": [use]}
        return digest_answers(read_conversation({"messages": [message]}, MESSAGES)).answers[0]

    assert alike == (answers(one) == answers(other))


def test_a_message_of_the_assistant_is_known_with_all_those_before_it() -> None:
    one, other = digest(TALK), digest([*OPENING, *turn("x"), *TALK[4:]])
    assert one[2] != other[2]


def test_a_marker_on_an_answer_changes_nothing() -> None:
    marked = [{**message, "cache_control": {"type": "ephemeral"}} for message in TALK]
    assert digest(TALK)[:3] == digest(marked)[:3]


# Which result

REMINDER = "\n\n<system-reminder>Be brief.</system-reminder>"
SHOT = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": png()}}
OTHER_SHOT = {**SHOT, "source": {**SHOT["source"], "data": png(mark="other")}}  # type: ignore[dict-item]
MARK = {"cache_control": {"type": "ephemeral"}}


def results_of(content: object, *, call_id: str = "a", before: Sequence[object] = ()) -> ResultIds:
    """Return the ids of the results of a request in which a call has this one."""
    use = {"type": "tool_use", "id": call_id, "name": "shell", "input": {}}
    result = {"type": "tool_result", "tool_use_id": call_id, "content": content}
    messages = [
        *before,
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": [result]},
    ]
    return ResultIds(read_conversation({"messages": messages}, MESSAGES))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("text", [{"type": "text", "text": "text"}], id="a string and a list"),
        pytest.param("text", "text" + REMINDER, id="a reminder after it"),
        pytest.param(
            [{"type": "text", "text": "text"}, SHOT],
            [{"type": "text", "text": "text", **MARK}, SHOT],
            id="a cache mark in it",
        ),
    ],
)
def test_a_result_is_the_same(one: object, other: object) -> None:
    assert results_of(one).has(results_of(other)[0])
    assert results_of(other).has(results_of(one)[0])


FIRST_TURN = [
    {"role": "assistant", "content": [{"type": "tool_use", "id": "z", "name": "x", "input": {}}]},
    {"role": "user", "content": "It was stopped."},
]


@as_one_test
@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(results_of("text"), results_of("texts"), id="another text"),
        pytest.param(results_of("text"), results_of("text", call_id="b"), id="another id"),
        pytest.param(results_of([SHOT]), results_of([OTHER_SHOT]), id="another image"),
        pytest.param(results_of([SHOT]), results_of([SHOT, SHOT]), id="one more image"),
        pytest.param(results_of("text"), results_of("text", before=FIRST_TURN), id="another turn"),
    ],
)
def test_a_result_is_another_one(one: ResultIds, other: ResultIds) -> None:
    assert not one.has(other[0])
    assert not other.has(one[0])


def test_an_image_that_cannot_be_written_down_is_never_the_same() -> None:
    odd_address = {"type": "image_url", "image_url": {"url": "https://" + "\ud800" * 200}}
    odd = ResultIds(body([assistant(call("a")), {**result("a"), "content": [odd_address]}]))
    assert not odd.has(odd[0])


def test_results_in_one_element_are_told_apart() -> None:
    calls = [call(name) for name in "abc"]
    ids = ResultIds(body([*turn("x"), assistant(*calls), *(result(name) for name in "abc")]))
    listed = read_conversation(
        {
            "messages": [
                {
                    "role": "assistant",
                    "content": [
                        {"type": "tool_use", "id": n, "name": "x", "input": {}} for n in "ab"
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {"type": "tool_result", "tool_use_id": n, "content": "same"} for n in "ab"
                    ],
                },
            ]
        },
        MESSAGES,
    )
    assert 4 == len({ids[n].digest for n in range(4)})
    assert 2 == len({ResultIds(listed)[n].digest for n in range(2)})


def test_a_place_that_the_request_does_not_have_has_no_result() -> None:
    assert not ResultIds(body(OPENING)).has(ResultIds(body(TALK))[0])


# How far it is known


def test_what_is_not_known_is_first_met() -> None:
    context = find(BoundaryMemory(), TALK, 5.0)
    assert (None, "first met", anchor(3)) == (context.past, context.state, context.anchor)


@pytest.mark.parametrize(("now", "state"), [(300.0, "warm"), (301.0, "cold"), (-9.0, "warm")])
def test_after_a_longer_pause_the_prefix_is_taken_for_forgotten(now: float, state: str) -> None:
    memory = BoundaryMemory()
    keep(memory, past(3), TALK)
    assert state == find(memory, [*TALK, *turn("d")], now).state


def test_a_request_continues_its_conversation_with_all_its_moves() -> None:
    memory = BoundaryMemory()
    known = past(3, move(1), move(3))
    keep(memory, known, TALK)
    assert known == find(memory, [*TALK, *turn("d")]).past


def test_where_a_user_went_back_the_later_moves_are_gone() -> None:
    memory = BoundaryMemory()
    keep(memory, past(3, move(1), move(3)), TALK)
    other = [*TALK[:4], *turn("x"), *turn("y")]
    found = find(memory, other).past
    assert found is not None
    assert (move(1),) == found.moves


def test_another_conversation_with_the_same_opening_does_not_take_its_place() -> None:
    memory = BoundaryMemory()
    other = [*OPENING, *turn("x"), *turn("y")]
    first, second = past(3, move(2)), past(2, move(1, other), messages=other)
    keep(memory, first, TALK)
    keep(memory, second, other)
    assert first == find(memory, TALK).past
    assert second == find(memory, other).past


def test_a_request_that_is_sent_twice_at_once_is_remembered_once() -> None:
    counts: list[int] = []
    memory = BoundaryMemory(lambda _, known: counts.append(len(known.branches)))
    for known in [memory.lookup(body(TALK), 0.0, 300.0) for _ in range(2)]:
        memory.store(known, past(3, move(1)))
    assert [1, 1] == counts


def test_a_conversation_met_in_its_middle_is_not_taken_for_one_with_the_same_opening() -> None:
    memory = BoundaryMemory()
    late = Past(met=anchor(2), last=anchor(3), sent=0.0)
    keep(memory, late, TALK)
    assert find(memory, [*OPENING, *turn("x"), *turn("y")]).past is None
    assert find(memory, OPENING).past is None
    assert late == find(memory, TALK).past


def edited(messages: list[ChatMessage], place: int) -> list[ChatMessage]:
    """Return a conversation in which a tool gave something else."""
    at = [n for n, message in enumerate(messages) if message["role"] == "tool"][place]
    return [*messages[:at], {**messages[at], "content": "Something else."}, *messages[at + 1 :]]


def test_only_the_very_same_results_are_known() -> None:
    memory = BoundaryMemory()
    both = move(3)._replace(results=tuple(ResultIds(body(TALK))[n] for n in range(2)))
    keep(memory, past(3, move(2, edited(TALK, 0)), both), TALK)
    found = find(memory, edited(TALK, 1)).past
    assert found is not None
    assert (both._replace(results=both.results[:1]),) == found.moves


def test_of_two_conversations_with_the_same_answers_that_with_the_same_results_is_meant() -> None:
    memory, other = BoundaryMemory(), edited(TALK, 0)
    results = tuple(ResultIds(body(TALK))[n] for n in range(2))
    first = past(3, move(3)._replace(results=results), sent=2.0)
    second = past(2, move(2, other), messages=other)
    keep(memory, first, TALK)
    keep(memory, second, other)
    assert first == find(memory, TALK).past
    assert second == find(memory, other).past


def test_of_two_agents_with_the_very_same_conversation_each_goes_on_from_its_own() -> None:
    """Their accounts may differ in what they accept, and so may what was masked in them."""
    memory = BoundaryMemory()
    keep(memory, past(3, move(2)), TALK)
    for count in (1, 2):
        keep(memory, past(count), cut(TALK, count))
        assert past(count) == find(memory, cut(TALK, count)).past
        assert past(count) == find(memory, cut(TALK, count + 1)).past


def test_what_is_read_late_comes_before_what_was_met_since() -> None:
    changes: list[tuple[bytes, int]] = []
    memory = BoundaryMemory(lambda opening, known: changes.append((opening, len(known.branches))))
    late = Past(met=anchor(2), last=anchor(3), sent=9.0)
    keep(memory, late, TALK)
    opening = digest_opening(body(TALK))
    memory.load([(opening, Remembered((past(3, move(1)),))), (b"other", Remembered((past(1),)))])
    expected = {b"other": (past(1),), opening: (late, past(3, move(1)))}
    assert {name: Remembered(each) for name, each in expected.items()} == memory._known
    assert [(opening, 1), (opening, 2)] == changes


def test_what_is_sent_whole_is_forgotten() -> None:
    changes: list[tuple[bytes, int]] = []
    memory = BoundaryMemory(lambda opening, known: changes.append((opening, len(known.branches))))
    memory.forget(body(TALK), "masked")
    keep(memory, past(3, move(1)), TALK)
    memory.forget(body([*TALK, *turn("d")]), "masked")
    memory.forget(body(TALK), "masked")
    assert find(memory, TALK).past is None
    assert [(digest_opening(body(TALK)), 1), (digest_opening(body(TALK)), 0)] == changes


@as_one_test
@pytest.mark.parametrize(
    ("other", "is_left"),
    [
        pytest.param(TALK, False, id="its own"),
        pytest.param(TALK[:6], False, id="an earlier place of its own"),
        pytest.param(OPENING, True, id="another run at its first request"),
        pytest.param([*OPENING, *turn("x"), *turn("y")], True, id="with other answers"),
        pytest.param([*edited(TALK, 0), *turn("d")], True, id="with other results"),
        pytest.param(edited(TALK, 0)[:6], True, id="with other results, where it moved"),
    ],
)
def test_what_another_run_sends_whole_is_remembered_of_this_one(
    other: list[ChatMessage], is_left: bool
) -> None:
    memory = BoundaryMemory()
    known = past(3, move(2))
    keep(memory, known, TALK)
    memory.forget(body(other), "masked")
    assert (known if is_left else None) == find(memory, TALK).past


def test_another_run_with_nothing_masked_is_not_covered() -> None:
    memory = BoundaryMemory()
    other = edited(TALK, 0)
    keep(memory, past(2), TALK[:6])
    keep(memory, past(2, messages=other), other[:6])
    keep(memory, past(3, messages=other), other)
    assert past(2) == find(memory, TALK).past


def test_forgetting_one_conversation_leaves_others() -> None:
    memory = BoundaryMemory()
    keep(memory, past(3, move(1)), TALK)
    memory.forget(body([{"role": "user", "content": "Something else."}]), "masked")
    assert find(memory, TALK).past == past(3, move(1))


def test_of_conversations_with_the_same_opening_those_met_elsewhere_stay() -> None:
    memory = BoundaryMemory()
    late = Past(met=anchor(2), last=anchor(3), sent=0.0)
    keep(memory, late, TALK)
    other = [*OPENING, *turn("x")]
    keep(memory, past(1, move(1, other), messages=other), other)
    memory.forget(body(other), "masked")
    found = [find(memory, talk).past for talk in (TALK, other)]
    assert [late, None] == found


def test_the_longest_unused_are_forgotten_first() -> None:
    memory = BoundaryMemory(max_conversations=2)
    talks: list[list[ChatMessage]] = [
        [{"role": "user", "content": f"Task {n}."}, *turn("a")] for n in range(3)
    ]
    for n in (0, 1, 0, 2):
        keep(memory, past(1, messages=talks[n]), talks[n])
    known = [find(memory, talk).past is not None for talk in talks]
    assert [True, False, True] == known


def test_a_greeting_before_the_user_speaks_is_no_end_of_the_opening() -> None:
    hello: list[ChatMessage] = [OPENING[0], {"role": "assistant", "content": "How can I help?"}]
    talks: list[list[ChatMessage]] = [
        [*hello, {"role": "user", "content": task}, *turn("a")] for task in "ab"
    ]
    assert 2 == len({digest_opening(body(talk)) for talk in talks})
    junk: list[ChatMessage] = [None, *hello]  # type: ignore[list-item]
    assert digest_opening(body(junk)) == digest_opening(body(hello[:1]))


def test_so_they_are_where_the_results_of_all_become_too_many() -> None:
    changes: list[tuple[bytes, int]] = []
    memory = BoundaryMemory(
        lambda opening, known: changes.append((opening, len(known.branches))), max_results=7
    )
    talks: list[list[ChatMessage]] = [
        [{"role": "user", "content": f"Task {n}."}, *turn("a")] for n in range(3)
    ]
    for n, places in ((0, 3), (1, 1), (0, 4), (2, 0), (1, 2)):
        made = move(1, talks[n])
        made = made._replace(results=made.results * places)
        keep(memory, past(1, made, messages=talks[n]), talks[n])
    known = [find(memory, talk).past is not None for talk in talks]
    assert [False, True, True] == known
    assert (digest_opening(body(talks[0])), 0) == changes[-1]
    keep(memory, past(1, move(1)._replace(results=move(1).results * 7)), TALK)
    assert not memory._known


def test_what_is_loaded_is_bounded_as_well() -> None:
    forgotten: list[bytes] = []
    memory = BoundaryMemory(lambda opening, _: forgotten.append(opening), max_conversations=2)
    memory.load((bytes([n]), Remembered((past(1),))) for n in range(4))
    assert [b"\0", b"\1"] == forgotten


def test_the_branches_of_one_opening_are_bounded() -> None:
    counts: list[int] = []
    memory = BoundaryMemory(lambda _, known: counts.append(len(known.branches)))
    for n in range(36):
        talk = [*OPENING, assistant(call(f"x{n}")), result(f"x{n}")]
        late = Past(met=anchor(1, talk), last=anchor(1, talk), sent=float(n))
        keep(memory, late, talk)
    assert [*range(1, 33), 32, 32, 32, 32] == counts


def test_what_was_remembered_before_can_be_loaded() -> None:
    memory = BoundaryMemory()
    memory.load([(digest_opening(body(TALK)), Remembered((past(3, move(1)),)))])
    assert past(3, move(1)) == find(memory, TALK).past


# The hold-out: which conversations are observed only.


OPENINGS = [random.Random(number).randbytes(16) for number in range(10_000)]


def choose(percent: float, salt: str = "") -> set[bytes]:
    return {opening for opening in OPENINGS if is_held_out(opening, percent, salt)}


@pytest.mark.parametrize("salt", ["", "spring", "é" * 100])
@pytest.mark.parametrize("percent", [1, 10, 12.5, 50, 99])
def test_about_as_many_are_held_out_as_are_asked_for(percent: float, salt: str) -> None:
    deviation = (len(OPENINGS) * percent / 100 * (1 - percent / 100)) ** 0.5
    assert abs(len(choose(percent, salt)) - len(OPENINGS) * percent / 100) < 4 * deviation


def test_none_and_all() -> None:
    assert set() == choose(0)
    assert set(OPENINGS) == choose(100)


def test_a_larger_percentage_only_adds_conversations() -> None:
    groups = [choose(percent) for percent in (0, 0.1, 5, 5.5, 20, 80, 100)]
    assert all(less < more for less, more in itertools.pairwise(groups))


def test_another_salt_chooses_others_independently_of_the_first() -> None:
    first, second = choose(20, "a"), choose(20, "b")
    assert abs(len(first & second) - 400) < 80


def test_the_choice_is_the_same_in_every_version() -> None:
    openings = [bytes([number] * 16) for number in range(16)]
    chosen = [number for number, each in enumerate(openings) if is_held_out(each, 25, "salt")]
    assert [7, 8, 15] == chosen


# How long a prompt is taken to be remembered.


HOUR = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
TEXT = {"type": "text", "text": "Go on."}


@as_one_test
@pytest.mark.parametrize(
    ("body", "seconds"),
    [
        pytest.param({}, 300, id="the provider's own time"),
        pytest.param({"messages": [{"content": "Go on.", **HOUR}]}, 3_600, id="a message"),
        pytest.param({"messages": [{"content": [TEXT, {**TEXT, **HOUR}]}]}, 3_600, id="a part"),
        pytest.param({"tools": [{"type": "function", **HOUR}]}, 3_600, id="a tool"),
        pytest.param({"prompt_cache_retention": "24h"}, 86_400, id="the whole request"),
        pytest.param({"prompt_cache_retention": "in_memory"}, 300, id="nothing longer"),
        pytest.param({"prompt_cache_retention": 24}, 300, id="no text"),
        pytest.param({"messages": [{"cache_control": {"type": "ephemeral"}}]}, 300, id="no ttl"),
        pytest.param({"messages": [{"cache_control": "1h"}, 7, None]}, 300, id="no marker"),
        pytest.param({"tools": {"a": 1}}, 300, id="no lists"),
    ],
)
def test_it_is_the_longest_that_is_known_and_a_fifth_for_doubt(
    body: dict[str, object], seconds: float
) -> None:
    marks = read_body({"messages": [], **body}).marks
    assert estimate_lifetime(marks, 300.0) == pytest.approx(1.2 * seconds)

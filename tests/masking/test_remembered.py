"""With a memory: what was masked stays so, and a pause moves the boundary."""

import dataclasses
import itertools
import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from masking import ChatMessage, MaskPolicy
from masking.memory import BoundaryMemory
from masking.request_cache import RequestCache
from masking.rewrite import Rewrite, Strategies
from masking.wire.chat import CHAT
from tests.support.builders import IMAGE, conversations, examples, parts, policies, turn
from tests.support.images import png
from tests.support.marks import thorough
from tests.support.priced import PricedPolicy, at_prices, rewrite_request

LIFETIME = 300.0
TENTH = PricedPolicy(
    True,
    3,
    placeholder_template="<{tool_name} {original_chars}>",
    mask_text_parts=True,
    cache_read_ratio=0.1,
    cache_write_ratio=1.25,
)


def talk(turns: int, chars: int = 1_500) -> list[ChatMessage]:
    messages: list[ChatMessage] = [{"role": "user", "content": "Go on. " * 200}]
    for n in range(turns):
        messages += turn(f"call_{n}", f"{n} line\n" * (chars // 7), path=f"{n % 5}.py")
    return messages


TALK = talk(60)
MIDDLE = 41
COUNTS = range(1, len(TALK) + 1, 2)


class Session:
    """Requests that go out one after the other, with a memory or without one."""

    def __init__(self, policy: MaskPolicy, memory: BoundaryMemory | None) -> None:
        self.policy = policy
        self.memory = memory
        self._cache = RequestCache()

    def send(
        self,
        messages: list[ChatMessage],
        now: float = 0.0,
        *,
        held: bool = False,
        lifetime: float = LIFETIME,
        **fields: object,
    ) -> Rewrite:
        body = json.dumps({"messages": messages, **fields}).encode()
        conversation = self._cache.read(body, CHAT)
        strategies = Strategies(schema1=self.policy)
        only = frozenset[int]() if held else None
        if self.memory is None:
            return rewrite_request(conversation, strategies, only=only)
        known = self.memory.lookup(conversation, now, lifetime)
        outcome = rewrite_request(conversation, strategies, only=only, context=known.context)
        self.memory.store(known, outcome.past)
        return outcome

    def play(self, messages: list[ChatMessage] = TALK) -> list[frozenset[int]]:
        counts = range(1, len(messages) + 1, 2)
        return [self.send(messages[:count]).masked for count in counts]


def remembering(policy: MaskPolicy = TENTH) -> Session:
    return Session(policy, BoundaryMemory())


def answers(messages: list[ChatMessage]) -> list[int]:
    """Return where each request of a conversation ends: before a message of the assistant."""
    roles = [m.get("role") if isinstance(m, dict) else None for m in messages]
    return [at for at, role in enumerate(roles) if role == "assistant"]


@given(conversations(), policies)
def test_a_conversation_known_from_its_start_is_masked_as_without_a_memory(
    messages: list[ChatMessage], policy: MaskPolicy
) -> None:
    priced = at_prices(policy, cache_write_ratio=1.0)
    known, stateless = remembering(priced), Session(priced, None)
    for end in [*answers(messages), len(messages)]:
        assert stateless.send(messages[:end]).body == known.send(messages[:end]).body


@pytest.mark.parametrize(
    ("read", "keep_latest"),
    [
        (0.1, 12),
        thorough(0.5, 0),
        thorough(0.1, 0),
        (0.02, 0),
        thorough(0.5, 12),
        thorough(0.02, 12),
    ],
)
def test_so_is_a_long_one(read: float, keep_latest: int) -> None:
    policy = dataclasses.replace(TENTH, cache_read_ratio=read, keep_latest_turns=keep_latest)
    without = Session(policy, None).play()
    assert without == remembering(policy).play()
    assert without[-1]


def test_a_second_try_sends_the_same_bytes() -> None:
    session = remembering()
    for count in COUNTS:
        assert session.send(TALK[:count]).body == session.send(TALK[:count]).body


CHANGES = [
    pytest.param({"window_turns": 30}, id="a larger window"),
    pytest.param({"placeholder_template": "[{tool_name} was here]"}, id="another placeholder"),
    pytest.param({"keep_last_k_per_tool": 50}, id="the last of each tool are kept"),
    pytest.param({"keep_latest_turns": 40}, id="the latest of each target are kept"),
    pytest.param({"keep_rereads": True, "window_turns": 1}, id="what is asked for again is kept"),
    pytest.param({"min_chars": 1_000_000}, id="only long ones are masked"),
    pytest.param({"cache_read_ratio": 0.001}, id="other prices"),
    pytest.param({"cache_read_ratio": 2.0}, id="a window that slides"),
    pytest.param({"max_loss": 0.0}, id="no loss allowed"),
    pytest.param({"error_words_max_chars": 10**9}, id="another sign of an error"),
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_settings_unmasks_nothing_and_breaks_no_prefix(
    change: dict[str, object],
) -> None:
    session = remembering()
    session.play(TALK[:81])
    before = session.send(TALK[:81])
    assert before.masked
    session.policy = dataclasses.replace(TENTH, **change)  # type: ignore[arg-type]
    again = session.send(TALK[:81])
    assert before.masked <= again.masked
    texts = {place: before.decisions[place].replacements for place in before.masked}
    assert texts == {place: again.decisions[place].replacements for place in before.masked}


def test_what_was_spelled_of_a_call_stays_as_it_was_sent() -> None:
    spelled = dataclasses.replace(TENTH, placeholder_template="<{arguments} {recall}>")
    session = remembering(spelled)
    session.play(TALK[:81])
    before = session.send(TALK[:81])
    assert before.masked
    session.policy = dataclasses.replace(spelled, placeholder_arguments_chars=9)
    assert before.body == session.send(TALK[:81]).body


def test_settings_that_would_have_masked_more_wait_for_the_next_move() -> None:
    """To mask it now would break the prefix, which only a move may."""
    failed = [*talk(1)[:2], {**talk(1)[2], "content": "Error: no such file\n" + "x" * 1_800}]
    messages = [*failed, *TALK[3:]]
    session = remembering()
    session.play(messages[:81])
    session.policy = dataclasses.replace(TENTH, keep_errors=False)
    decisions = session.send(messages[:81]).decisions
    assert ["held", "masked"] == [decision.reason for decision in decisions[:2]]
    after = session.send(messages, now=10 * LIFETIME).decisions
    assert ["masked", "masked"] == [decision.reason for decision in after[:2]]


@examples(0.1)  # a session each
@given(st.lists(st.sampled_from([3, 8, 20]), min_size=6, max_size=6))
def test_whatever_changes_nothing_that_was_masked_comes_back(windows: list[int]) -> None:
    session = remembering()
    masked: list[frozenset[int]] = []
    for count, window in zip(range(21, 121, 2), itertools.cycle(windows), strict=False):
        session.policy = dataclasses.replace(TENTH, window_turns=window)
        masked.append(session.send(TALK[:count]).masked)
    assert all(before <= now for before, now in itertools.pairwise(masked))


def test_a_conversation_first_met_in_its_middle_begins_unmasked() -> None:
    session = remembering()
    assert session.send(TALK[:MIDDLE]).masked == frozenset()
    assert Session(TENTH, None).send(TALK[:MIDDLE]).masked


def test_and_is_masked_when_that_pays_from_there() -> None:
    session = remembering()
    sizes = [len(session.send(TALK[:count]).masked) for count in range(MIDDLE, len(TALK), 2)]
    assert sizes[0] == 0
    assert sizes[-1] > 20


@pytest.mark.parametrize(
    ("pause", "moves"), [(LIFETIME - 1, False), (LIFETIME + 1, True)], ids=["warm", "cold"]
)
def test_after_a_long_pause_the_boundary_moves_to_the_edge_of_the_window(
    pause: float, moves: bool
) -> None:
    session = remembering(dataclasses.replace(TENTH, max_loss=1.0))
    for count in range(1, 42, 2):
        before = session.send(TALK[:count]).masked
    after = session.send(TALK[:43], now=pause)
    assert moves == (after.masked > before)
    assert moves == (after.masked == frozenset(range(21 - 3)))


def test_a_pause_moves_nothing_that_the_promise_forbids() -> None:
    session = remembering(dataclasses.replace(TENTH, max_loss=0.0))
    for count in range(1, 22, 2):
        session.send(TALK[:count])
    assert session.send(TALK[:23], now=10_000.0).masked == frozenset()


def test_a_held_boundary_does_not_move_even_after_a_pause() -> None:
    session = remembering()
    session.play(TALK[:81])
    before = session.send(TALK[:81]).masked
    assert before == session.send(TALK[:101], now=10_000.0, held=True).masked
    assert before < session.send(TALK[:101], now=20_000.0).masked


def test_where_a_user_went_back_only_the_later_moves_are_undone() -> None:
    session = remembering(dataclasses.replace(TENTH, cache_read_ratio=0.5, cache_write_ratio=1.0))
    masked = session.play(TALK[:81])
    other = [*TALK[:61], *turn("other", "other " * 900)]
    again = session.send(other).masked
    assert masked[30] <= again < masked[-1]


@pytest.mark.parametrize("back", [1, 5, 60])
def test_going_back_and_other_settings_at_once_unmask_nothing_that_slid(back: int) -> None:
    session = remembering(dataclasses.replace(TENTH, cache_read_ratio=1.25))
    masked = session.play()
    session.policy = dataclasses.replace(TENTH, cache_read_ratio=0.001)
    assert masked[-1 - back] == session.send(TALK[: 121 - 2 * back]).masked


def test_moves_of_a_window_that_slides_do_not_become_more_and_more() -> None:
    session = remembering(dataclasses.replace(TENTH, cache_read_ratio=1.25))
    messages = talk(90)
    session.play(messages[:41])
    session.policy = dataclasses.replace(session.policy, placeholder_template="gone")
    session.play(messages)
    past = session.send(messages).past
    assert past is not None
    assert 64 == len(past.moves)
    assert [*range(90 - 3)] == [each.place for move in past.moves for each in move.results]


def test_every_slide_in_words_of_its_own_is_a_move() -> None:
    session = remembering(dataclasses.replace(TENTH, cache_read_ratio=1.25))
    messages = talk(80)
    for count in range(9, 161, 2):
        words = f"gone {count}"
        session.policy = dataclasses.replace(session.policy, placeholder_template=words)
        past = session.send(messages[:count]).past
    assert past is not None
    assert 76 == len(past.moves)


def test_conversations_that_are_answered_alike_at_times_do_not_mix() -> None:
    """Providers that number calls anew, and agents that ask the same at the same place."""
    both = [
        [TALK[0], *(m for n in range(20) for m in turn("call_0", f"{who} {n}\n" * 300, path=path))]
        for who in "ab"
        for path in [f"{who}.py"]
    ]
    for messages in both:
        messages[-2:] = turn("call_0", "the same " * 200)
    session = remembering(dataclasses.replace(TENTH, cache_read_ratio=0.5, cache_write_ratio=1.0))
    one, other = (session.play(messages)[-1] for messages in both)
    assert one
    assert [one, other] == [session.send(messages).masked for messages in both]


def test_many_agents_with_one_task_are_told_apart() -> None:
    """Samples of one prompt, drawn in parallel: what was masked in each stays so."""
    session = remembering()
    talks = [
        [TALK[0], *(m for n in range(12) for m in turn(f"{agent}_{n}", f"{agent} {n}\n" * 500))]
        for agent in range(16)
    ]
    for count in range(1, 26, 2):
        masked = [session.send(talk[:count]).masked for talk in talks]
    session.policy = dataclasses.replace(TENTH, cache_read_ratio=0.001)
    assert all(masked)
    assert masked == [session.send(talk).masked for talk in talks]


SAID = ("ok", "line of output\n" * 40, "line of output\n" * 400)


def run_task(run: int, said: list[str], *, split: bool = False) -> list[ChatMessage]:
    """Return a run of the same task with the same answers; its first result is its own.

    split: whether the client writes each answer as two messages, a text and a call.
    """
    messages = TALK[:1]
    for n, text in enumerate([f"run {run}", *said]):
        asked, given = turn(f"call_{n}", text)
        messages = [*messages, *([{**asked, "tool_calls": []}] if split else []), asked, given]
    return messages


@given(
    st.lists(st.lists(st.sampled_from(SAID), max_size=25), min_size=2, max_size=6),
    st.lists(st.integers(0, 5), max_size=40),
    st.booleans(),
    st.sampled_from([1.0, 0.5, 0.1]),
    st.lists(st.integers(1, 6), min_size=6, max_size=6),
)
# Another run was sent at the request's own place, this one last some answers before.
@example([["ok"] * 5] * 2, [], False, 1.0, [1, 2, 1, 1, 1, 1])
def test_runs_of_a_task_with_the_same_answers_change_nothing_in_each_other(
    said: list[list[str]], order: list[int], split: bool, read: float, steps: list[int]
) -> None:
    """Some of their results are alike; some runs go on beside each other, others after.

    steps: of how many requests of each run one comes through here.
    """
    policy = dataclasses.replace(TENTH, cache_read_ratio=read, cache_write_ratio=1.0)
    together = remembering(policy)
    runs = [run_task(n, each, split=split) for n, each in enumerate(said)]
    ends = [
        [at + 1 for at, m in enumerate(run) if m["role"] != "assistant"][::step]
        for run, step in zip(runs, steps, strict=False)
    ]
    alone = [remembering(policy) for _ in runs]
    for n in [*(n % len(runs) for n in order), *(n for n, run in enumerate(runs) for _ in run)]:
        if ends[n]:
            request = runs[n][: ends[n].pop(0)]
            assert alone[n].send(request).masked == together.send(request).masked


@given(
    st.lists(
        st.tuples(
            st.integers(0, 3),
            st.sampled_from(["on", "on", "on", "again", "fork", "run", "back"]),
            st.sampled_from(SAID),
        ),
        min_size=20,
        max_size=60,
    ),
    st.sampled_from([1.0, 0.5, 0.1]),
)
def test_forks_runs_and_second_tries_unmask_nothing(
    steps: list[tuple[int, str, str]], read: float
) -> None:
    """Agents with one task and the same answers; each is at a request of its own."""
    session = remembering(dataclasses.replace(TENTH, cache_read_ratio=read, cache_write_ratio=1.0))
    agents, sent = [TALK[:1]], [frozenset[int]()]
    for number, kind, said in steps:
        at = number % len(agents)
        messages = agents[at]
        if kind in ("fork", "run"):
            kept = messages if kind == "fork" else TALK[:1]
            agents.append(kept[: len(kept) // 4 * 2 + 1])
            sent.append(frozenset())
            at = len(agents) - 1
        elif kind == "back":
            agents[at], sent[at] = messages[:-2] or messages, frozenset()
        if kind != "again":
            agents[at] = [*agents[at], *turn(f"call_{len(agents[at])}", f"{at} {said}")]
        masked = session.send(agents[at]).masked
        assert sent[at] <= masked
        sent[at] = masked


def test_a_request_that_goes_back_can_be_sent_twice_while_the_conversation_goes_on() -> None:
    """Two sessions that were forked, and the provider of one of them is busy."""
    session = remembering(dataclasses.replace(TENTH, max_loss=1.0))
    session.play(TALK[:31])
    fork = session.send(TALK[:21], now=2 * LIFETIME)
    session.send(TALK[:33])
    assert fork.masked
    assert fork.body == session.send(TALK[:21]).body


def test_a_place_that_was_empty_at_the_move_is_not_masked() -> None:
    """An agent may take results out of its history; those that come then are others."""
    session = remembering()
    masked = session.play(TALK[:81])[-1]
    fewer = [
        *(m for m in TALK[:81] if m["role"] != "tool"),
        *(r for r in TALK if r["role"] == "tool"),
    ]
    assert masked
    assert session.send([*fewer[:41], *turn("new"), *fewer[41:]]).masked == frozenset()


def test_what_cannot_be_masked_any_more_is_not() -> None:
    """An agent may change its own history: a result that is an image now has no placeholder."""
    session = remembering()
    session.play(TALK[:81])
    masked = session.send(TALK[:81]).masked
    assert masked
    for content in ([IMAGE], [None], [], None, 7):
        changed = [{**m, "content": content} if m["role"] == "tool" else m for m in TALK[:81]]
        assert session.send(changed).masked == frozenset()
    short = [m for m in TALK[:81] if m["role"] != "tool"]
    assert session.send(short).masked == frozenset()


def test_lists_of_parts_keep_their_placeholders() -> None:
    listed = [
        {**m, "content": parts(str(m["content"]))} if m["role"] == "tool" else m for m in TALK
    ]
    session = remembering()
    session.play(listed[:81])
    before = session.send(listed[:81])
    session.policy = dataclasses.replace(TENTH, mask_text_parts=False)
    assert before.masked
    assert before.body == session.send(listed[:81]).body


def edit(messages: list[ChatMessage], place: int) -> list[ChatMessage]:
    """Return a conversation in which the agent has cleared a result."""
    at = [n for n, message in enumerate(messages) if message["role"] == "tool"][place]
    cleared = {**messages[at], "content": "[Old tool result content cleared, to save some space]"}
    return [*messages[:at], cleared, *messages[at + 1 :]]


@pytest.mark.parametrize("place", [0, 4])
def test_an_agent_that_clears_a_result_unmasks_no_other_one(place: int) -> None:
    """Although others began alike, before it and since, of which nothing was ever masked."""
    session = remembering()
    session.send([*TALK[:1], *turn("other")])
    before = session.play(TALK[:81])[-1]
    session.send([*TALK[:1], *turn("another")])
    session.policy = dataclasses.replace(TENTH, window_turns=30)
    assert before - {place} == session.send(edit(TALK[:81], place)).masked
    assert place in before


def test_an_agent_that_clears_most_results_unmasks_none_that_are_left() -> None:
    """Although a fork has masked few, and all that it has are left."""
    session = remembering()
    masked = session.play(TALK[:41])[-1]
    session.send([*TALK[:41], *turn("fork")])
    before = session.play(TALK[:101])[-1]
    session.policy = dataclasses.replace(TENTH, window_turns=60)
    later, cleared = sorted(before - masked), TALK[:101]
    for place in later[:-3]:
        cleared = edit(cleared, place)
    assert masked | {*later[-3:]} == session.send(cleared).masked
    assert len(later) - 3 > len(masked) + 3


def test_edits_leave_no_more_and_more_conversations_behind() -> None:
    session = remembering()
    messages = TALK
    for count in COUNTS:
        masked = session.send(messages[:count]).masked
        if masked and count % 10 == 1:
            messages = edit(messages, min(masked))
    assert session.memory is not None
    (known,) = session.memory._known.values()
    (branch,) = known.branches
    assert branch.moves


def test_a_text_that_was_too_short_beside_a_masked_image_stays() -> None:
    picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{png()}"}}
    shown = [*parts("Few words. " * 20), picture]
    shots = [{**m, "content": shown} if m["role"] == "tool" else m for m in TALK[:21]]
    session = remembering(
        dataclasses.replace(TENTH, cache_read_ratio=1.25, mask_images=True, min_chars=400)
    )
    before = session.send(shots)
    session.policy = dataclasses.replace(session.policy, placeholder_template="-", min_chars=0)
    after = session.send(shots)
    assert before.masked
    assert before.body == after.body


def test_with_masking_off_nothing_is_remembered() -> None:
    assert remembering(PricedPolicy()).send(TALK).past is None

"""A fast replay comes to what a replay comes to, request by request."""

import dataclasses
import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from addon.commands.work import read_sessions
from addon.replay.files import RecordedConversation, detect_form
from addon.replay.replay import RecordedRequest, ReplaySettings, Session, replay
from addon.replay.session_index import index_session
from addon.replay.tune.fast_replay import BilledSession, FastReplay
from masking.model import ChatMessage
from masking.prices import CachePricing, PriceSettings
from masking.rewrite import Strategies
from masking.tokens import TokenCounter
from masking.window import MaskPolicy
from tests.support.builders import MASK_ALL, OLD, conversations, examples, policies, policy
from tests.support.marking import (
    MARKERS,
    MarkedSession,
    Marker,
    Request,
    mark_as_claude_code,
    mark_for_an_hour,
    mark_nothing,
)
from tests.support.marks import as_one_test
from tests.support.places import CONVERSATIONS
from tests.support.sessions import CHATS, WHEN, Talk, each_of, grow, read_chat, work, write_body

LONGEST = 150
"""Messages of a real conversation that is replayed here: a replay's time grows with the square."""

COUNTER = TokenCounter()


@dataclass(frozen=True, slots=True)
class Unreported:
    """A session without what its provider reported: a fast replay simulates the cache."""

    session: Session

    @property
    def name(self) -> str:
        return self.session.name

    def requests(self) -> Iterator[RecordedRequest]:
        return (dataclasses.replace(recorded, usage=None) for recorded in self.session.requests())


class Figures(NamedTuple):
    """What both come to for a request."""

    tokens_before: int | None
    tokens_after: int | None
    cost_before: object
    cost_after: object
    dollars: object
    masked: int
    moved: bool


def by_replay(session: Session, settings: ReplaySettings) -> list[Figures]:
    return [
        Figures(
            request.sizes.request_tokens_before,
            request.sizes.request_tokens_after,
            pytest.approx(request.entry.cost.before.cost),
            pytest.approx(request.entry.cost.after.cost),
            pytest.approx(request.entry.cost.after.dollars),
            request.sizes.masked,
            request.entry.moved,
        )
        for request in replay(session, settings, COUNTER)
    ]


def replay_fast(session: Session, settings: ReplaySettings) -> BilledSession:
    return FastReplay(index_session(session, settings, COUNTER), COUNTER).replay(settings)


def by_trial(session: Session, settings: ReplaySettings) -> list[Figures]:
    fast_replay = FastReplay(index_session(session, settings, COUNTER), COUNTER)
    billed = fast_replay.replay(settings)
    assert billed == fast_replay.replay(settings)
    return [
        Figures(plain.tokens, now.tokens, plain.cost, now.cost, now.dollars, now.masked, now.moved)
        for plain, now in zip(fast_replay.plain, billed.requests, strict=True)
    ]


SHIPPED = MaskPolicy(True, 8, skip_if_not_shorter=True, mask_text_parts=True)
SETTINGS_CASES = [
    pytest.param(
        ReplaySettings(
            strategies=Strategies(schema1=SHIPPED), price_settings=PriceSettings((0.1, 1.25))
        ),
        id="priced",
    ),
    pytest.param(
        ReplaySettings(
            strategies=Strategies(schema1=SHIPPED),
            price_settings=PriceSettings((0.1, 1.25)),
            slides=True,
        ),
        id="sliding",
    ),
    pytest.param(
        ReplaySettings(
            strategies=Strategies(schema1=SHIPPED), price_settings=PriceSettings("auto")
        ),
        id="by the price list",
    ),
    pytest.param(
        ReplaySettings(
            strategies=Strategies(schema1=SHIPPED),
            price_settings=PriceSettings("auto"),
            model="claude-sonnet-4-5",
        ),
        id="as another model's",
    ),
    pytest.param(
        ReplaySettings(
            strategies=Strategies(
                schema1=policy(SHIPPED, window_turns=3, keep_last_k_per_tool=2, min_chars=500)
            ),
            price_settings=PriceSettings((0.5, 1.0)),
        ),
        id="the last two of each tool and short results kept",
    ),
    pytest.param(
        ReplaySettings(
            strategies=Strategies(
                schema1=policy(
                    SHIPPED, window_turns=2, keep_tools=("r*",), keep_arguments=("*.py",)
                )
            ),
            price_settings=PriceSettings((0.5, 1.0)),
        ),
        id="some tools and arguments kept",
    ),
    pytest.param(
        ReplaySettings(
            strategies=Strategies(schema1=policy(SHIPPED, window_turns=3, keep_rereads=True)),
            price_settings=PriceSettings((0.5, 1.0)),
        ),
        id="what is asked for again is kept",
    ),
    pytest.param(
        ReplaySettings(
            strategies=Strategies(schema1=policy(SHIPPED, enabled=False)),
            price_settings=PriceSettings((0.5, 1.0)),
        ),
        id="off",
    ),
]


@pytest.mark.parametrize("settings", SETTINGS_CASES)
@each_of("recording", CHATS)
def test_it_agrees_with_a_replay_of_a_recording(recording: Path, settings: ReplaySettings) -> None:
    unreported = Unreported(read_chat(recording))
    assert by_replay(unreported, settings) == by_trial(unreported, settings)


@pytest.mark.thorough
@pytest.mark.skipif(not CONVERSATIONS.exists(), reason="no conversations at hand")
@pytest.mark.parametrize("settings", SETTINGS_CASES[:2])
def test_it_agrees_with_a_replay_of_real_conversations(settings: ReplaySettings) -> None:
    for session in itertools.islice(read_sessions([CONVERSATIONS]), 0, None, 3):
        if sum(1 for _ in session.requests()) * 2 <= LONGEST:
            assert by_replay(session, settings) == by_trial(session, settings), session.name


def say_in_messages(turns: int, most: int = 13) -> RecordedConversation:
    """Return a conversation in Anthropic's form, with 1, 2, 3, ... calls in a turn, up to most."""
    messages: list[ChatMessage] = [{"role": "user", "content": "go " * 600}]
    for number in range(1, turns + 1):
        ids = [f"{number}_{each}" for each in range(1 + number % most)]
        uses = [{"type": "tool_use", "id": each, "name": "sh", "input": {}} for each in ids]
        results = [
            {
                "type": "tool_result",
                "tool_use_id": each,
                "content": f"{each} {OLD * 5}",
                "is_error": place % 4 == 3,
            }
            for place, each in enumerate(ids)
        ]
        messages += [{"role": "assistant", "content": uses}, {"role": "user", "content": results}]
    form = detect_form({"messages": messages}, "here")
    return RecordedConversation(
        name="a", place="here", messages=tuple(messages), form=form, model="claude-opus-4-8",
        head={"system": "Be brief. " * 900},
    )  # fmt: skip


def mark_more_and_more(request: Request) -> Request:
    """Mark a request as one that changes its mind: not at all, for five minutes, for an hour."""
    kind = len(request["messages"]) // 8 % 3
    marks = (lambda request: request, mark_as_claude_code, mark_for_an_hour)
    return marks[kind](request)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "marker",
    [
        *(pytest.param(marker, id=client) for client, marker in MARKERS.items()),
        pytest.param(mark_nothing, id="no mark"),
        pytest.param(mark_for_an_hour, id="an hour"),
        pytest.param(mark_more_and_more, id="other marks at every eighth message"),
    ],
)
@pytest.mark.parametrize("settings", [SETTINGS_CASES[0], SETTINGS_CASES[2]])
@pytest.mark.parametrize("host", [None, "api.anthropic.com"])
def test_it_agrees_with_a_replay_where_a_cache_is_read_at_marks(
    marker: Marker, settings: ReplaySettings, host: str | None
) -> None:
    session = MarkedSession(say_in_messages(26), marker, host)
    assert by_replay(session, settings) == by_trial(session, settings)


@pytest.mark.thorough
def test_it_agrees_with_a_replay_where_a_cache_is_read_at_the_ends_of_requests() -> None:
    session = MarkedSession(grow(work(90, 1_500)), mark_nothing, "api.openai.com", "gpt-5.6")
    settings = ReplaySettings(strategies=Strategies(schema1=SHIPPED))
    assert by_replay(session, settings) == by_trial(session, settings)


def test_it_agrees_with_a_replay_where_long_prompts_are_dearer(tmp_path: Path) -> None:
    model = {"id": "m", "match": {"contains": ""}, "input": 2, "cache_read": 0.2}
    shop = {"id": "s", "name": "S", "api_pattern": "x", "model_match": {"contains": ""}}
    for name, steps in (("flat", []), ("stepped", [[2_000, 4], [6_000, 10]])):
        listed = {"date": "2026-01-31", "source": "", "providers": [
            shop | {"models": [model | {"steps": steps}]}
        ]}  # fmt: skip
        (tmp_path / name).write_text(json.dumps(listed))
    session = grow(work(30))
    flat, stepped = (
        ReplaySettings(
            strategies=Strategies(schema1=SHIPPED),
            price_settings=PriceSettings(price_list=str(tmp_path / name)),
        )
        for name in ("flat", "stepped")
    )
    assert by_replay(session, stepped) == by_trial(session, stepped)
    before, after = (
        FastReplay(index_session(session, settings, COUNTER), COUNTER).plain
        for settings in (flat, stepped)
    )
    factors = {round(now.cost / then.cost, 9) for then, now in zip(before, after, strict=True)}
    assert {1, 2, 5} == factors
    assert [pytest.approx(each.cost * 2 / 1e6) for each in after] == [
        each.dollars for each in after
    ]


# Sessions that do not simply grow

LONG = work(12)
TOOLS = [[{"type": "function", "function": {"name": name}}] for name in ("read", "write")]
NOTE: ChatMessage = {"role": "user", "content": "Stop. Do something else. " * 40}
ASKS: ChatMessage = {"role": "user", "content": "Provide a summary of the conversation."}


def cut(*lengths: int) -> list[bytes]:
    return [write_body(LONG[:length]) for length in lengths]


def with_tools(*pairs: tuple[int, int]) -> list[bytes]:
    return [write_body(LONG[:length], tools=TOOLS[which]) for length, which in pairs]


OTHER = [{"role": "system", "content": "Be verbose. " * 300}, *LONG[1:]]


@as_one_test
@pytest.mark.parametrize(
    "bodies",
    [
        pytest.param([], id="no request"),
        pytest.param(
            cut(3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25), id="a conversation that grows"
        ),
        pytest.param(cut(9, 9, 11, 11, 11, 13), id="retries"),
        pytest.param(cut(13, 9, 11, 13, 15), id="history taken back"),
        pytest.param([*cut(15, 17), b"no JSON", b"[]", b'{"messages": 3}', *cut(19)], id="junk"),
        pytest.param(
            [*cut(15, 17), write_body([LONG[0], NOTE]), write_body([LONG[0], NOTE, *LONG[1:20]])],
            id="a history made compact",
        ),
        pytest.param(
            [
                body
                for at in range(5, 25, 4)
                for body in (write_body(LONG[:at]), write_body(OTHER[:at]))
            ],
            id="two conversations side by side",
        ),
        pytest.param(
            [*cut(15, 17), write_body([*LONG[:19], NOTE]), *cut(19, 21)], id="a cancelled request"
        ),
        pytest.param(
            [
                *cut(15, 17),
                write_body([*LONG[:17], ASKS]),
                *cut(19, 21),
                write_body([LONG[0], *LONG[3:19], ASKS]),
            ],
            id="requests for a summary",
        ),
        pytest.param(
            with_tools((9, 0), (11, 0), (13, 1), (15, 1), (17, 0), (19, 0), (25, 0)),
            id="tools that change",
        ),
        pytest.param(
            [
                write_body(LONG[:at], model=model)
                for at in (9, 11, 15)
                for model in ("a", "b", None)
            ],
            id="models that change",
        ),
        pytest.param(
            [write_body([]), write_body([]), write_body([None, 3, *LONG[:9]])], id="odd messages"
        ),
    ],
)
@pytest.mark.parametrize("slides", [False, True], ids=["priced", "sliding"])
def test_it_agrees_where_a_session_does_not_simply_grow(bodies: list[bytes], slides: bool) -> None:
    chosen = policy(MASK_ALL, window_turns=2, max_loss=1.0)
    settings = ReplaySettings(
        strategies=Strategies(schema1=chosen),
        price_settings=PriceSettings((0.5, 1.0)),
        slides=slides,
    )
    session = Talk(tuple(bodies))
    assert by_replay(session, settings) == by_trial(session, settings)


def test_a_request_for_a_summary_is_sent_whole_and_the_next_one_is_not() -> None:
    bodies = [*cut(15, 17), write_body([*LONG[:17], ASKS]), *cut(19)]
    settings = ReplaySettings(
        strategies=Strategies(schema1=policy(MASK_ALL, window_turns=2)), slides=True
    )
    masked = [each.masked for each in replay_fast(Talk(tuple(bodies)), settings).requests]
    assert [5, 6, 0, 7] == masked


@st.composite
def sessions(draw: st.DrawFn) -> Talk:
    """One or two conversations, sent in pieces of any length, long enough for a cache."""
    talks = draw(st.lists(conversations(), min_size=1, max_size=2))
    whole = [[{"role": "system", "content": f"{n} " * 400}, *talk] for n, talk in enumerate(talks)]
    sends = st.tuples(
        st.integers(0, len(whole) - 1),
        st.floats(0, 1),
        st.sampled_from([None, None, None, *TOOLS]),
        st.sampled_from(["deepseek-chat"] * 4 + ["claude-opus-4-5", None]),
    )
    sent = draw(st.lists(sends, min_size=1, max_size=8))
    if draw(st.booleans()):
        sent.sort(key=lambda send: send[1])
    return Talk(
        tuple(
            write_body(whole[n][: round(part * len(whole[n]))], tools=tools, model=model)
            for n, part, tools, model in sent
        ),
        tuple(sorted(draw(st.floats(0, 10)) for _ in sent)),
    )


pricings: st.SearchStrategy[CachePricing] = st.sampled_from(
    [(0.5, 1.0), (0.1, 1.25), (0.02, 1.0), "auto", "none"]
)
chosen_policies = st.builds(
    policy,
    policies,
    min_chars=st.sampled_from([0, 0, 100]),
    max_loss=st.sampled_from([0.1, 1.0, 10.0]),
)


@examples(0.7)
@given(sessions(), chosen_policies, pricings, st.sampled_from([None, 0.0, 3.0]), st.booleans())
def test_it_agrees_with_a_replay_of_anything(
    session: Talk, chosen: MaskPolicy, pricing: CachePricing, ttl: float | None, slides: bool
) -> None:
    settings = ReplaySettings(
        strategies=Strategies(schema1=chosen),
        price_settings=PriceSettings(pricing),
        ttl=ttl,
        slides=slides,
    )
    assert by_replay(session, settings) == by_trial(session, settings)


@pytest.mark.parametrize("pricing", ["none", (0.5, 1.0)])
def test_a_result_that_comes_late_is_masked_once_it_was_read(pricing: CachePricing) -> None:
    """The window has left its call behind before it comes, but the model has not read it."""
    messages = work(12, 8_000)
    late = messages.pop(2)
    at = next(n for n, m in enumerate(messages) if m.get("tool_call_id") == "call_6") + 1
    session = grow([*messages[:at], late, *messages[at:]])
    settings = ReplaySettings(
        strategies=Strategies(schema1=policy(SHIPPED, window_turns=2)),
        price_settings=PriceSettings(pricing),
    )
    found = by_trial(session, settings)
    assert by_replay(session, settings) == found
    if pricing == "none":
        # At the request that brings it, one turn leaves the window; at the next, it does, too.
        masked = [each.masked for each in found]
        assert [1, 2] == [masked[7] - masked[6], masked[8] - masked[7]]


def test_one_bench_serves_all_policies() -> None:
    session, settings = (
        grow(LONG),
        ReplaySettings(
            strategies=Strategies(schema1=SHIPPED), price_settings=PriceSettings((0.5, 1.0))
        ),
    )
    fast_replay = FastReplay(index_session(session, settings, COUNTER), COUNTER)
    for window, slides in itertools.product((1, 2, 4), (False, True)):
        other = dataclasses.replace(
            settings,
            strategies=Strategies(schema1=policy(SHIPPED, window_turns=window)),
            slides=slides,
        )
        assert replay_fast(session, other) == fast_replay.replay(other)


def test_what_was_long_unused_is_forgotten() -> None:
    """The long pause comes before the last but one request, which then writes all anew."""
    session = Talk(tuple(cut(9, 11, 13, 15)), (0.0, 60.0, 1_000.0, 1_060.0))
    settings = ReplaySettings(
        strategies=Strategies(schema1=SHIPPED), price_settings=PriceSettings((0.1, 1.0)), ttl=300.0
    )
    assert by_replay(session, settings) == by_trial(session, settings)
    first, second, third, fourth = replay_fast(session, settings).requests
    assert [first.cost, third.cost] == [first.tokens, third.tokens]
    assert max(second.cost, fourth.cost) < first.cost / 2


@dataclass(frozen=True, slots=True)
class Signed:
    """A session with a request between two that cannot be masked."""

    name: str = "signed"

    def requests(self) -> Iterator[RecordedRequest]:
        first, last = Talk(tuple(cut(9, 11))).requests()
        yield from (first, RecordedRequest(body=b"", when=WHEN, passed_over="signed"), last)


def test_what_was_passed_through_is_passed_over() -> None:
    settings = ReplaySettings(
        strategies=Strategies(schema1=SHIPPED), price_settings=PriceSettings((0.5, 1.0))
    )
    assert by_trial(Talk(tuple(cut(9, 11))), settings) == by_trial(Signed(), settings)


def test_a_cache_marker_that_moves_on_changes_nothing() -> None:
    def mark(length: int) -> bytes:
        *others, last = LONG[:length]
        part = {"type": "text", "text": last["content"], "cache_control": {"type": "ephemeral"}}
        return write_body([*others, {**last, "content": [part]}])

    settings = ReplaySettings(
        strategies=Strategies(schema1=policy(SHIPPED, window_turns=2)),
        price_settings=PriceSettings((0.5, 1.0)),
    )
    session = Talk(tuple(mark(length) for length in range(3, 26, 2)))
    assert by_replay(session, settings) == by_trial(session, settings)
    assert 1 == len(index_session(session, settings, COUNTER).segments)
    assert replay_fast(session, settings).requests[-1].masked


def test_a_conversation_goes_on_with_other_tools() -> None:
    bodies = [*with_tools((9, 0), (11, 1), (13, 1)), write_body(OTHER[:5])]
    settings = ReplaySettings(
        strategies=Strategies(schema1=SHIPPED), price_settings=PriceSettings((0.5, 1.0))
    )
    index = index_session(Talk(tuple(bodies)), settings, COUNTER)
    assert [None, 0, None] == [segment.follows for segment in index.segments]
    assert [[0, 1, 2], [3]] == index.conversations


def test_what_was_masked_is_told_from_what_is_named_later() -> None:
    """The last call asks once more for what the first one read."""
    again = [*work(5), LONG[1], LONG[2]]
    billed = replay_fast(
        grow(again),
        ReplaySettings(
            strategies=Strategies(schema1=policy(SHIPPED, window_turns=1)),
            slides=True,
            price_settings=PriceSettings((0.5, 1.0)),
        ),
    )
    assert (6, 1, 0) == (billed.rereads.calls, billed.rereads.repeated, billed.rereads.named)

import dataclasses
import json
import pickle
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from addon.commands.main import main
from addon.replay.files import RecordedConversation, detect_form
from addon.replay.replay import (
    Pause,
    PausedSession,
    RecordedRequest,
    ReplayedRequest,
    ReplaySettings,
    Ruled,
    Session,
    replay,
    replay_side_by_side,
)
from masking import MaskPolicy
from masking.accounting.prompt import measure, read_prompt
from masking.arrival import ArrivalPolicy
from masking.config import Rule
from masking.model import ChatMessage
from masking.prices import CachePricing, PriceSettings
from masking.rewrite import Strategies
from masking.tokens import TokenCounter
from masking.wire.usage import Usage
from tests.support.builders import MASK_ALL, OLD, policies, policy, turn
from tests.support.marking import MarkedSession, mark_as_pi
from tests.support.marks import as_one_test
from tests.support.places import RECORDINGS
from tests.support.priced import at_prices, rewrite_request
from tests.support.read_sessions import read_sessions
from tests.support.replays import compare
from tests.support.talks import grow, work

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
COUNTER = TokenCounter()
OPEN_AI = "api.openai.com"
SHARED = policy(window_turns=4)


@dataclass(frozen=True)
class Recording:
    """A recording in memory: a `Session`."""

    recorded: tuple[RecordedRequest, ...]
    name: str = "a recording"

    def requests(self) -> Iterator[RecordedRequest]:
        yield from self.recorded


def record(
    messages: list[ChatMessage],
    model: object = "gpt-4o",
    host: str | None = OPEN_AI,
    usage: Usage | None = None,
    account: str = "",
) -> RecordedRequest:
    body = json.dumps({"model": model, "messages": messages}).encode()
    return RecordedRequest(body=body, when=NOON, host=host, usage=usage, account=account)


def talk(turns: int, name: str = "go") -> list[ChatMessage]:
    messages: list[ChatMessage] = [{"role": "user", "content": name}]
    for number in range(turns):
        messages += turn(f"call_{number}", OLD * 20 + str(number))
    return messages


LONG = Recording(tuple(record(talk(turns)) for turns in range(20)))
AUTO = ReplaySettings(strategies=Strategies(schema1=SHARED))


def play(session: Session, settings: ReplaySettings = AUTO) -> list[ReplayedRequest]:
    return [*replay(session, settings, COUNTER)]


def test_each_request_is_masked_as_the_addon_would() -> None:
    ratios = at_prices(SHARED, cache_read_ratio=0.5)
    for recorded, request in zip(LONG.recorded, play(LONG), strict=True):
        expected = rewrite_request(recorded.body, ratios)
        prompt = read_prompt(expected, COUNTER)
        assert tuple(d.reason for d in expected.decisions) == request.reasons
        assert measure(expected, prompt) == request.sizes
        assert prompt.tokens_before == request.entry.cost.before.prompt
        assert prompt.tokens_after == request.entry.cost.after.prompt
    assert {"masked", "held", "in_window"} == {*request.reasons}


@as_one_test
@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param(
            ReplaySettings(strategies=Strategies(schema1=SHARED)), (0.5, 1, "price list"), id="auto"
        ),
        pytest.param(
            ReplaySettings(
                strategies=Strategies(schema1=SHARED), price_settings=PriceSettings((0.1, 1.25))
            ),
            (0.1, 1.25, "config"),
            id="given",
        ),
        pytest.param(
            ReplaySettings(
                strategies=Strategies(schema1=SHARED), price_settings=PriceSettings("none")
            ),
            (0.5, 1, "price list"),
            id="none",
        ),
        pytest.param(
            ReplaySettings(strategies=Strategies(schema1=SHARED), model="claude-sonnet-4-20250514"),
            (0.1, 1.25, "price list"),
            id="another model, wherever that is sold",
        ),
        pytest.param(
            ReplaySettings(strategies=Strategies(schema1=SHARED), model="m"),
            (0.1, 1.25, "assumed"),
            id="a model of nobody",
        ),
        pytest.param(
            ReplaySettings(strategies=Strategies(schema1=SHARED), slides=True),
            (0.5, 1, "price list"),
            id="sliding",
        ),
    ],
)
def test_a_request_tells_its_prices(
    settings: ReplaySettings, expected: tuple[float, float, str | None]
) -> None:
    [request] = play(Recording((record(talk(3)),)), settings)
    assert expected == (*request.pricing.ratios, request.pricing.source)
    assert (settings.model or "gpt-4o") == request.model


@pytest.mark.parametrize(
    ("settings", "slides"),
    [
        pytest.param(ReplaySettings(strategies=Strategies(schema1=SHARED)), False, id="auto"),
        pytest.param(
            ReplaySettings(
                strategies=Strategies(schema1=SHARED), price_settings=PriceSettings((0.1, 1.0))
            ),
            False,
            id="given",
        ),
        pytest.param(
            ReplaySettings(
                strategies=Strategies(schema1=SHARED), price_settings=PriceSettings("none")
            ),
            True,
            id="none",
        ),
        pytest.param(
            ReplaySettings(
                strategies=Strategies(schema1=SHARED),
                price_settings=PriceSettings((0.1, 1.0)),
                slides=True,
            ),
            True,
            id="told to",
        ),
        pytest.param(
            ReplaySettings(strategies=Strategies(schema1=SHARED), model="m"),
            False,
            id="no price known",
        ),
    ],
)
def test_the_window_slides_if_it_is_told_to(settings: ReplaySettings, slides: bool) -> None:
    edge = [max(0, turns - 4) for turns in range(20)]
    masked = [request.sizes.masked for request in play(LONG, settings)]
    assert slides == (edge == masked)
    assert all(count <= most for count, most in zip(masked, edge, strict=True))


@pytest.mark.parametrize(
    "arrival",
    [ArrivalPolicy(), ArrivalPolicy(enabled=True, max_chars=300, head_chars=50, tail_chars=50)],
)
@pytest.mark.parametrize("model", [None, "gpt-5"])
def test_side_by_side_is_as_alone(arrival: ArrivalPolicy, model: str | None) -> None:
    strategies = Strategies(schema1=SHARED, arrival=arrival)
    settings = ReplaySettings(strategies=strategies, model=model, remembers=True)
    policies = settings, replace(settings, slides=True), AUTO
    alone = [play(LONG, each) for each in policies]
    assert [*zip(*alone, strict=True)] == [*replay_side_by_side(LONG, policies, COUNTER)]


def test_sliding_under_cheap_cached_tokens_costs_more_than_moving_when_it_pays() -> None:
    cheap = ReplaySettings(
        strategies=Strategies(schema1=SHARED), price_settings=PriceSettings((0.1, 1.0))
    )
    priced, sliding = play(LONG, cheap), play(LONG, dataclasses.replace(cheap, slides=True))
    assert sliding[-1].entry.so_far.tokens.saved < priced[-1].entry.so_far.tokens.saved
    assert [s.entry.cost.before for s in priced] == [s.entry.cost.before for s in sliding]


def test_the_price_is_that_of_the_host_where_one_is_recorded() -> None:
    hosts = (OPEN_AI, "localhost", None)
    session = Recording(tuple(record(talk(1), host=host) for host in hosts))
    sources = [request.pricing.source for request in play(session)]
    assert ["price list", "assumed", "price list"] == sources


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"[]", id="no object"),
        pytest.param(b'{"input": "x"}', id="another API's"),
        pytest.param(b'{"messages": "x"}', id="messages that are no list"),
        pytest.param(b"\xff", id="no text"),
        pytest.param(b'{"messages":' + b"[" * 100_000, id="nested without end"),
    ],
)
def test_a_body_that_is_no_chat_request_is_passed_over(body: bytes) -> None:
    strange = RecordedRequest(body=body, when=NOON)
    session = Recording((strange, *LONG.recorded[:4], strange, *LONG.recorded[4:], strange))
    found = [replace(each, number=at) for at, each in enumerate(play(session), 1)]
    assert play(LONG) == found
    assert [] == play(Recording((strange,)))


@pytest.mark.parametrize("model", [None, 3, ["gpt-4o"], {}], ids=repr)
def test_a_model_that_is_not_a_name_is_unknown(model: object) -> None:
    [request] = play(Recording((record(talk(1), model, usage=Usage(prompt=5_000)),)))
    assert (None, "assumed") == (request.model, request.pricing.source)
    assert 5_000 == request.entry.cost.after.prompt


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        pytest.param(None, "reported", id="the recorded model"),
        pytest.param("gpt-4o", "reported", id="the recorded model, by its name"),
        pytest.param("gpt-5", "simulated", id="another model"),
    ],
)
def test_what_was_reported_counts_for_the_model_that_was_asked(
    model: str | None, expected: str
) -> None:
    recorded = record(talk(3), usage=Usage(prompt=9_000, cached=0))
    [request] = play(
        Recording((recorded,)), ReplaySettings(strategies=Strategies(schema1=SHARED), model=model)
    )
    assert expected == request.entry.cost.basis
    assert (expected == "reported") == (request.entry.cost.before.prompt == 9_000)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(record(talk(2), account="another"), id="another account"),
        pytest.param(record(talk(2), host="localhost"), id="another host"),
        pytest.param(record(talk(2), "gpt-5"), id="another model"),
        pytest.param(record(talk(2, "stop")), id="other messages"),
    ],
)
def test_conversations_are_told_apart(other: RecordedRequest) -> None:
    requests = play(Recording((record(talk(1)), other, record(talk(2)), record(talk(3)))))
    assert [1, 2, 1, 1] == [request.entry.conversation for request in requests]


def test_a_recording_is_taken_for_what_was_sent_before_masking() -> None:
    recorded = [record(talk(n), usage=Usage(prompt=10_000, cached=0)) for n in range(5, 11)]
    requests = play(
        Recording(tuple(recorded)),
        ReplaySettings(strategies=Strategies(schema1=SHARED), price_settings=PriceSettings("none")),
    )
    for request in requests:
        assert 10_000 == request.entry.cost.before.prompt > request.entry.cost.after.prompt
        assert not request.entry.is_frozen


NARROW = Ruled(Strategies(schema1=policy(window_turns=1)), PriceSettings("none"))


@pytest.mark.parametrize(
    ("rule", "is_for_it"),
    [
        pytest.param(Rule(), True, id="all requests"),
        pytest.param(Rule(host="*.openai.com", model="gpt-*"), True, id="host and model"),
        pytest.param(Rule(model="claude-*"), False, id="another model"),
        pytest.param(Rule(path="/v1/*", client="codex"), True, id="path and client"),
        pytest.param(Rule(client="qwen"), False, id="another client"),
        pytest.param(Rule(headers=(("x-team", "blue*"),)), True, id="a header"),
        pytest.param(Rule(headers=(("x-team", "red*"),)), False, id="another header"),
    ],
)
def test_a_rule_holds_for_the_requests_it_is_for(rule: Rule, is_for_it: bool) -> None:
    path, headers = "/v1/chat/completions", {"x-team": "blue 7"}
    session = Recording(
        tuple(
            dataclasses.replace(each, path=path, client="codex", headers=headers)
            for each in LONG.recorded
        )
    )
    ruled = dataclasses.replace(AUTO, rules=((rule, NARROW),))
    narrow = ReplaySettings(
        strategies=Strategies(schema1=NARROW.strategies.schema1),
        price_settings=NARROW.price_settings,
    )
    assert play(session, narrow) != play(session)
    assert play(session, narrow if is_for_it else AUTO) == play(session, ruled)


def test_a_rule_for_a_model_is_for_the_recorded_one() -> None:
    rules = ((Rule(model="gpt-4o"), NARROW),)
    asked = dataclasses.replace(AUTO, model="gpt-5")
    masked = [
        sum(each.reasons.count("masked") for each in play(LONG, settings))
        for settings in (asked, dataclasses.replace(asked, rules=rules))
    ]
    assert masked[0] < masked[1]


@st.composite
def sessions(draw: st.DrawFn) -> Recording:
    counts = st.none() | st.integers(0, 9_000)
    return Recording(
        tuple(
            record(
                talk(draw(st.integers(0, 5)), draw(st.sampled_from(["go", "stop"]))),
                usage=Usage(prompt=draw(counts), cached=draw(counts)),
            )
            for _ in range(draw(st.integers(0, 6)))
        )
    )


pricings: st.SearchStrategy[CachePricing] = st.sampled_from(["none", "auto", (0.1, 1.25)])
replay_settings = st.builds(
    ReplaySettings,
    strategies=st.builds(Strategies, schema1=policies),
    price_settings=st.builds(PriceSettings, pricings),
    model=st.sampled_from([None, "gpt-5", "m"]),
    slides=st.booleans(),
)


@given(sessions(), replay_settings)
def test_a_session_replayed_twice_gives_the_same(
    session: Recording, settings: ReplaySettings
) -> None:
    requests = play(session, settings)
    assert requests == play(
        pickle.loads(pickle.dumps(session)), pickle.loads(pickle.dumps(settings))
    )
    assert requests == pickle.loads(pickle.dumps(requests))
    assert len(session.recorded) == len(requests)


@given(sessions(), replay_settings)
def test_a_comparison_has_every_request_once_under_each_policy(
    session: Recording, settings: ReplaySettings
) -> None:
    found = compare(session, settings, COUNTER)
    assert len(session.recorded) == sum(len(each.chosen) for each in found)
    for each in found:
        assert settings.policy.window_turns == each.window_turns
        assert len(each.chosen) == len(each.sliding)
        assert [s.entry.cost.before for s in each.chosen] == [
            s.entry.cost.before for s in each.sliding
        ]


def test_a_comparison_numbers_conversations_where_there_are_several() -> None:
    one, two = record(talk(1)), record(talk(1, "stop"))
    alone, several = Recording((one, record(talk(2)))), Recording((one, two, record(talk(2))))
    assert ["a recording"] == [each.name for each in compare(alone, AUTO, COUNTER)]
    found = compare(several, AUTO, COUNTER)
    assert [("a recording #1", 2), ("a recording #2", 1)] == [
        (each.name, len(each.chosen)) for each in found
    ]
    assert [] == compare(Recording(()), AUTO, COUNTER)


def test_a_comparison_slides_beside_what_was_chosen() -> None:
    [found] = compare(
        LONG,
        ReplaySettings(
            strategies=Strategies(schema1=SHARED), price_settings=PriceSettings((0.1, 1.0))
        ),
        COUNTER,
    )
    assert [max(0, turns - 4) for turns in range(20)] == [s.sizes.masked for s in found.sliding]
    assert found.sliding[-1].sizes.masked > found.chosen[-1].sizes.masked
    assert {(0.1, 1.0)} == {request.pricing.ratios for request in (*found.chosen, *found.sliding)}


def test_at_a_host_that_is_not_listed_the_makers_prices_are_assumed() -> None:
    [request] = play(
        Recording((record(talk(1), host="localhost"),)),
        ReplaySettings(strategies=Strategies(schema1=MASK_ALL)),
    )
    bill = request.entry.bill
    assert ((0.5, 1.0), "OpenAI") == (request.pricing.ratios, request.pricing.borrowed_from)
    assert pytest.approx(bill.tokens.before * 2.5e-6) == bill.dollars.before


def say_in_messages(turns: int, most: int) -> RecordedConversation:
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


def test_after_a_move_only_what_is_marked_before_the_messages_is_cached() -> None:
    session = MarkedSession(say_in_messages(40, 3), mark_as_pi)
    shipped = MaskPolicy(True, 8, skip_if_not_shorter=True)
    requests = [*replay(session, ReplaySettings(strategies=Strategies(schema1=shipped)), COUNTER)]
    moves = [at for at, request in enumerate(requests) if request.entry.move is not None]
    assert moves
    head = requests[moves[0]].entry.cost.after.cached
    for before, (at, request) in zip(requests, enumerate(requests[1:], 1), strict=False):
        last, sent = before.entry.cost.after, request.entry.cost.after
        assert sent.cached == (head if at in moves else last.prompt)
        rest = sent.prompt - sent.cached
        assert pytest.approx(0.1 * sent.cached + 1.25 * rest) == sent.cost
    assert 0 < head < requests[0].entry.cost.after.prompt


# Pauses in a replay: what a memory makes of them.


RECORDING = RECORDINGS / "openai-scratch.flow"
SESSION = grow(work(30, 6_000))
SETTINGS = ReplaySettings(
    strategies=Strategies(schema1=MaskPolicy(True, 4, skip_if_not_shorter=True, max_loss=1.0)),
    price_settings=PriceSettings((0.02, 1.0)),
    ttl=300.0,
    remembers=True,
)


def bill(settings: ReplaySettings, pause: Pause, session: Session = SESSION) -> float:
    requests = replay(PausedSession(session, pause), settings, TokenCounter())
    return sum(request.entry.cost.after.cost for request in requests)


def test_requests_come_later_by_the_pauses_before_them() -> None:
    paused = PausedSession(SESSION, Pause(3, 600.0))
    times = [
        (r.when, was.when) for r, was in zip(paused.requests(), SESSION.requests(), strict=True)
    ]
    assert paused.name == SESSION.name
    late = [(now - then).total_seconds() for now, then in times]
    assert [0, 0, 0, 600, 600, 600, 1_200] == late[:7]


def test_after_a_pause_a_memory_saves_money() -> None:
    pause = Pause(8, 600.0)
    assert bill(SETTINGS, pause) < 0.9 * bill(replace(SETTINGS, remembers=False), pause)


@pytest.mark.parametrize("pause", [Pause(8, 200.0), Pause(8, 0.0)], ids=["a short one", "none"])
def test_without_a_long_one_it_changes_nothing(pause: Pause) -> None:
    assert bill(SETTINGS, pause) == bill(replace(SETTINGS, remembers=False), pause)


def test_where_nothing_is_masked_there_is_nothing_to_remember() -> None:
    off = replace(SETTINGS, strategies=Strategies(schema1=MaskPolicy()))
    assert bill(off, Pause(8, 600.0)) == bill(replace(off, remembers=False), Pause(8, 600.0))


def test_what_was_reported_without_the_pauses_is_simulated_with_them() -> None:
    [session] = read_sessions([RECORDING])
    assert all(recorded.usage for recorded in session.requests())
    off = replace(SETTINGS, strategies=Strategies(schema1=MaskPolicy()))
    assert bill(off, Pause(5, 600.0), session) > 1.2 * bill(off, Pause(5, 0.0), session)


def test_the_command_takes_pauses(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--prices", "0.1,1", "--cache-ttl", "300", "--pause", "5,600", "--memory"]
    assert 0 == main(["replay", str(RECORDING), *options])
    assert "openai-scratch" in capsys.readouterr().out


@pytest.mark.parametrize("pause", ["", "5", "x,600", "0,600", "5,-1", "5,nan", "5,inf", "5,1e9"])
def test_it_refuses_what_is_no_pause(pause: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert 2 == main(["replay", str(RECORDING), f"--pause={pause}"])
    assert "expected N" in capsys.readouterr().err


@pytest.mark.parametrize("ttl", ["-1", "nan", "x"])
def test_it_refuses_what_is_no_time_to_live(ttl: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert 2 == main(["replay", str(RECORDING), f"--cache-ttl={ttl}"])
    assert "--cache-ttl" in capsys.readouterr().err

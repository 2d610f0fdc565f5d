"""A conversation of a log as requests: what it costs, and what is reckoned of what it lacks."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from addon.replay.logs import find_kind, find_logs
from addon.replay.logs.log import LoggedConversation, LoggedRequest
from addon.replay.logs.session import Account, LogSession, TokenFit, fit
from addon.replay.replay import ReplaySettings, replay
from addon.replay.totals import compare_requests
from masking.prices import PriceSettings, Pricing, find_pricing
from masking.request_cache import RequestCache
from masking.rewrite import Strategies
from masking.tokens import TokenCounter
from masking.window import MaskPolicy
from masking.wire import CHAT, MESSAGES, RESPONSES, Usage, WireFormat
from tests.support.made_logs import MadeSession, write_claude_code

COUNTER = TokenCounter()
SETTINGS = ReplaySettings(
    strategies=Strategies(schema1=MaskPolicy(enabled=True)), price_settings=PriceSettings("auto")
)
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
HOST = "api.anthropic.com"
SONNET, OPUS = "claude-sonnet-4-5-20250929", "claude-opus-4-5-20251101"


@dataclass(frozen=True)
class Made:
    """A conversation of an agent that nobody has: requests with what the provider reported."""

    requests: tuple[LoggedRequest, ...]

    def session(self, wire: WireFormat = MESSAGES, host: str = HOST) -> LogSession:
        conversation = LoggedConversation(
            agent="made-up", name="a session", project=None, host=host, wire=wire,
            requests=self._yield, path="/v1/messages" if wire is MESSAGES else "",
        )  # fmt: skip
        return LogSession(conversation, COUNTER)

    def _yield(self) -> Iterator[LoggedRequest]:
        return iter(self.requests)


def turn(number: int, chars: int = 4_000) -> list[dict[str, object]]:
    call = {"type": "tool_use", "id": f"t{number}", "name": "Read", "input": {"path": f"f{number}"}}
    text = f"line {number} of what was read\n" * (chars // 28)
    result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": text}
    return [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]


def converse(
    turns: int,
    *,
    hidden: int = 12_000,
    scale: float = 1.2,
    models: Sequence[str] = (SONNET,),
    compacted_at: Sequence[int] = (),
    long: bool = False,
    chars: int = 4_000,
) -> Made:
    """Return a conversation whose provider counts `scale` for each token, and `hidden` besides."""
    items: list[dict[str, object]] = [{"role": "user", "content": "Mend it."}]
    requests, cached = [], 0
    counted, is_counted = 0, 0  # the tokens of so many items
    for number in range(turns):
        if number in compacted_at:
            items, cached = [{"role": "user", "content": "What was done so far: this."}], 0
            counted, is_counted = 0, 0
        counted += sum(COUNTER.count(str(item["content"])) for item in items[is_counted:])
        is_counted = len(items)
        prompt = round(hidden + scale * counted)
        written = prompt - cached - 2
        usage = Usage(
            prompt=prompt,
            cached=cached,
            written=written,
            written_long=written if long else None,
            completion=300,
        )
        model = models[number * len(models) // turns]
        when = NOON + timedelta(seconds=15 * number)
        requests.append(LoggedRequest(items=[*items], when=when, model=model, usage=usage))
        changes = number + 1 < turns and models[(number + 1) * len(models) // turns] != model
        cached = 0 if changes else prompt - 2
        items += turn(number, chars)
    return Made(tuple(requests))


def bill(usage: Usage, model: str | None) -> float:
    """Return what a request cost by its usage alone, in dollars."""
    pricing: Pricing = find_pricing(PriceSettings("auto"), HOST, model)
    prompt, cached = usage.prompt or 0, usage.cached or 0
    written, long = usage.written or 0, usage.written_long or 0
    plain = prompt - cached - written
    tokens = plain + 0.1 * cached + 1.25 * (written - long) + 2.0 * long
    factor = 2.0 if prompt > 200_000 and "sonnet-4" in str(model) else 1.0
    return tokens * factor * (pricing.dollars_per_million or 0.0) / 1e6


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(converse(40), id="one model"),
        pytest.param(converse(1), id="one request"),
        pytest.param(converse(40, models=(SONNET, OPUS)), id="models that change"),
        pytest.param(converse(40, compacted_at=(15, 30)), id="compacted"),
        pytest.param(converse(30, long=True), id="written for an hour"),
        pytest.param(converse(40, hidden=150_000, chars=12_000), id="beyond a price step"),
    ],
)
def test_what_a_session_cost_is_what_its_own_usage_comes_to(made: Made) -> None:
    session = made.session()
    found = [
        request.entry.bill.dollars.before
        for request in replay(session, SETTINGS, COUNTER)
        if request.entry.bill.is_in_dollars
    ]
    expected = [bill(each.usage, each.model) for each in made.requests if each.usage is not None]
    assert len(expected) == len(found)
    assert pytest.approx(sum(expected), rel=0.02) == sum(found)
    assert session.cost_only is None


@pytest.mark.parametrize(
    ("hidden", "scale"), [(0, 1.0), (12_000, 1.0), (20_000, 1.35), (3_000, 0.8)]
)
def test_what_the_log_does_not_hold_is_found_from_what_was_reported(
    hidden: int, scale: float
) -> None:
    session = converse(40, hidden=hidden, scale=scale).session()
    [found] = session.fits.values()
    assert pytest.approx(scale, rel=0.05) == found.scale
    assert abs(hidden - found.hidden) < 400
    assert session.difference is not None
    assert session.difference < 0.01


def test_each_model_has_its_own_tokenizer() -> None:
    some = converse(20, scale=1.0).requests
    others = converse(20, scale=1.5, models=(OPUS,)).requests
    session = Made((*some, *others)).session()
    assert {SONNET: 1.0, OPUS: 1.5} == {
        model: round(each.scale, 1) for (_, model), each in session.fits.items()
    }


def test_what_is_hidden_stands_before_the_list() -> None:
    session = converse(30, hidden=12_000, scale=1.2).session()
    *_, last = session.requests()
    conversation = last.read(RequestCache())
    assert conversation.head.size is not None
    assert pytest.approx(10_000, rel=0.05) == conversation.head.size.total
    assert conversation.head.size.total == conversation.head.size.marked
    assert conversation.marks.are_there
    assert SONNET == conversation.model


def test_a_session_that_was_never_cached_has_no_marks() -> None:
    bare = tuple(
        LoggedRequest(
            items=each.items, when=each.when, model=each.model,
            usage=Usage(prompt=each.usage.prompt if each.usage else 0, cached=0, written=0),
        )
        for each in converse(5).requests
    )  # fmt: skip
    requests = [*Made(bare).session().requests()]
    assert not any(each.read(RequestCache()).marks.are_there for each in requests)


def test_where_log_and_provider_differ_nothing_is_said_of_the_saving() -> None:
    """The provider counts a picture, say, that the log does not hold, at every other request."""
    requests = []
    for number, each in enumerate(converse(30).requests):
        assert each.usage is not None
        prompt = (each.usage.prompt or 0) + (40_000 if number % 3 == 0 else 0)
        requests.append(
            LoggedRequest(
                items=each.items, when=each.when, model=f"m{number % 2}",
                usage=Usage(prompt=prompt, cached=each.usage.cached),
            )
        )  # fmt: skip
    session = Made(tuple(requests)).session()
    assert session.difference is not None
    assert session.difference > 0.1
    assert "differs" == session.cost_only


def test_a_session_whose_prompts_were_shortened_is_known() -> None:
    """As behind obsmask: the log has every result, and what the provider counted drops."""
    requests = []
    for number, each in enumerate(converse(40).requests):
        assert each.usage is not None
        prompt = (each.usage.prompt or 0) - 15_000 * (number // 15)
        usage = Usage(prompt=prompt, cached=0)
        requests.append(LoggedRequest(items=each.items, when=each.when, model=SONNET, usage=usage))
    assert "shortened" == Made(tuple(requests)).session().cost_only


def test_without_usage_the_texts_count() -> None:
    requests = tuple(
        LoggedRequest(items=each.items, when=each.when, model=SONNET, usage=None)
        for each in converse(20).requests
    )
    session = Made(requests).session()
    assert ({}, None, None) == (session.fits, session.difference, session.cost_only)
    outcomes = [*replay(session, SETTINGS, COUNTER)]
    assert {"simulated"} == {each.entry.cost.basis for each in outcomes}


def test_elements_that_requests_share_are_read_once() -> None:
    requests = [each.read(RequestCache()) for each in converse(20).session().requests()]
    for one, other in pairwise(requests):
        assert all(a is b for a, b in zip(one.parsed, other.parsed, strict=False))


def test_a_long_session_saves_and_a_short_one_does_not() -> None:
    def saved(turns: int) -> float:
        compared = compare_requests(converse(turns).session(), SETTINGS, COUNTER)
        costs = [each.chosen.entry.cost for each in compared]
        return 1 - sum(cost.after.cost for cost in costs) / sum(cost.before.cost for cost in costs)

    assert saved(150) > 0.3
    assert abs(saved(8)) < 0.02


@pytest.mark.parametrize(("account", "masks"), [("old", True), ("new", False), (None, False)])
def test_a_model_that_binds_its_thinking_depends_on_the_account(
    account: Account | None, masks: bool
) -> None:
    requests = []
    thought = {"type": "thinking", "thinking": "So it is.", "signature": "c2ln"}
    for each in converse(60, models=("claude-opus-5-5",)).requests:
        items = [
            {**item, "content": [thought, *content]}
            if item["role"] == "assistant" and isinstance(content := item["content"], list)
            else item
            for item in each.items
        ]
        requests.append(
            LoggedRequest(items=items, when=each.when, model=each.model, usage=each.usage)
        )
    session = Made(tuple(requests)).session()
    assert session.depends_on_account
    session.account = account
    outcomes = [*replay(session, SETTINGS, COUNTER)]
    assert masks is bool(outcomes[-1].sizes.masked)


def test_chat_completions_are_rebuilt_alike() -> None:
    items: list[dict[str, object]] = [{"role": "user", "content": "Mend it."}]
    requests = []
    for number in range(12):
        requests.append(LoggedRequest(items=[*items], when=NOON, model="gpt-4o", usage=None))
        call = {"id": f"c{number}", "type": "function",
                "function": {"name": "read", "arguments": "{}"}}  # fmt: skip
        items.append({"role": "assistant", "content": None, "tool_calls": [call]})
        items.append({"role": "tool", "tool_call_id": f"c{number}", "content": "line\n" * 900})
    session = Made(tuple(requests)).session(wire=CHAT, host="api.openai.com")
    outcomes = [*replay(session, SETTINGS, COUNTER)]
    assert 11 == outcomes[-1].sizes.tool_results


def test_a_line_through_few_requests_is_bounded() -> None:
    assert TokenFit(5_000, 1.0) == fit([(1_000, 6_000)])
    assert TokenFit(0.0, 0.6) == fit([(1_000 * n, 100 * n) for n in range(1, 9)])


def test_what_is_hidden_may_change_where_a_session_was_compacted_or_resumed() -> None:
    first = converse(20, hidden=10_000).requests
    compacted = converse(15, hidden=30_000).requests
    resumed = converse(30, hidden=20_000).requests[16:]
    later = [replace(each, when=each.when + timedelta(hours=9)) for each in resumed]
    session = Made((*first, *compacted, *later)).session()
    found = [round(each.hidden, -3) for each in session.fits.values()]
    assert [10_000, 30_000, 20_000] == found
    assert session.cost_only is None
    assert session.difference is not None
    assert session.difference < 0.01


def test_reasoning_from_before_the_user_spoke_last_is_not_billed() -> None:
    items: list[dict[str, object]] = []
    requests = []
    for question in range(3):
        items.append({"type": "message", "role": "user", "content": f"Question {question}?"})
        for number in range(12):
            counted = sum(
                700 if item["type"] == "reasoning" else COUNTER.count(str(item.get("output", "")))
                for at, item in enumerate(items)
                if item["type"] != "reasoning" or at > 37 * question
            )
            usage = Usage(prompt=9_000 + counted, cached=0, completion=100)
            requests.append(LoggedRequest(items=[*items], when=NOON, model="gpt-5.1", usage=usage))
            call = f"c{question}-{number}"
            items.append({"type": "reasoning", "encrypted_content": "gAAAAB" * 900})
            items.append(
                {"type": "function_call", "call_id": call, "name": "sh", "arguments": "{}"}
            )
            items.append(
                {"type": "function_call_output", "call_id": call, "output": "a line\n" * 90}
            )
    session = Made(tuple(requests)).session(wire=RESPONSES, host="api.openai.com")
    prompts = [each.usage.prompt or 0 for each in requests if each.usage]
    assert any(after < 0.9 * before for before, after in pairwise(prompts))
    assert session.cost_only is None


def test_a_written_log_is_found_and_read(tmp_path: Path) -> None:
    path = write_claude_code(tmp_path, MadeSession(turns=30, hidden=9_000))
    [found] = find_logs(tmp_path)
    assert [path] == [log.path for log in found.logs]
    [conversation] = find_kind(found.agent).read(found.logs[0])
    session = LogSession(conversation, COUNTER)
    assert 31 == sum(1 for _ in session.requests())
    assert session.cost_only is None
    assert pytest.approx(9_000, abs=300) == session.fits[0, SONNET].hidden

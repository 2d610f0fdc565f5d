"""Old results that the provider clears, because a masked one would be refused, before a provider.

The provider clears as Anthropic documents it, counts what that takes out, and vouches for what was
sent; it may refuse, or clear nothing.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.harness import Upstream, encoded, running_addon, running_upstream
from tests.live.scripted_sessions import ANSWER, TURNS
from tests.live.test_bound_accounts_live import (
    ALWAYS,
    FIRST_MOVE,
    MODEL,
    NEW,
    OLD,
    REPLIES,
    TRY,
    Agent,
    records_of,
    tries,
)
from tests.live.test_messages_live import ask
from tests.tools.provider.messages import CLEARING_BETA, edit
from tests.tools.provider.script import Received

CLEARS = TRY.replace(b"schema1]", b"schema1]\nprovider_clearing = true")


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Upstream]:
    with running_upstream(tmp_path_factory.mktemp("clearing"), REPLIES) as running:
        yield running


@pytest.fixture(autouse=True)
def fresh(strict: Upstream) -> None:
    provider = strict.provider
    provider.refusals.clear()
    provider.requests.clear()
    provider.least_cleared, provider.refuses_clearing = 0, False


def edits_of(received: Received) -> list[dict[str, Any]]:
    managed = received.request.get("context_management") or {}
    return [each for each in managed.get("edits", ()) if "clear_tool_uses" in each["type"]]


def asks(received: Received) -> bool:
    return bool(edits_of(received))


def test_what_may_not_be_masked_is_cleared_where_our_boundary_stands(
    strict: Upstream, tmp_path: Path
) -> None:
    agent = Agent(NEW, ALWAYS)
    with running_addon(tmp_path, strict, config=CLEARS) as live:
        agent.finish(live)
    assert ([], 0, ANSWER) == (strict.provider.refusals, agent.refusals, agent.end)
    records, requests = records_of(tmp_path, TURNS + 1), strict.provider.requests
    for record, received in zip(records, requests, strict=True):
        # It is cleared what the record says, and all else is as the agent wrote it.
        applied = edit(received).applied or [{"cleared_tool_uses": 0}]
        assert (record["masked"] or 0) == applied[0]["cleared_tool_uses"]
        assert record["cleared_tool_uses"] in (None, record["masked"])
        assert (record["clearing"] == "asked") == asks(received)
        assert asks(received) == (CLEARING_BETA in received.header("anthropic-beta"))
        sent = {**received.request}
        sent.pop("context_management", None)
        shown = len(received.request["messages"])
        assert sent == ask(agent.items[:shown], model=ALWAYS, stream=True)
    assert TURNS - 2 == records[-1]["masked"]
    assert [[TURNS - 2, "cleared"], [2, "in_window"]] == records[-1]["result_reasons"]
    assert records[-1]["cost_tokens_after"] < records[-1]["cost_tokens_before"]


def test_an_account_that_takes_masked_texts_gets_them_and_no_other_is_tried(
    strict: Upstream, tmp_path: Path
) -> None:
    with running_addon(tmp_path, strict, config=TRY) as live:
        Agent(OLD, task="1").take_some(live, FIRST_MOVE + 1)
    assert [(MODEL, "takes")] == tries(tmp_path, FIRST_MOVE + 1)
    before = len(strict.provider.requests)
    with running_addon(tmp_path, strict, config=CLEARS) as live:
        Agent(OLD, task="2").take_some(live, 6)
        Agent(NEW, task="3").take_some(live, 6)
    old, new = (strict.provider.requests[before + n :][:6] for n in (0, 6))
    assert [] == strict.provider.refusals
    assert not any(map(asks, old))
    assert re.search(rb"<\S+ shell \d+>", old[-1].body)
    assert asks(new[-1])
    assert not re.search(rb"<\S+ shell \d+>", new[-1].body)
    assert [(MODEL, "takes")] == tries(tmp_path, FIRST_MOVE + 13)


def test_a_refusal_is_never_seen_and_ends_it_for_the_conversation(
    strict: Upstream, tmp_path: Path
) -> None:
    strict.provider.refuses_clearing = True
    agent, other = Agent(NEW, ALWAYS), Agent(NEW, ALWAYS, task="Another.")
    with running_addon(tmp_path, strict, config=CLEARS) as live:
        agent.finish(live)
        strict.provider.refuses_clearing = False
        other.finish(live)
    assert (1, 0, 0) == (len(strict.provider.refusals), agent.refusals, other.refusals)
    records = records_of(tmp_path, 2 * (TURNS + 1))
    one, two = records[: TURNS + 1], records[TURNS + 1 :]
    assert [(200, "accepted", 0)] == [
        (each["status"], each["resent"], each["masked"]) for each in one if each["clearing"]
    ]
    assert TURNS - 2 == two[-1]["masked"]
    refused = next(n for n, each in enumerate(strict.provider.requests) if asks(each))
    own = strict.provider.requests[refused + 1]
    assert CLEARING_BETA not in own.header("anthropic-beta")
    assert "context_management" not in own.request
    assert not any(map(asks, strict.provider.requests[refused + 1 : TURNS + 2]))
    assert 1 == live.proxy.log.count("refused to clear older tool results")


def test_a_provider_that_clears_nothing_is_soon_asked_no_more_and_billed_as_it_is(
    strict: Upstream, tmp_path: Path
) -> None:
    strict.provider.least_cleared = 1_000_000
    agent = Agent(NEW, ALWAYS)
    with running_addon(tmp_path, strict, config=CLEARS) as live:
        for count in range(1, TURNS + 2):
            agent.take(live)
            records = records_of(tmp_path, count)  # what is learned comes with them
    assert ([], ANSWER) == (strict.provider.refusals, agent.end)
    asked = [each for each in records if each["clearing"] == "asked"]
    assert 2 <= len(asked) == sum(map(asks, strict.provider.requests)) < TURNS / 2
    assert {0} == {each["cleared_tool_uses"] for each in asked}
    for each in asked:
        assert (0, each["request_tokens_before"]) == (each["masked"], each["request_tokens_after"])
        assert each["cost_tokens_before"] == each["cost_tokens_after"]
        assert each["kept"]["bound"] > 0
    assert 1 == live.proxy.log.count("has cleared nothing")


def test_a_boundary_holds_over_a_restart_and_a_count_is_of_what_is_left(
    strict: Upstream, tmp_path: Path
) -> None:
    agent = Agent(NEW, ALWAYS)
    with running_addon(tmp_path, strict, config=CLEARS) as live:
        agent.take_some(live, 6)
    with running_addon(tmp_path, strict, config=CLEARS) as live:
        url = f"https://localhost:{live.upstream.provider.port}/v1/messages/count_tokens"
        body = encoded(ask(agent.items, model=ALWAYS))
        headers = {"host": "api.anthropic.com", "x-api-key": NEW}
        with live.client() as client:
            counted = client.post(url, content=body, headers=headers).json()
        agent.finish(live)
    assert ([], ANSWER) == (strict.provider.refusals, agent.end)
    assert counted["input_tokens"] < counted["context_management"]["original_input_tokens"]
    keeps = [edits_of(each)[0]["keep"]["value"] for each in strict.provider.requests if asks(each)]
    assert {2} == {*keeps}


def test_who_asks_itself_or_has_the_vendors_tools_is_left_alone(
    strict: Upstream, tmp_path: Path
) -> None:
    own = {"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}}
    tools = {"tools": [{"type": "web_search_20250305", "name": "web_search"}]}
    with running_addon(tmp_path, strict, config=CLEARS) as live:
        for others in (own, tools):
            agent = Agent(NEW, ALWAYS)
            agent.take_some(live, 6)
            agent._others |= others
            with live.client() as client:
                url = f"https://localhost:{live.upstream.provider.port}/v1/messages"
                body = encoded(ask(agent.items, model=ALWAYS, **others))
                beta = {"anthropic-beta": CLEARING_BETA, "host": "api.anthropic.com"}
                client.post(url, content=body, headers=beta | {"x-api-key": NEW})
            assert body == strict.provider.requests[-1].body

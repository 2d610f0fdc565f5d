"""Reasoning that is dropped because a result before it is masked, before a strict provider.

That refuses thinking which no longer fits what precedes it, unless the request has it dropped.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.harness import Upstream, running_addon, running_upstream
from tests.live.scripted_sessions import ANSWER, TURNS
from tests.live.test_bound_accounts_live import (
    ALWAYS,
    NEW,
    OLD,
    REPLIES,
    TRY,
    Agent,
    Vendor,
    records_of,
)
from tests.live.test_messages_live import ask
from tests.tools.provider.messages import BINDING_BETA, drops
from tests.tools.provider.script import Received

DROPS = TRY.replace(b'"try"', b'"drop"')


@pytest.fixture(scope="module")
def vendor() -> Vendor:
    return Vendor()


@pytest.fixture(scope="module")
def strict(vendor: Vendor, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Upstream]:
    folder = tmp_path_factory.mktemp("dropping")
    with running_upstream(folder, REPLIES, is_old=vendor.is_old) as running:
        yield running


@pytest.fixture(autouse=True)
def fresh(strict: Upstream, vendor: Vendor) -> None:
    strict.provider.refusals.clear()
    strict.provider.requests.clear()
    vendor.spares_nobody = False
    strict.provider.refuses_dropping = False


def asks(received: Received) -> bool:
    return drops(received.request)


def is_masked(received: Received) -> bool:
    return bool(re.search(rb"<\S+ shell \d+>", received.body))


def test_what_may_not_be_masked_is_masked_and_the_reasoning_dropped(
    strict: Upstream, tmp_path: Path
) -> None:
    agent = Agent(NEW, ALWAYS, beta="interleaved-thinking-2025-05-14")
    with running_addon(tmp_path, strict, config=DROPS) as live:
        agent.finish(live)
    assert ([], 0, ANSWER) == (strict.provider.refusals, agent.refusals, agent.end)
    records, requests = records_of(tmp_path, TURNS + 1), strict.provider.requests
    first = next(n for n, each in enumerate(requests) if asks(each))
    for number, (record, received) in enumerate(zip(records, requests, strict=True)):
        assert (number >= first) == asks(received) == is_masked(received)
        assert (record["dropping"] == "asked") == asks(received)
        assert asks(received) == (BINDING_BETA in received.header("anthropic-beta"))
        assert {**received.request, "messages": 0} == {
            **ask([], model=ALWAYS, stream=True),
            "messages": 0,
            **({"thinking": received.request["thinking"]} if asks(received) else {}),
        }
    assert {"thinking_dropped"} == {*(records[-1]["input_transformations"] or ())}
    assert records[-1]["cost_tokens_after"] < records[-1]["cost_tokens_before"]


def test_a_road_not_taken_costs_what_it_costs_once_it_is_taken(
    strict: Upstream, tmp_path: Path
) -> None:
    folders = [tmp_path / name for name in ("not", "taken")]
    for folder, config in zip(folders, (TRY, DROPS), strict=True):
        folder.mkdir()
        with running_addon(folder, strict, config=config) as live:
            Agent(NEW, ALWAYS).finish(live)
    told, paid = (records_of(folder, TURNS + 1) for folder in folders)
    costs, errors = zip(*(each["roads"]["drop"] for each in told), strict=True)
    assert sum(costs) == pytest.approx(
        sum(each["cost_tokens_after"] for each in paid), abs=sum(errors)
    )
    assert {"shorten", "clear"} == {*paid[-1]["roads"]}


def test_a_refusal_is_never_seen_and_ends_it_for_the_account(
    strict: Upstream, tmp_path: Path
) -> None:
    strict.provider.refuses_dropping = True
    agent, other = Agent(NEW, ALWAYS), Agent(NEW, ALWAYS, task="Another.")
    with running_addon(tmp_path, strict, config=DROPS) as live:
        agent.finish(live)
        other.finish(live)
    assert (1, 0, 0) == (len(strict.provider.refusals), agent.refusals, other.refusals)
    records = records_of(tmp_path, 2 * (TURNS + 1))
    told = [(each["dropping"], each["resent"], each["masked"]) for each in records]
    assert [("refused", "accepted", 0)] == [each for each in told if each[0]]
    refused = next(n for n, each in enumerate(strict.provider.requests) if asks(each))
    own = strict.provider.requests[refused + 1]
    assert (False, False) == (asks(own), is_masked(own))
    assert "thinking" not in own.request


def test_an_old_account_keeps_its_reasoning_and_a_new_one_is_tried_first(
    strict: Upstream, tmp_path: Path
) -> None:
    with running_addon(tmp_path, strict, config=DROPS) as live:
        for key in (OLD, NEW):
            Agent(key).finish(live)
    old, new = strict.provider.requests[: TURNS + 1], strict.provider.requests[TURNS + 1 :]
    assert not any(map(asks, old))
    assert is_masked(old[-1])
    assert 1 == len(strict.provider.refusals)  # the try, which nobody has seen
    assert asks(new[-1])


def test_once_reasoning_was_dropped_nothing_that_changes_meanwhile_has_a_request_refused(
    strict: Upstream, tmp_path: Path
) -> None:
    """A restart, another setting, no masking at all, a lost memory, and all of it back again."""
    agent, memory = Agent(NEW, ALWAYS), tmp_path / "state" / "observation-masking"
    off = DROPS.replace(b"enabled = true", b"enabled = false", 1)
    assert off != DROPS
    for number, config in enumerate((DROPS, DROPS, TRY, off, DROPS)):
        if number == 4:
            for path in memory.glob("memory.sqlite3*"):
                path.unlink()
        with running_addon(tmp_path, strict, config=config) as live:
            agent.take_some(live, 5)
            count = {"model": ALWAYS, "messages": agent.items, "tools": ask([])["tools"]}
            with live.client() as client:
                url = f"https://localhost:{strict.provider.port}/v1/messages/count_tokens"
                headers = {"host": "api.anthropic.com", "x-api-key": NEW}
                assert 200 == client.post(url, json=count, headers=headers).status_code
    assert ([], 0) == (strict.provider.refusals, agent.refusals)
    first = next(n for n, each in enumerate(strict.provider.requests) if asks(each))
    assert all(map(asks, strict.provider.requests[first:]))


def test_an_account_that_changes_its_mind_gets_what_was_masked_with_the_reasoning_dropped(
    strict: Upstream, vendor: Vendor, tmp_path: Path
) -> None:
    agent = Agent(OLD)
    with running_addon(tmp_path, strict, config=DROPS) as live:
        agent.take_some(live, TURNS // 2)
        vendor.spares_nobody = True
        agent.finish(live)
    assert (1, 0, ANSWER) == (len(strict.provider.refusals), agent.refusals, agent.end)
    first = next(n for n, each in enumerate(strict.provider.requests) if asks(each))
    assert all(map(asks, strict.provider.requests[first:]))
    assert is_masked(strict.provider.requests[first - 1])


@pytest.mark.parametrize(
    "model",
    [
        "claude-opus-5-5",
        "claude-mythos-5-2",
        pytest.param("claude-sonnet-5-5", marks=pytest.mark.thorough),
        pytest.param("claude-haiku-5-5", marks=pytest.mark.thorough),
        pytest.param("claude-fable-5-1", marks=pytest.mark.thorough),
        pytest.param("claude-mythos-5-1", marks=pytest.mark.thorough),
    ],
)
def test_no_model_that_binds_refuses_it_nor_a_request_without_thinking(
    strict: Upstream, tmp_path: Path, model: str
) -> None:
    agent = Agent(NEW, model)
    with running_addon(tmp_path, strict, config=DROPS) as live:
        agent.take_some(live, 8)
        assert asks(strict.provider.requests[-1])
        agent.think(live, "disabled")
        last = strict.provider.requests[-1]
        assert (False, True) == (asks(last), is_masked(last))
        agent.take_some(live, 2)
    assert asks(strict.provider.requests[-1])
    tried = len(strict.provider.refusals)  # once, where some accounts take what is masked
    assert (int(not model.startswith("claude-mythos")), 0) == (tried, agent.refusals)

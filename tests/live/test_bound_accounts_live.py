"""Models that refuse changed texts before their thinking on some accounts alone, before a provider.

The provider plays both kinds of account, and may change its mind; the agent goes on after a refusal
as claude-code does, and counts them.
"""

import os
import re
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.live.harness import (
    ON,
    SECONDS,
    Live,
    Upstream,
    encoded,
    eventually,
    running_addon,
    running_upstream,
)
from tests.live.scripted_sessions import ANSWER, TURNS, Item
from tests.live.test_messages_live import answer, ask, read_events, read_whole
from tests.support.record_lines import read_lines
from tests.tools.provider.messages import BINDING_BETA
from tests.tools.provider.provider import is_old_account
from tests.tools.provider.script import Received, Reply, ScriptedReplies, call

MODEL, OTHER_MODEL, ALWAYS = "claude-opus-5-5", "claude-sonnet-5-5", "claude-fable-5-2"
SLOW_SECONDS = float(os.environ.get("SLOW_SECONDS", "3"))
"""How long the answer behind a refusal takes; by hand it is tried with 185."""

OLD, NEW = "sk-old-account-1", "sk-new-account-1"
REPLIES = ScriptedReplies(
    (
        *(
            Reply(
                thinking=f"Number {turn} is next.",
                calls=(call(f"call_{turn}", "shell", command=f"number {turn}"),),
            )
            for turn in range(TURNS)
        ),
        Reply(content=ANSWER),
    )
)


class Vendor:
    """Which accounts are old, as long as the vendor does not change its mind, and how slow it is.

    pause: the seconds before an answer that is no stream begins.
    """

    def __init__(self) -> None:
        self.spares_nobody = False
        self.pause = 0.0

    def is_old(self, received: Received) -> bool:
        return not self.spares_nobody and is_old_account(received)

    def reply(self, received: Received) -> Reply:
        return replace(REPLIES(received), pause=self.pause)


class Agent:
    """claude-code on one account: on a refusal it strips all thinking, for good, and retries."""

    def __init__(
        self,
        key: str = OLD,
        model: str = MODEL,
        client: str = "claude-cli/2.1",
        *,
        task: str = "Look at all of it.",
        streams: bool = True,
        user: str | None = None,
        beta: str = BINDING_BETA,
    ) -> None:
        self.items: list[Item] = [{"role": "user", "content": task}]
        self.refusals = 0
        self.end = ""
        self._key, self._model, self._client, self._beta = key, model, client, beta
        self._others: Item = {"stream": streams}
        if user is not None:
            self._others["metadata"] = {"user_id": user}

    def take(self, live: Live) -> None:
        """Send a request through a proxy, and run what the model calls."""
        response = self.send(live)
        if response.status_code == 400:
            self.refusals += 1
            for message in self.items[1:]:
                if message["role"] == "assistant":
                    kept = [each for each in message["content"] if each["type"] != "thinking"]
                    message["content"] = kept
            response = self.send(live)
        assert 200 == response.status_code, response.text
        step = (read_events if self._others["stream"] else read_whole)(response)
        self.end = step.text
        self.items += [*step.items, *answer(step.calls)]

    def think(self, live: Live, kind: str) -> None:
        """Send one request that says how the model is to think; its answer is not kept."""
        others, self._others = self._others, {**self._others, "thinking": {"type": kind}}
        assert 200 == self.send(live).status_code
        self._others = others

    def send(self, live: Live) -> httpx.Response:
        url = f"https://localhost:{live.upstream.provider.port}/v1/messages"
        headers = {
            "host": "api.anthropic.com",
            "user-agent": self._client,
            "x-api-key": self._key,
            "anthropic-beta": self._beta,
        }
        body = encoded(ask(self.items, model=self._model, **self._others))
        with live.client() as client:
            timeout = SECONDS + SLOW_SECONDS
            return client.post(url, content=body, headers=headers, timeout=timeout)

    def finish(self, live: Live) -> None:
        while not self.end:
            self.take(live)

    def take_some(self, live: Live, turns: int) -> None:
        for _ in range(turns):
            self.take(live)


@pytest.fixture(scope="module")
def vendor() -> Vendor:
    return Vendor()


@pytest.fixture(scope="module")
def strict(vendor: Vendor, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Upstream]:
    folder = tmp_path_factory.mktemp("accounts")
    with running_upstream(folder, vendor.reply, is_old=vendor.is_old) as running:
        yield running


@pytest.fixture(autouse=True)
def fresh(strict: Upstream, vendor: Vendor) -> None:
    strict.provider.refusals.clear()
    strict.provider.requests.clear()
    vendor.spares_nobody, vendor.pause = False, 0.0


FIRST_MOVE = 3
"""The request at which the window first masks a result that thinking follows."""

TRY = ON.replace(b"schema1]", b'schema1]\nbound_reasoning = "try"')


def records_of(folder: Path, count: int) -> list[dict[str, Any]]:
    path = folder / "state" / "observation-masking" / "requests.jsonl"

    def read() -> list[dict[str, Any]] | None:
        found = read_lines(path)
        return found if len(found) >= count else None

    return eventually(read)


def test_an_old_account_is_masked_from_the_first_request_that_shows_it(
    strict: Upstream, tmp_path: Path
) -> None:
    agent = Agent()
    with running_addon(tmp_path, strict, config=TRY) as live:
        agent.finish(live)
    assert ([], 0, ANSWER) == (strict.provider.refusals, agent.refusals, agent.end)
    records = records_of(tmp_path, TURNS + 1)
    assert [FIRST_MOVE] == [n for n, each in enumerate(records) if each["tried"]]
    assert TURNS - 2 == records[-1]["masked"]
    assert {"takes"} == {each["account"] for each in records[FIRST_MOVE:]}
    assert records[-1]["input_transformations"]["thinking_mismatch_allowed"] > 0


def test_a_new_account_is_refused_once_and_its_agent_never_sees_it(
    strict: Upstream, tmp_path: Path
) -> None:
    agent = Agent(NEW)
    with running_addon(tmp_path, strict, config=TRY) as live:
        agent.finish(live)
    assert (1, 0, ANSWER) == (len(strict.provider.refusals), agent.refusals, agent.end)
    records = records_of(tmp_path, TURNS + 1)
    assert [(FIRST_MOVE, "accepted", 200)] == [
        (n, each["resent"], each["status"]) for n, each in enumerate(records) if each["tried"]
    ]
    assert {"refuses"} == {each["account"] for each in records[FIRST_MOVE:]}
    assert 0 == sum(each["masked"] for each in records)
    assert records[-1]["kept"]["bound"] > 0
    assert (None, "possible") == (records[0]["clearing"], records[-1]["clearing"])


def tries(folder: Path, count: int) -> list[tuple[str, str | None]]:
    """Return the model of each try that is among so many records, and what is known after it."""
    records = records_of(folder, count)
    return [(each["model"], each["account"]) for each in records if each["tried"]]


def test_what_was_learned_holds_after_a_restart_and_for_a_token_of_the_same_account(
    strict: Upstream, tmp_path: Path
) -> None:
    user = '{"device_id": "d", "account_uuid": "0123abcd-0000-4000-8000-00000000000%d"}'
    with running_addon(tmp_path, strict, config=TRY) as live:
        Agent(NEW, user=user % 1).take_some(live, 6)
    with running_addon(tmp_path, strict, config=TRY) as live:
        Agent(f"{NEW} renewed", user=user % 1, task="Again.").take_some(live, 6)
        assert [(MODEL, "refuses")] == tries(tmp_path, 12)
        Agent(f"{NEW} renewed", user=user % 2, task="Another.").take_some(live, 6)
    assert [(MODEL, "refuses")] * 2 == tries(tmp_path, 18)


def test_each_credential_and_each_model_is_tried_by_itself(
    strict: Upstream, tmp_path: Path
) -> None:
    agents = [
        *(Agent(OLD, task="1"), Agent(NEW, task="2")),
        *(Agent(OLD, OTHER_MODEL, task="3"), Agent(NEW, OTHER_MODEL, task="4")),
        *(Agent(OLD, ALWAYS, task="5"), Agent(OLD, client="curl/8", task="6")),
    ]
    with running_addon(tmp_path, strict, config=TRY) as live:
        for agent in agents:
            agent.take_some(live, 6)
    assert [0] * len(agents) == [agent.refusals for agent in agents]
    expected = [
        *((MODEL, "takes"), (MODEL, "refuses")),
        *((OTHER_MODEL, "takes"), (OTHER_MODEL, "refuses")),
    ]
    assert expected == tries(tmp_path, 6 * len(agents))


@pytest.mark.parametrize("setting", ["keep", "drop"])
def test_keep_never_tries_and_drop_does(strict: Upstream, tmp_path: Path, setting: str) -> None:
    config = TRY.replace(b'"try"', f'"{setting}"'.encode())
    with running_addon(tmp_path, strict, config=config) as live:
        Agent().take_some(live, 6)
    assert ([] if setting == "keep" else [(MODEL, "takes")]) == tries(tmp_path, 6)


def test_while_a_try_is_on_its_way_nothing_else_of_its_account_is_masked(
    strict: Upstream, vendor: Vendor, tmp_path: Path
) -> None:
    agents = [Agent(NEW, task=f"Part {n}.", streams=False) for n in range(4)]
    with running_addon(tmp_path, strict, config=TRY) as live, ThreadPoolExecutor() as pool:
        for agent in agents:
            agent.take_some(live, FIRST_MOVE)
        vendor.pause = 1.0
        for done in [pool.submit(agent.take, live) for agent in agents]:
            done.result()
    assert [0] * 4 == [agent.refusals for agent in agents]
    assert 1 == len(strict.provider.refusals)
    assert [(MODEL, "refuses")] == tries(tmp_path, 4 * (FIRST_MOVE + 1))


def test_a_proxy_that_is_killed_amid_a_try_has_remembered_nothing_as_masked(
    strict: Upstream, vendor: Vendor, tmp_path: Path
) -> None:
    agent = Agent(streams=False)
    with ThreadPoolExecutor() as pool:
        with running_addon(tmp_path, strict, config=TRY) as live:
            agent.take_some(live, FIRST_MOVE)
            vendor.pause = 30.0
            asked = len(strict.provider.requests)
            lost = pool.submit(agent.send, live)
            eventually(lambda: len(strict.provider.requests) > asked or None)
            os.kill(live.proxy.pid, signal.SIGKILL)
            assert isinstance(lost.exception(), httpx.TransportError)
        assert re.search(rb"<\S+ shell \d+>", strict.provider.requests[-1].body)
        vendor.pause, vendor.spares_nobody = 0.0, True
        with running_addon(tmp_path, strict, config=TRY) as live:
            agent.finish(live)
    assert (0, ANSWER) == (agent.refusals, agent.end)
    assert 1 == len(strict.provider.refusals)


@pytest.mark.parametrize("model", [MODEL, ALWAYS])
def test_an_answer_behind_a_hidden_refusal_may_take_its_time(
    strict: Upstream, vendor: Vendor, tmp_path: Path, model: str
) -> None:
    config = TRY if model == MODEL else TRY.replace(b"= 2", b"= 2\nprovider_clearing = true", 1)
    agent = Agent(NEW, model, streams=False)
    strict.provider.refuses_clearing = True
    try:
        with running_addon(tmp_path, strict, config=config) as live:
            agent.take_some(live, FIRST_MOVE)
            vendor.pause = SLOW_SECONDS
            agent.take(live)
    finally:
        strict.provider.refuses_clearing = False
    assert (1, 0) == (len(strict.provider.refusals), agent.refusals)


def test_a_vendor_that_changes_its_mind_is_believed_at_the_next_conversation(
    strict: Upstream, vendor: Vendor, tmp_path: Path
) -> None:
    with running_addon(tmp_path, strict, config=TRY) as live:
        Agent().take_some(live, 6)
        vendor.spares_nobody = True
        second, third = Agent(task="Once more."), Agent(task="And again.")
        second.take_some(live, 8)
        third.take_some(live, 8)
    assert (0, 0) == (second.refusals, third.refusals)
    assert 1 == len(strict.provider.refusals)
    assert ["refuses"] * 8 == [each["account"] for each in records_of(tmp_path, 22)[-8:]]


def test_a_try_that_is_refused_for_another_reason_says_nothing(
    strict: Upstream, tmp_path: Path
) -> None:
    """The client's own bytes are refused as well; it sees the answer to them."""
    agent = Agent()
    with running_addon(tmp_path, strict, config=TRY) as live:
        agent.take_some(live, FIRST_MOVE)
        agent.items.append({"role": "robot", "content": "?"})
        assert 400 == agent.send(live).status_code
        agent.items.pop()
        agent.take(live)
    records = records_of(tmp_path, FIRST_MOVE + 2)
    assert (True, None, "refused") == tuple(
        records[-2][name] for name in ("tried", "account", "resent")
    )
    assert (False, None, 0) == tuple(records[-1][name] for name in ("tried", "account", "masked"))
    assert "it is tried again in an hour at the earliest" in live.proxy.log

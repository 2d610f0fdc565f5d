"""Long output that is shortened when it arrives: sessions through a real proxy, and real agents.

Whatever happens to the connection, the proxy or its settings, a result is sent in the same words in
every request that has it.
"""

import asyncio
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.live.harness import ON, Live, Upstream, eventually, running_addon, running_upstream
from tests.live.scripted_sessions import ANSWER as END
from tests.live.test_bound_accounts_live import NEW, OLD, REPLIES, Agent
from tests.live.test_messages_live import OLDER as MODEL
from tests.live.test_messages_live import answer, read_whole
from tests.live.test_responses_live import (
    ANSWER,
    PATH,
    SCRIPT,
    TASK,
    TURNS,
    Interrupting,
    ask,
    results,
    running_socket,
    said,
    spell,
    talk,
    url_of,
)
from tests.live.test_run_clients_live import prepare, run_agent
from tests.support.marks import thorough
from tests.tools.provider.messages import find_transformations
from tests.tools.provider.responses import find_dropped
from tests.tools.provider.script import Received, Script

SHORTENS = b"""[observation_masking.arrival]
enabled = true
max_chars = 1000
head_chars = 300
tail_chars = 300
"""
ALONE = ON.replace(b"window_turns = 2", b"window_turns = 0") + SHORTENS
"""Nothing is masked, so that every result keeps its words."""

MARKER = "characters left out ...]"
Item = dict[str, Any]


def find_results(request: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each tool result of a request: the id of its call, and its content as JSON."""
    for item in request.get("input") or request.get("messages") or ():
        if str(item.get("type")).endswith("_call_output"):
            yield item["call_id"], json.dumps(item["output"])
        elif item.get("role") == "tool":
            yield item["tool_call_id"], json.dumps(item["content"])
        for block in item["content"] if isinstance(item.get("content"), list) else ():
            if block.get("type") == "tool_result":
                yield block["tool_use_id"], json.dumps(block["content"])


def collect_words(requests: Sequence[Received]) -> Mapping[tuple[str, int], set[str]]:
    """Return in which words each result was sent, by the id of its call; ids may be used again."""
    words = defaultdict[tuple[str, int], set[str]](set)
    for received in requests:
        seen = Counter[str]()
        for call_id, text in find_results(received.request):
            words[call_id, seen[call_id]].add(text)
            seen[call_id] += 1
    return words


def check_words(requests: Sequence[Received]) -> int:
    """Check that each result was always sent in the same words; return how many are shortened."""
    words = collect_words(requests)
    assert {} == {call_id: found for call_id, found in words.items() if len(found) > 1}
    return sum(MARKER in text for found in words.values() for text in found)


# A model that refuses changed texts before its thinking


@pytest.fixture
def upstream(tmp_path: Path) -> Iterator[Upstream]:
    (tmp_path / "upstream").mkdir()
    with running_upstream(tmp_path / "upstream", REPLIES) as running:
        yield running


def play(live: Live, agent: Agent, requests: int) -> None:
    for _ in range(requests):
        agent.take(live)


@pytest.mark.parametrize("account", [NEW, thorough(OLD)])
def test_bound_thinking_is_kept_across_restarts_and_other_settings(
    upstream: Upstream, tmp_path: Path, account: str
) -> None:
    agent = Agent(account)
    (tmp_path / "one").mkdir()
    runs = (ALONE, ALONE.replace(b"= 300", b"= 200"), ALONE.replace(b"= 1000", b"= 900"), ALONE)
    for config in runs:  # the state is in the folder, so each goes on where the last one ended
        with running_addon(tmp_path / "one", upstream, config=config) as live:
            play(live, agent, 6)
    with running_addon(
        tmp_path / "one",
        upstream,
        config=ALONE.replace(b"enabled = true\nmax", b"enabled = false\nmax"),
    ) as live:
        play(live, agent, 3)
    requests = upstream.provider.requests
    assert [] == upstream.provider.refusals
    assert 0 == agent.refusals
    assert 23 == check_words(requests)
    words = collect_words(requests)
    assert 3 == sum(MARKER not in text for found in words.values() for text in found)


def test_what_stood_in_a_conversation_when_it_was_first_seen_stays_whole(
    upstream: Upstream, tmp_path: Path
) -> None:
    agent = Agent(NEW)
    for name in ("plain", "late"):
        (tmp_path / name).mkdir()
    off = ON.replace(b"enabled = true", b"enabled = false")
    with running_addon(tmp_path / "plain", upstream, config=off) as live:
        play(live, agent, 6)
    with running_addon(tmp_path / "late", upstream, config=ALONE) as live:
        play(live, agent, 6)
    assert [] == upstream.provider.refusals
    assert 6 == check_words(upstream.provider.requests)


def test_a_memory_that_is_lost_costs_one_refusal_that_the_agent_never_sees(
    upstream: Upstream, tmp_path: Path
) -> None:
    agent = Agent(NEW)
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    with running_addon(tmp_path / "one", upstream, config=ALONE) as live:
        play(live, agent, 6)
    with running_addon(tmp_path / "other", upstream, config=ALONE) as live:
        play(live, agent, 6)
        records = eventually(lambda: found if len(found := live.records()) == 6 else None)
    assert 0 == agent.refusals
    assert 1 == len(upstream.provider.refusals)
    assert ["accepted"] == [each["resent"] for each in records if each["resent"]]
    requests = upstream.provider.requests
    assert 11 == check_words([*requests[:6], *requests[7:]])  # without the refused one


# What the provider holds


def test_over_a_websocket_and_after_a_reconnect_the_words_are_the_same(tmp_path: Path) -> None:
    script = Interrupting()
    with running_socket(tmp_path, script, ALONE) as live:
        script.breaks_at = TURNS // 2
        found = asyncio.run(talk(url_of(live)))
        requests = live.upstream.provider.requests
        records = eventually(
            lambda: every if len(every := live.records()) == len(requests) else None
        )
    assert ANSWER == said(found.last)
    calls = sum(2 if turn % 3 == 0 else 1 for turn in range(TURNS))
    assert calls == check_words(requests)
    sent, arrived = sum(map(len, found.sent)), sum(len(each.body) for each in requests)
    assert arrived < sent / 3
    assert [] == [at for at, each in enumerate(requests) if find_dropped(each.request)]
    held = [each for each in records if each["passed_through"]]
    assert all(each["shortened"] and each["arrival_saved_tokens"] > 0 for each in held[2:])


class Answered(NamedTuple):
    """The requests of a session in which each names the answer before it."""

    requests: list[Item]
    text: str


def continue_response(live: Live) -> Answered:
    """Play a session over HTTP in which each request names the response before it."""
    items, sent = [TASK], list[Item]()
    url = f"https://localhost:{live.upstream.provider.port}{PATH}"
    previous: Item = {}
    with live.client() as client:
        while True:
            sent.append({**ask(items), "store": True, **previous})
            response = client.post(url, content=spell(sent[-1]))
            assert 200 == response.status_code, response.text
            output = response.json()["output"]
            previous = {"previous_response_id": response.json()["id"]}
            items = results(output)
            if not items:
                return Answered(sent, said(output))


def continue_thread(live: Live) -> Answered:
    """Play a session in a thread of Anthropic's, as its SDK's `tool_runner` does."""
    items: list[Item] = [{"role": "user", "content": "Look at all of it."}]
    thread: Item = {"type": "create"}
    sent = list[Item]()
    url = f"https://localhost:{live.upstream.provider.port}/v1/messages"
    with live.client() as client:
        while True:
            tools = (
                {} if sent else {"tools": [{"name": "shell", "input_schema": {"type": "object"}}]}
            )
            sent.append(
                {"model": MODEL, "max_tokens": 9, "messages": items, "thread": thread, **tools}
            )
            headers = {"anthropic-beta": "message-threads-2026-08-12"}
            response = client.post(url, content=spell(sent[-1]), headers=headers)
            assert 200 == response.status_code, response.text
            step = read_whole(response)
            thread = {"type": "continue", "previous_message_id": response.json()["id"]}
            if not step.calls:
                return Answered(sent, step.text)
            items = [*answer(step.calls)]


@pytest.mark.parametrize(
    ("script", "play_it", "end", "key"),
    [
        pytest.param(SCRIPT, continue_response, ANSWER, "input", id="responses"),
        pytest.param(REPLIES, continue_thread, END, "messages", id="threads"),
    ],
)
def test_results_of_an_answer_that_is_named_are_shortened(
    script: Script, play_it: Callable[[Live], Answered], end: str, key: str, tmp_path: Path
) -> None:
    (tmp_path / "upstream").mkdir()
    with (
        running_upstream(tmp_path / "upstream", script) as upstream,
        running_addon(tmp_path, upstream, config=ALONE) as live,
    ):
        played = play_it(live)
        requests = upstream.provider.requests
        bodies = [json.loads(each.body) for each in requests]
    assert [] == upstream.provider.refusals
    assert end == played.text
    assert played.requests[0] == bodies[0]
    for sent, arrived in zip(played.requests[1:], bodies[1:], strict=True):
        texts = dict(find_results(arrived))
        assert texts
        assert all(MARKER in text for text in texts.values())
        assert {**sent, key: arrived[key]} == arrived
    assert len(played.requests) > 25
    check_words(requests)


# Real agents


class Case(NamedTuple):
    """An agent, and the options of `obsmask run` besides."""

    name: str
    options: tuple[str, ...] = ()


KEEPS = ("--set", "schema1.bound_reasoning=keep")
PASSES = ("--set", "websocket.mode=pass")
SMALL = (
    *("--window-turns", "0", "--shorten", "--set", "arrival.max_chars=700"),
    *("--set", "arrival.head_chars=200", "--set", "arrival.tail_chars=200"),
)
CASES = (
    Case("claude-code"),
    Case("claude-code-bound", KEEPS),
    Case("codex", PASSES),
    Case("codex-code-mode", PASSES),
    Case("pi-anthropic"),
    Case("opencode-anthropic"),
    Case("mini-swe-agent"),
    Case("qwen-code"),
)


@pytest.mark.thorough
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_real_agent_gets_to_its_end(case: Case, tmp_path: Path) -> None:
    session = run_agent(prepare(case.name), (*SMALL, *case.options), tmp_path, lambda each: each)
    provider = session.provider
    assert [] == provider.refusals
    last = len(session.replies.replies) - 1
    assert last == max(session.replies.place(each.said) for each in provider.requests)
    assert 0 < check_words(provider.requests)
    for each in provider.requests:
        assert [] == (find_dropped(each.request) if "input" in each.request else [])
        assert [] == (find_transformations(each) if "messages" in each.request else [])
    if "codex" in case.name:
        assert any(each.header("upgrade") for each in provider.requests)
    assert "long results sent shortened" in session.said

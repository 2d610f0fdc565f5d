"""The memory behind a real mitmdump: restarts, changed settings, a conversation joined late."""

import contextlib
import dataclasses
import itertools
import json
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from addon.places import MEMORY_FILE
from masking.rewrite import rewrite_request
from masking.wire.messages import MESSAGES
from masking.wire.ollama import OLLAMA
from tests.live.harness import (
    Live,
    Upstream,
    answer,
    conversation,
    encoded,
    eventually,
    policy_of,
    running_addon,
)
from tests.support.made_up_format import MADE_UP
from tests.support.remembered import Remembering
from tests.support.wire_conversations import RUN_AGAIN, WRITERS, RunAgain, Told, Writer, in_each

CHAT = "/v1/chat/completions"
ON = b"""[observation_masking.schema1]
enabled = true
window_turns = 2
placeholder_template = "<{tool_name}>"
skip_if_not_shorter = false
mask_text_parts = false
cache_pricing = [0.1, 1.25]
"""
OFF = ON.replace(b"enabled = true", b"enabled = false")
GENEROUS = ON.replace(b"cache_pricing", b"max_loss = 1.0\ncache_pricing")
SLIDING = ON.replace(b"[0.1, 1.25]", b'"none"')
LARGER = SLIDING.replace(b"window_turns = 2", b"window_turns = 11")
FORGETFUL = ON + b"[observation_masking.memory]\nenabled = false\n"


LATE = 11
"""Tool turns after which something is masked where the request is all that counts."""


def send(live: Live, turns: int, task: str = "Go on.") -> list[int]:
    """Send a request of so many tool turns; return which of its results arrived masked."""
    request = conversation(turns=turns, text="a line of output\n" * 60)
    request["messages"][0]["content"] = task
    body = live.send(CHAT, encoded(request)).body
    results = [m for m in json.loads(body)["messages"] if m["role"] == "tool"]
    return [place for place, result in enumerate(results) if result["content"] == "<shell>"]


def play(live: Live, turns: range) -> list[int]:
    *_, masked = (send(live, count) for count in turns)
    return masked


def wait_for_records(live: Live, count: int) -> list[dict[str, Any]]:
    return eventually(lambda: live.records() if len(live.records()) >= count else None)


@pytest.mark.smoke
def test_a_restart_unmasks_nothing_nor_does_a_change_of_settings(
    upstream: Upstream, tmp_path: Path
) -> None:
    with running_addon(tmp_path, upstream, config=ON) as live:
        masked = play(live, range(12))
        live.configure(ON.replace(b"window_turns = 2", b"window_turns = 11"))
        assert masked == send(live, 12)
        assert masked
    with running_addon(tmp_path, upstream, config=ON.replace(b"= 2\n", b"= 11\n")) as live:
        assert masked == send(live, 12)
        assert ["warm"] * 2 == [record["prefix"] for record in wait_for_records(live, 14)[-2:]]
    assert (tmp_path / "state" / "observation-masking" / MEMORY_FILE).stat().st_mode & 0o077 == 0


def grow_old(folder: Path, seconds: float) -> None:
    """Let what is remembered be so much longer ago."""
    file = Remembering(lambda: folder / "state" / "observation-masking")
    for opening, known in file.read():
        aged = (dataclasses.replace(past, sent=past.sent - seconds) for past in known.branches)
        file.write(opening, known._replace(branches=tuple(aged)))
    file.close()


@pytest.mark.parametrize(("seconds", "state"), [(60.0, "warm"), (4_000.0, "cold")])
def test_after_a_long_pause_the_boundary_moves_at_once(
    upstream: Upstream, tmp_path: Path, seconds: float, state: str
) -> None:
    with running_addon(tmp_path, upstream, config=GENEROUS) as live:
        before = play(live, range(7))
    grow_old(tmp_path, seconds)
    with running_addon(tmp_path, upstream, config=GENEROUS) as live:
        after = send(live, 7)
        assert state == wait_for_records(live, 8)[-1]["prefix"]
    assert [] == before
    assert ([*range(5)] if state == "cold" else []) == after


def test_a_lost_memory_costs_one_broken_prefix(upstream: Upstream, tmp_path: Path) -> None:
    with running_addon(tmp_path, upstream, config=ON) as live:
        before = play(live, range(9))
    (tmp_path / "state" / "observation-masking" / MEMORY_FILE).unlink()
    with running_addon(tmp_path, upstream, config=ON) as live:
        after = [before, *(send(live, turns) for turns in range(9, 30))]
        assert "first met" == wait_for_records(live, 10)[9]["prefix"]
    backwards = [now for last, now in itertools.pairwise(after) if not set(last) <= set(now)]
    assert len(backwards) == 1
    assert len(after[-1]) > len(before)


def test_a_conversation_joined_late_begins_unmasked(upstream: Upstream, tmp_path: Path) -> None:
    with running_addon(tmp_path, upstream, config=ON) as live:
        assert [] == send(live, LATE)
        assert ["first met"] == [record["prefix"] for record in wait_for_records(live, 1)]


def test_without_a_memory_a_request_is_all_that_counts(upstream: Upstream, tmp_path: Path) -> None:
    with running_addon(tmp_path, upstream, config=FORGETFUL) as live:
        early = send(live, LATE)
        assert early
        assert early == play(live, range(LATE + 1))
        assert {None} == {record["prefix"] for record in wait_for_records(live, LATE + 2)}
    assert not (tmp_path / "state" / "observation-masking" / MEMORY_FILE).exists()


def test_two_proxies_without_a_memory_send_the_same_bytes_at_assumed_prices(
    upstream: Upstream, tmp_path: Path
) -> None:
    """A conversation that goes through now one and now the other, at a host that nobody knows."""
    folders = [tmp_path / name for name in ("one", "other")]
    assumed = FORGETFUL.replace(b"cache_pricing = [0.1, 1.25]\n", b"")
    with contextlib.ExitStack() as stack:
        proxies = []
        for folder in folders:
            folder.mkdir()
            proxies.append(stack.enter_context(running_addon(folder, upstream, config=assumed)))
        both = [[send(proxy, turns) for proxy in proxies] for turns in range(14)]
        records = wait_for_records(proxies[0], 14)
    assert [one for one, _ in both] == [other for _, other in both]
    assert both[-1][0]
    assert {"assumed"} == {record["price_source"] for record in records}


def test_what_went_out_whole_begins_anew(upstream: Upstream, tmp_path: Path) -> None:
    """Switched off for a while, the provider has the whole prompt in its cache."""
    with running_addon(tmp_path, upstream, config=ON) as live:
        assert play(live, range(LATE))
        live.configure(OFF)
        assert [] == send(live, LATE)
        live.configure(ON)
        assert [] == send(live, LATE)


def test_two_conversations_with_one_opening_do_not_disturb_each_other(
    upstream: Upstream, tmp_path: Path
) -> None:
    with running_addon(tmp_path, upstream, config=ON) as live:
        both = [(send(live, n, "One."), send(live, n, "Other.")) for n in range(12)]
        assert [one for one, _ in both] == [other for _, other in both]
        assert both[-1][0]


@pytest.fixture(scope="module")
def sliding(upstream: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with running_addon(tmp_path_factory.mktemp("sliding"), upstream, config=SLIDING) as live:
        yield live


@in_each([writer for writer in WRITERS if writer.wire is not MADE_UP])
@pytest.mark.parametrize("again", RUN_AGAIN, ids=[again.case for again in RUN_AGAIN])
def test_a_task_that_is_run_again_is_masked_as_if_it_had_not_been(
    sliding: Live, writer: Writer, again: RunAgain
) -> None:
    """It is answered alike, and its tools give something else."""
    sliding.sink.answers[writer.path] = answer()
    for tell in (again.tell_first, again.tell_second):
        for turns in range(1, 8):
            body = writer.tell(*tell(turns)).body
            alone = rewrite_request(body, policy_of(SLIDING), writer.wire, writer.path)
            assert alone.body == sliding.send(writer.path, body).body
        assert alone.masked


def test_a_task_that_is_run_again_keeps_its_errors_at_the_shipped_settings(
    upstream: Upstream, tmp_path: Path
) -> None:
    ollama = next(writer for writer in WRITERS if writer.wire is OLLAMA)
    upstream.sink.answers[ollama.path] = answer()
    failed = RUN_AGAIN[0]
    with running_addon(tmp_path, upstream, config=b"[observation_masking.schema1]\n") as live:

        def send(told: Told) -> list[str]:
            body = json.loads(live.send(ollama.path, told.body).body)
            return [m["content"] for m in body["messages"] if m["role"] == "tool"]

        for turns in range(1, 60):
            first = send(ollama.tell(*failed.tell_first(turns)))
        second = send(ollama.tell(*failed.tell_second(59)))
    assert first[3].startswith("[shell: ")
    assert second[3].startswith("Error: ")


_PATIENT = """
from addon import memory
memory.PATIENCE = 300.0
"""


def test_a_locked_memory_holds_up_what_needs_it_and_others_for_a_second(
    upstream: Upstream, tmp_path: Path
) -> None:
    """Before bound reasoning a text that comes back is refused; elsewhere it costs one prefix."""
    (writer,) = (writer for writer in WRITERS if writer.wire is MESSAGES)
    upstream.sink.answers[writer.path] = answer()
    told = writer.tell(*RUN_AGAIN[0].tell_first(7)).document | {"model": "claude-opus-5-5"}
    body = encoded(told)
    with running_addon(tmp_path, upstream, config=SLIDING) as live:
        before = live.send(writer.path, body).body
    assert before != body
    script = tmp_path / "patient.py"
    script.write_text(_PATIENT)
    holder = sqlite3.connect(tmp_path / "state" / "observation-masking" / MEMORY_FILE)
    holder.execute("BEGIN EXCLUSIVE")
    with (
        contextlib.closing(holder),
        running_addon(tmp_path, upstream, "-s", str(script), config=LARGER) as live,
        ThreadPoolExecutor(5) as threads,
    ):
        bound = threads.submit(live.send, writer.path, body)
        others = [threads.submit(send, live, 1, f"Task {n}.") for n in range(4)]
        assert [[]] * 4 == [other.result() for other in others]
        assert not bound.done()
        holder.rollback()
        assert before == bound.result().body


def test_a_request_for_a_summary_goes_out_whole_and_leaves_no_trace(
    upstream: Upstream, tmp_path: Path
) -> None:
    with running_addon(tmp_path, upstream, config=GENEROUS) as live:
        masked = play(live, range(14))
        asks = conversation(turns=13, text="a line of output\n" * 60)
        asks["messages"][0]["content"] = "Go on."
        asks["messages"].append({"role": "user", "content": "Provide a summary of our work."})
        body = encoded({name: value for name, value in asks.items() if name != "tools"})
        assert body == live.send(CHAT, body).body
        assert masked == send(live, 13)
        asked, after = wait_for_records(live, 16)[-2:]
        assert masked
        assert {"summary": asked["tool_results"]} == asked["kept"]
        assert (0, False, False) == (
            asked["masked"],
            asked["boundary_moved"],
            after["boundary_moved"],
        )

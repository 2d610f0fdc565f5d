"""Observe mode and the hold-out behind a real mitmdump: nothing is changed, and all is reckoned."""

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from addon.places import MEMORY_FILE
from addon.recordings.flows import read_flows
from masking.memory import is_held_out
from tests.live.harness import (
    Heard,
    Live,
    Upstream,
    conversation,
    encoded,
    eventually,
    run_mitmdump,
    running_addon,
)
from tests.support.made_up_format import MADE_UP
from tests.support.places import ROOT
from tests.support.record_lines import read_lines
from tests.support.wire_conversations import WRITERS, User, Writer, in_each, turn

ON = b"""[observation_masking.schema1]
window_turns = 2
cache_pricing = [0.1, 1.25]
"""
OBSERVE = b'[observation_masking]\nmode = "observe"\n' + ON
OFF = ON + b"enabled = false\n"
SLIDING = b"[0.1, 1.25]", b'"none"'
HALF = b'[observation_masking]\nholdout_percent = 50\nholdout_salt = "spring"\n' + ON
CHAT = "/v1/chat/completions"
TURNS = 12
"""After so many tool turns something is masked at these prices."""

TEXT = "a line of output é, and nothing went wrong\n" * 60
OF_THE_RUN = (
    "observed",
    "run",
    "time",
    "hook_us",
    "first_chunk_seconds",
    "config_digest",
    "masking",
)
OF_WHAT_WAS_SENT = ("predicted_cached_tokens",)
"""What is expected of the prompt that was sent."""


class Proxies(NamedTuple):
    off: Live
    on: Live
    observing: Live


@pytest.fixture(scope="module")
def proxies(upstream: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxies]:
    off, on, observing = (tmp_path_factory.mktemp(name) for name in ("off", "on", "observing"))
    with (
        running_addon(off, upstream, config=OFF.replace(*SLIDING)) as first,
        running_addon(on, upstream, config=ON.replace(*SLIDING)) as second,
        running_addon(observing, upstream, config=OBSERVE.replace(*SLIDING)) as third,
    ):
        yield Proxies(first, second, third)


def play(
    live: Live, path: str, bodies: list[bytes], **headers: str
) -> tuple[Heard, dict[str, Any]]:
    """Send requests one after the other; what arrived of the last one, and its record."""
    before = len(live.records())
    for body in bodies:
        heard = live.send(path, body, **headers)
    records = eventually(
        lambda: found if len(found := live.records()) == before + len(bodies) else None
    )
    return heard, records[-1]


def tell(writer: Writer) -> list[bytes]:
    """Return the requests of a conversation, one for each tool turn."""
    told = writer.tell(User(f"Fix it, in {writer.name}."))
    bodies = []
    for number in range(5):
        told = told.then(*turn(f"call_{number}", f"{number}: {TEXT}"))
        bodies.append(told.body)
    return bodies


def pick(record: dict[str, Any]) -> dict[str, Any]:
    """Return what is the same whether a request was masked or observed."""
    return {
        name: value
        for name, value in record.items()
        if name not in (*OF_THE_RUN, *OF_WHAT_WAS_SENT) and "_error" not in name
    }


@in_each([w for w in WRITERS if w.wire is not MADE_UP])
def test_a_request_arrives_as_with_masking_off_and_is_reckoned_as_with_masking_on(
    proxies: Proxies, writer: Writer
) -> None:
    bodies = tell(writer)
    plain, _ = play(proxies.off, writer.path, bodies[-1:])
    masked, expected = play(proxies.on, writer.path, bodies)
    observed, record = play(proxies.observing, writer.path, bodies)
    assert plain == observed
    assert bodies[-1] == observed.body != masked.body
    assert "observed" == record["masking"]
    assert pick(expected) == pick(record)
    assert [len(bodies[-1]), len(masked.body)] == [record["bytes_before"], record["bytes_after"]]


def test_a_compressed_request_stays_as_it_is(proxies: Proxies) -> None:
    body = gzip.compress(encoded(conversation(turns=40, text=TEXT)), mtime=0)
    lives = (proxies.off, proxies.observing)
    (plain, _), (observed, record) = (
        play(live, CHAT, [body], content_encoding="gzip") for live in lives
    )
    assert plain == observed
    assert body == observed.body
    assert ("first met", "observed") == (record["prefix"], record["masking"])


def replay(
    folder: Path, recording: str, mode: str
) -> tuple[list[bytes | None], list[dict[str, Any]]]:
    """Play a recording with all strategies on; all bodies afterwards, and the records."""
    source, out = ROOT / "recordings" / f"{recording}.flow", folder / f"{mode}.flow"
    (config,) = source.parent.glob(f"{recording}.[am]*.toml")
    settings = (f'mode="{mode}"', f'metrics.path="{folder}/{mode}.jsonl"')
    options = [f"mask_config={config}", *(f"mask_set={setting}" for setting in settings)]
    arguments = [part for option in options for part in ("--set", option)]
    run_mitmdump(folder, "-nr", str(source), "-w", str(out), *arguments)
    bodies = [
        message.raw_content
        for flow in read_flows(out)
        for message in (flow.request, flow.response)
        if message is not None
    ]
    return bodies, read_lines(folder / f"{mode}.jsonl")


@pytest.mark.parametrize("recording", ["openai-questions", "mcp-files"])
def test_every_strategy_is_observed(tmp_path: Path, recording: str) -> None:
    """Redaction, the window, reduction; and the answers of MCP servers."""
    masked, expected = replay(tmp_path, recording, "on")
    observed, records = replay(tmp_path, recording, "observe")
    flows = read_flows(ROOT / "recordings" / f"{recording}.flow")
    sent = [m.raw_content for flow in flows for m in (flow.request, flow.response) if m is not None]
    assert sent == observed != masked
    assert [pick(record) for record in expected] == [pick(record) for record in records]
    assert ["observed"] == [*{record.get("masking", "observed") for record in records}]


def send(live: Live, turns: int, task: str = "Go on.") -> tuple[bytes, bytes, dict[str, Any]]:
    """Send a request of so many tool turns; it, what arrived of it, and its record."""
    request = conversation(turns=turns, text=TEXT)
    request["messages"][0]["content"] = task
    heard, record = play(live, CHAT, [encoded(request)])
    return encoded(request), heard.body, record


def test_the_boundary_goes_on_as_if_the_masked_requests_had_been_sent(
    upstream: Upstream, tmp_path: Path
) -> None:
    folders = [tmp_path / name for name in ("on", "observing")]
    for folder in folders:
        folder.mkdir()
    with (
        running_addon(folders[0], upstream, config=ON) as on,
        running_addon(folders[1], upstream, config=OBSERVE) as observing,
    ):
        lives = (on, observing)
        masked, observed = ([send(live, turns)[2] for turns in range(25)] for live in lives)
    assert [pick(record) for record in masked] == [pick(record) for record in observed]
    assert 2 < len({record["masked"] for record in observed})


def test_switched_to_on_a_conversation_begins_as_one_first_met(
    upstream: Upstream, tmp_path: Path
) -> None:
    """And if masking is only observed again, the figures go on from what was masked."""
    with running_addon(tmp_path, upstream, config=OBSERVE) as live:
        *_, (sent, arrived, record) = [send(live, turns) for turns in range(TURNS)]
        assert (sent, True) == (arrived, record["masked"] > 0)
        live.configure(ON)
        sent, arrived, record = send(live, TURNS)
        assert (sent, "on", "first met", 0) == (
            *(arrived, record["masking"], record["prefix"], record["masked"]),
        )
        *_, (sent, arrived, masked) = [send(live, turns) for turns in range(TURNS + 1, 40)]
        assert (True, True) == (sent != arrived, masked["masked"] > 0)
        live.configure(OBSERVE)
        sent, arrived, record = send(live, 40)
        assert (sent, "warm") == (arrived, record["prefix"])
        assert record["masked"] >= masked["masked"]
        live.configure(ON)
        assert "first met" == send(live, 41)[2]["prefix"]
    file = tmp_path / "state" / "observation-masking" / MEMORY_FILE
    assert 0o600 == file.stat().st_mode & 0o777


def test_what_is_observed_goes_on_after_a_restart(upstream: Upstream, tmp_path: Path) -> None:
    with running_addon(tmp_path, upstream, config=OBSERVE) as live:
        *_, (_, _, before) = [send(live, turns) for turns in range(TURNS)]
    with running_addon(tmp_path, upstream, config=OBSERVE) as live:
        _, _, after = send(live, TURNS)
    assert ("warm", True) == (after["prefix"], after["masked"] >= before["masked"] > 0)


def test_a_share_of_the_conversations_is_held_out(upstream: Upstream, tmp_path: Path) -> None:
    tasks = [f"Task {number}." for number in range(8)]
    with running_addon(tmp_path, upstream, config=HALF) as live:
        begins: dict[bool, set[int]] = {}
        for task in tasks:
            for turns in range(TURNS + 1):
                sent, arrived, record = send(live, turns, task)
                if record["masked"]:
                    begins.setdefault(record["group"] == "holdout", set()).add(turns)
            opening = bytes.fromhex(record["conversation_id"])
            is_out = is_held_out(opening, 50, "spring")
            assert ("holdout" if is_out else None) == record["group"]
            assert ("observed" if is_out else "on") == record["masking"]
            assert (is_out, True) == (sent == arrived, record["masked"] > 0)
        # Masking would begin in one that is held out where it begins in the others.
        assert begins[False] == begins[True]
        groups = {record["conversation"]: record["group"] for record in live.records()}
        assert len(tasks) == len(groups)
        assert {None, "holdout"} == {*groups.values()}


def test_a_conversation_is_observed_from_the_request_after_a_change(
    upstream: Upstream, tmp_path: Path
) -> None:
    everything = HALF.replace(b"= 50", b"= 100")
    with running_addon(tmp_path, upstream, config=ON) as live:
        *_, (sent, arrived, _) = [send(live, turns) for turns in range(TURNS)]
        assert sent != arrived
        live.configure(everything)
        sent, arrived, record = send(live, TURNS)
        assert (sent, "holdout", "warm") == (arrived, record["group"], record["prefix"])
        assert "only observes 100% of the conversations" in live.proxy.log

"""What requests cost and saved, told by a real proxy: prices, nets, the circuit breaker."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from addon.commands.main import main
from addon.config import ConfigFile
from addon.records.words import render_dollars
from masking.config import Settings
from tests.live.harness import (
    UNPRICED,
    Live,
    Upstream,
    answer,
    conversation,
    encoded,
    eventually,
    running_addon,
)
from tests.support.made_up_records import tally

CHAT = "/v1/chat/completions"
AUTO = UNPRICED + b'cache_pricing = "auto"\n'
HALF = UNPRICED + b"cache_pricing = [0.5, 1.0]\nmax_loss = 1000\n"
TENTH = UNPRICED + b"cache_pricing = [0.1, 1.0]\nmax_loss = 1000\n"
TEXT = "one more word of output\n" * 200
LISTED = {"host": "api.openai.com"}

Record = dict[str, Any]


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory, upstream: Upstream) -> Iterator[Live]:
    """One proxy for all tests that configure it and then ask it at a path of their own."""
    with running_addon(tmp_path_factory.mktemp("live"), upstream) as running:
        yield running


def ask(live: Live, turns: int, usage: dict[str, object], **headers: str) -> Record:
    """Send the request of a conversation that has so many turns; return its record."""
    number = len(live.records())
    live.sink.answers[CHAT] = answer(json.dumps({"usage": usage}).encode())
    live.send(CHAT, encoded(conversation(turns, TEXT)), **headers)
    return eventually(lambda: live.records()[number] if len(live.records()) > number else None)


def usage_of(prompt: int, cached: int | None = None) -> dict[str, object]:
    details = {} if cached is None else {"prompt_tokens_details": {"cached_tokens": cached}}
    return {"prompt_tokens": prompt, **details}


@pytest.mark.parametrize(
    ("config", "host", "model", "slides", "billed"),
    [
        pytest.param(AUTO, "api.openai.com", "gpt-4o", False, ("price list", 0.5, 1), id="auto"),
        pytest.param(
            UNPRICED, "api.openai.com", "gpt-4o", False, ("price list", 0.5, 1), id="unset"
        ),
        pytest.param(
            AUTO, "api.openai.com", "?", False, ("assumed", 0.1, 1.25), id="model unlisted"
        ),
        pytest.param(
            AUTO + b"assumed_prices = [0.25, 1]\n", "api.openai.com", "?", False,
            ("assumed", 0.25, 1), id="model unlisted, and other prices to be assumed",
        ),
        pytest.param(
            AUTO, "localhost", "gpt-4o", False, ("assumed", 0.5, 1), id="host unlisted"
        ),
        pytest.param(
            AUTO, "api.anthropic.com", "claude-opus-4-8", True, ("price list", 1, 1),
            id="no cache mark where it takes one",
        ),
        pytest.param(
            AUTO + b'[observation_masking.hosts]\nuncached = ["localhost"]\n', "localhost",
            "gpt-4o", True, ("config", 1, 1), id="a host that sells no cached tokens",
        ),
        pytest.param(
            AUTO + b'[[observation_masking.prices]]\nhost = "local*"\nread = 0.2\nwrite = 1\n',
            "localhost", "gpt-4o", False, ("config", 0.2, 1), id="a price of one's own",
        ),
        pytest.param(
            UNPRICED + b'cache_pricing = "none"\n', "api.openai.com", "gpt-4o", True,
            ("price list", 0.5, 1), id="none slides, and is billed as listed",
        ),
        pytest.param(
            UNPRICED + b"cache_pricing = [0.1, 1.25]\n", "api.openai.com", "gpt-4o", False,
            ("config", 0.1, 1.25), id="the configuration's go first",
        ),
    ],
)  # fmt: skip
def test_a_record_says_which_prices_hold_and_why(
    live: Live,
    request: pytest.FixtureRequest,
    config: bytes,
    host: str,
    model: str,
    slides: bool,
    billed: tuple[str | None, float | None, float | None],
) -> None:
    live.configure(config)
    path = f"/{abs(hash(request.node.nodeid))}{CHAT}"
    live.send(path, encoded(conversation() | {"model": model}), host=host)
    record = live.record(path)
    assert slides is record["slides"]
    assert billed == tuple(
        record[f"price_{name}"] for name in ("source", "read_ratio", "write_ratio")
    )


def test_assumed_prices_are_logged_once_for_each_host_with_the_command_that_sets_it(
    upstream: Upstream, tmp_path: Path
) -> None:
    with running_addon(tmp_path, upstream, config=AUTO) as live:
        for turns in (1, 2):
            ask(live, turns, usage_of(3_000))
        ask(live, 3, usage_of(3_000), **LISTED)
    assert live.proxy.log.count("no price of cached tokens is known") == 1
    assert "no price of cached tokens is known for gpt-4o at localhost: assumed" in live.proxy.log
    settings = take_over(live.proxy.log)
    (price,) = settings.prices
    assert ("localhost", "*", 0.5, 1.0) == (price.host, price.model, price.read, price.write)


def take_over(log: str) -> Settings:
    """Do what the log advises last, and return the settings that the proxy's file then has."""
    *_, command = re.findall(r"obsmask (config add .*)$", log, re.MULTILINE)
    words = shlex.split(command)
    assert main(words) == 0
    return ConfigFile(Path(words[words.index("--config") + 1])).settings


def test_a_host_that_never_has_anything_cached_is_named_once_with_the_command_that_sets_it(
    upstream: Upstream, tmp_path: Path
) -> None:
    with running_addon(tmp_path, upstream, config=AUTO) as live:
        for _ in range(23):
            ask(live, 9, usage_of(9_000, 0))
    assert live.proxy.log.count("no cached tokens on 20 requests in a row") == 1
    assert ("localhost",) == take_over(live.proxy.log).hosts.uncached


def test_the_log_tells_the_net_of_a_conversation(upstream: Upstream, tmp_path: Path) -> None:
    with running_addon(tmp_path, upstream, config=HALF) as live:
        mine = [ask(live, turns, {}, authorization="a", **LISTED) for turns in range(1, 8)]
        other = [ask(live, turns, {}, authorization="b", **LISTED) for turns in range(1, 8)]
    assert [1] * 7 + [2] * 7 == [record["conversation"] for record in (*mine, *other)]
    saved = [r["cost_dollars_before"] - r["cost_dollars_after"] for r in (*mine, *other)]
    assert saved[0] == 0 < sum(saved)
    assert saved[:7] == saved[7:]
    assert {"simulated"} == {record["cached_tokens_basis"] for record in mine}
    net = tally(*other).bill.dollars
    amount, error = render_dollars(net.saved), render_dollars(net.error)
    assert f"net +{amount} ±{error[1:]} in conversation 2" in live.proxy.log
    told = f"saved {render_dollars(sum(saved))} ("
    assert told in live.proxy.log.splitlines()[-1]


def test_what_is_not_known_is_null(upstream: Upstream, tmp_path: Path) -> None:
    with running_addon(tmp_path, upstream, config=HALF) as live:
        record = ask(live, 5, {})
        live.sink.answers[CHAT] = answer(b"{}", status=500)
        live.send(CHAT, encoded(conversation(6, TEXT)))
        refused = eventually(lambda: live.records()[1:] or None)[0]
    assert (None, "OpenAI") == (record["answer_dollars"], record["price_borrowed_from"])
    assert record["cost_dollars_after"] == pytest.approx(record["cost_tokens_after"] * 2.5e-6)
    assert record["cost_tokens_after"] > 0
    assert {None} == {refused[name] for name in refused if name.startswith("cost_")}


def test_a_cold_cache_is_not_our_loss(upstream: Upstream, tmp_path: Path) -> None:
    with running_addon(tmp_path, upstream, config=HALF) as live:
        for _ in range(2):
            ask(live, 6, {})
        record = ask(live, 6, usage_of(5_000, 0))
    assert record["predicted_cached_tokens"] > 1_000
    assert record["cost_tokens_after"] == 5_000
    assert record["cost_tokens_before"] > 5_000


def play(live: Live, after_the_move: float, until: int = 12) -> list[Record]:
    """Play a conversation whose cache holds all until the boundary has moved, then this part."""
    records: list[Record] = []
    for turns in range(1, until):
        has_moved = any(record["boundary_moved"] for record in records)
        part = after_the_move if has_moved else 1.0
        records.append(ask(live, turns, usage_of(20_000, round(20_000 * part))))
    return records


def test_a_boundary_is_held_where_the_cache_fails_after_a_move(
    upstream: Upstream, tmp_path: Path
) -> None:
    with running_addon(tmp_path, upstream, config=TENTH) as live:
        records = play(live, after_the_move=0.0)
        other = ask(live, 8, usage_of(20_000, 0), authorization="other")
    held = [record["boundary_held"] for record in records]
    first = held.index(True)
    assert held == [False] * first + [True] * (len(held) - first)
    masked = [record["masked"] for record in records]
    assert 0 < masked[first]
    assert [masked[first]] * (len(held) - first) == masked[first:]
    assert records[-1]["kept"]["held"] > 0
    assert live.proxy.log.count("the boundary is held where it is") == 1
    assert live.proxy.log.count("hosts.uncached=localhost") == 1
    assert "1 conversation with a held boundary" in live.proxy.log
    assert not other["boundary_held"]


def test_where_some_of_it_is_cached_nothing_is_said_of_hosts_without_a_cache(
    upstream: Upstream, tmp_path: Path
) -> None:
    with running_addon(tmp_path, upstream, config=TENTH) as live:
        play(live, after_the_move=0.2)
    assert "the boundary is held where it is" in live.proxy.log
    assert "uncached" not in live.proxy.log


@pytest.mark.parametrize("part", [1.0, 0.7])
def test_a_cache_that_holds_lets_the_boundary_move_on(
    upstream: Upstream, tmp_path: Path, part: float
) -> None:
    with running_addon(tmp_path, upstream, config=TENTH) as live:
        records = play(live, after_the_move=part)
    assert sum(record["boundary_moved"] for record in records) > 1
    assert not any(record["boundary_held"] for record in records)

"""`obsmask prices`: what holds and why, a newer list, and the way back."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from addon.commands.main import main
from addon.stored_prices import stored_path
from masking.prices import load_shipped
from tests.live.harness import (
    UNPRICED,
    Upstream,
    conversation,
    encoded,
    running_addon,
    running_upstream,
)

DATE = load_shipped().date

CONFIG = b"""
[observation_masking]
prices = [
    { model = "claude-*", read = 0.2, write = 1.0, dollars_per_million = 2.0 },
    { host = "own.example", read = 0.3, write = 1.0 },
]
[observation_masking.hosts]
uncached = ["*.lan"]
"""


@pytest.fixture(autouse=True)
def folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def run(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> list[str]:
    """Return what the command prints, line by line."""
    assert main(["prices", *map(str, arguments)]) == 0
    return capsys.readouterr().out.splitlines()


def configured(folder: Path, config: bytes = CONFIG) -> list[str | Path]:
    (folder / "mine.toml").write_bytes(config)
    return ["--config", folder / "mine.toml"]


def test_it_shows_the_list_and_what_is_assumed(capsys: pytest.CaptureFixture[str]) -> None:
    first, *others = run(capsys)
    assert first.startswith(f"The price list is of {DATE}, from genai-prices ")
    count = f"{load_shipped().models:,} models of {len(load_shipped().providers)} providers"
    assert first.endswith(f"{count}. It came with the package.")
    assert others == [
        'cache_pricing = "auto"',
        "Where nothing is known, assumed: a cached token at 0.1 of a plain one, a written one at "
        "1.25",
    ]


def test_it_shows_prices_of_ones_own(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    shown = run(capsys, *configured(tmp_path))
    assert shown[2:5] == [
        "Your own price of claude-* at *: a cached token at 0.2 of a plain one, a written one at "
        "1, $2 for a million plain tokens",
        "Your own price of * at own.example: a cached token at 0.3 of a plain one, a written one "
        "at 1",
        "No cached tokens: *.lan",
    ]


@pytest.mark.parametrize("name", ["gpt-6.2-sol", "GPT-4x", "nosuch", "sonnet"])
def test_what_is_neither_a_model_nor_like_a_host_is_a_mistake(
    capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert 1 == main(["prices", name])
    told = f"obsmask: no model in the price list is called {name}; for a host with a name like that"
    assert told in capsys.readouterr().err
    assert 0 == main(["prices", name, "gpt-4o"])


@pytest.mark.parametrize("model", ["gpt-4o", "gpt-4.1", "claude-opus-4-5", "openai/gpt-4o"])
def test_a_model_alone_has_the_prices_of_its_maker(
    model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = run(capsys, model)
    assert shown[0].startswith(f"{model} at its maker: a cached token at ")
    assert f"At another host: obsmask prices HOST {model}" == shown[-1]
    assert not any("own network" in line or "config add" in line for line in shown)


UNLISTED = f"the list of {DATE} has no price for cached tokens of this model at this host"
BLOCKS = "Assumed to be cached: prefixes of 1,024 tokens or more, in blocks of 128"


def own_price(model: str, read: float, write: float, unknown: str = "") -> list[str]:
    """Return the lines that say how to set other prices than those that were assumed."""
    return [
        f"{unknown}To set your own prices, with other numbers, and with dollars_per_million for "
        "plain input tokens:",
        "obsmask config add --config FILE "
        f"'prices={{ host = \"localhost\", {model}read = {read}, write = {write} }}'",
    ]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        pytest.param(
            ["api.openai.com", "gpt-5.6"],
            [
                "gpt-5.6 at api.openai.com: a cached token at 0.1 of a plain one, a written one "
                "at 1.25",
                f"By the price list of {DATE}: gpt-5.6-sol of OpenAI",
                "A million tokens: $4, cached $0.4, written $5",
                "In a prompt of more than 272,000 tokens, every token costs 2 times that",
                "A million tokens of answers: $20",
                "After a prompt of more than 272,000 tokens, answers cost 1.5 times that",
                "Assumed to be cached: prefixes of 1,024 tokens or more",
                "They are read up to the end of an earlier request, one of the latest 80",
                "Context window: 1,050,000 tokens, prompt and answer",
            ],
            id="a listed model, with a price step",
        ),
        pytest.param(
            ["localhost", "gpt-4o"],
            [
                "gpt-4o at localhost: a cached token at 0.5 of a plain one, a written one at 1",
                f"Assumed, as for gpt-4o of OpenAI: {UNLISTED}",
                "A million tokens, by OpenAI's price: $2.5, cached $1.25, written $2.5",
                "A million tokens of answers: $10",
                BLOCKS,
                "Context window: 128,000 tokens, prompt and answer",
                *own_price('model = "gpt-4o", ', 0.5, 1.0),
            ],
            id="another host",
        ),
        pytest.param(
            ["localhost"],
            [
                "A model of no known name at localhost: a cached token at 0.1 of a plain one, "
                "a written one at 1.25",
                f"Assumed: {UNLISTED}",
                BLOCKS,
                *own_price("", 0.1, 1.25, "No dollars are known here. "),
            ],
            id="nothing is known",
        ),
        pytest.param(
            ["own.example", "m"],
            [
                "m at own.example: a cached token at 0.3 of a plain one, a written one at 1",
                "By the configuration",
                BLOCKS,
            ],
            id="a price of one's own",
        ),
        pytest.param(
            ["api.anthropic.com", "claude-sonnet-5"],
            [
                "claude-sonnet-5 at api.anthropic.com: a cached token at 0.2 of a plain one, a "
                "written one at 1",
                "By the configuration; on the list it is claude-sonnet-5 of Anthropic",
                "A million tokens: $2, cached $0.4, written $2",
                "Assumed to be cached: prefixes of 1,024 tokens or more",
                "They are read up to a mark of an earlier request, 20 blocks before one of this "
                "request at most",
                "Context window: 1,000,000 tokens, prompt and answer",
            ],
            id="a price of one's own for a listed model",
        ),
    ],
)
def test_it_shows_which_prices_hold_and_why(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, asked: list[str], expected: list[str]
) -> None:
    shown = run(capsys, *asked, *configured(tmp_path))
    assert expected == [line.replace(str(tmp_path / "mine.toml"), "FILE") for line in shown]


def test_a_base_url_names_its_host(capsys: pytest.CaptureFixture[str]) -> None:
    expected = run(capsys, "api.anthropic.com", "claude-sonnet-5")
    assert expected == run(capsys, "https://api.anthropic.com/v1", "claude-sonnet-5")


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        (
            "openai",
            "Is openai in your own network? Other hosts have full names, as api.openai.com",
        ),
        ("gpu", "Is gpu in your own network? Other hosts have full names, as api.openai.com"),
        ("localhost", None),
        ("::1", None),
        ("llm.example.com", None),
    ],
)
def test_what_may_be_no_host_is_doubted(
    capsys: pytest.CaptureFixture[str], host: str, expected: str | None
) -> None:
    doubts = [line for line in run(capsys, host, "m") if line.startswith("Is ")]
    assert ([] if expected is None else [expected]) == doubts


def test_it_says_so_where_the_window_slides(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    options = configured(tmp_path, UNPRICED + b'cache_pricing = "none"\n')
    assert 'cache_pricing = "none"' == run(capsys, *options)[1]
    assert 'nevertheless: cache_pricing = "none"' in "".join(
        run(capsys, "api.openai.com", *options)
    )


def test_it_names_hosts_whose_records_show_no_cached_token(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    record = {"kind": "chat", "host": "gpu.example", "cached_tokens": 0, "replay": False,
              "predicted_cached_tokens": 5_000, "price_read_ratio": 0.1,
              "time": "2026-01-01T00:00:00.000+00:00", "path": "/", "masking": "on"}  # fmt: skip
    path = tmp_path / "records.jsonl"
    options = configured(tmp_path, f'[observation_masking.metrics]\npath = "{path}"\n'.encode())
    assert not any("hosts.uncached" in line for line in run(capsys, *options))
    lines = [*[json.dumps(record)] * 20, json.dumps(record | {"host": "other.example"})]
    path.write_text("\n".join(["{", "1", "{}", *lines, '{"host"']))
    (named,) = (line for line in run(capsys, *options) if "hosts.uncached" in line)
    assert named.endswith("hosts.uncached=gpu.example")
    assert named in run(capsys, "GPU.example", *options)
    assert named not in run(capsys, "other.example", *options)


def newer(folder: Path, date: str = "2027-01-01", **provider: object) -> Path:
    """Write a list in which a shop sells one model."""
    model = {"id": "m", "match": {"equals": "m"}, "input": 1, "cache_read": 0.4}
    shop: dict[str, Any] = {"id": "s", "name": "S", "api_pattern": "https://localhost/"}
    shop |= {"models": [model], **provider}
    file = folder / "newer.json"
    file.write_text(json.dumps({"date": date, "source": "us", "providers": [shop]}))
    return file


def test_a_newer_list_holds_until_it_is_removed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (said,) = run(capsys, "--update", newer(tmp_path))
    assert said == ("Stored: 1 prices of 2027-01-01. A running proxy uses it after a restart.")
    path = stored_path()
    assert (0o600, 0o700) == (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777)
    assert [path] == list(path.parent.iterdir())
    assert run(capsys)[0].endswith(f"1 models of 1 providers. It is {path}.")
    assert "By the price list of 2027-01-01: m of S" == run(capsys, "localhost", "m")[1]
    (said,) = run(capsys, "--reset")
    assert said.startswith("Removed.")
    assert ["Nothing to remove: the built-in list is in use."] == run(capsys, "--reset")
    assert run(capsys)[0].endswith("It came with the package.")


@pytest.mark.parametrize(("date", "is_older"), [("2000-01-01", True), (DATE, False)])
def test_a_stored_list_that_is_older_than_the_shipped_one_holds_and_is_named(
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
    date: str,
    is_older: bool,
) -> None:
    run(capsys, "--update", newer(tmp_path, date))
    assert f"By the price list of {date}: m of S" == run(capsys, "localhost", "m")[1]
    warning = f"the stored price list ({date}) is older than the shipped one ({DATE})"
    assert is_older == (warning in caplog.text)


def test_what_genai_prices_publishes_is_taken_too(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    prices = {"input_mtok": 2, "cache_read_mtok": 0.5}
    model = {"id": "m", "match": {"equals": "m"}, "prices": prices}
    shop = {"id": "s", "name": "S", "api_pattern": "https://localhost/", "models": [model]}
    file = tmp_path / "\x1b[2Jdata.json"
    file.write_text(json.dumps([shop]))
    run(capsys, "--update", file)
    assert "A million tokens: $2, cached $0.5, written $2" in run(capsys, "localhost", "m")
    assert "from genai-prices, \ufffd[2Jdata.json: 1 models" in run(capsys)[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["a.example:8080"], "without scheme, port or path in 'HOST'", id="a port"),
        pytest.param(["https://:1"], "without scheme, port or path in 'HOST'", id="no host"),
        pytest.param(["localhost", "--reset"], "--update and --reset take no host", id="both"),
        pytest.param(["--update", "missing.json"], "missing.json", id="no such file"),
        pytest.param(["--update", "bad.json"], "bad.json: expected dict, got int in 'providers[0]'",
                     id="no list"),
        pytest.param(["--update", "endless.json"], "not '+$' in it in 'providers[0].api_pattern'",
                     id="an expression that would never end"),
        pytest.param(["--update", "date.json"], "expected a date, as 2026-01-31 in 'date'",
                     id="no date"),
        pytest.param(["--update", "pipe"], "cannot read the price list pipe: not a regular file",
                     id="a pipe"),
        pytest.param(["--update", "/dev/zero"], "price list /dev/zero: not a regular file",
                     id="a device"),
        pytest.param(["--update", "large.json"], "large.json: larger than 10 MB", id="too long"),
        pytest.param(["--config", "missing.toml"], "missing.toml", id="no such configuration"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_and_changes_nothing(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    run(capsys, "--update", newer(tmp_path))
    stored = stored_path().read_bytes()
    Path("bad.json").write_text("[1]")
    newer(tmp_path, api_pattern="(a+)+$").rename("endless.json")
    newer(tmp_path, "\x1b]0;title\x07").rename("date.json")
    os.mkfifo("pipe")
    with Path("large.json").open("wb") as large:
        large.truncate(10_000_001)
    assert main(["prices", *arguments]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert stored == stored_path().read_bytes()


def test_a_list_that_cannot_be_written_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run(capsys, "--update", newer(tmp_path))
    stored = stored_path()
    stored.unlink()
    (stored / "in the way").mkdir(parents=True)
    assert main(["prices", "--update", str(newer(tmp_path))]) == 1
    assert "Is a directory" in capsys.readouterr().err
    assert [stored] == list(stored.parent.iterdir())


# In a running proxy


@pytest.fixture(scope="module")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Upstream]:
    with running_upstream(tmp_path_factory.mktemp("upstream")) as running:
        yield running


@pytest.mark.live
@pytest.mark.parametrize(
    ("provider", "source", "is_told"),
    [
        pytest.param({}, "price list", False, id="a list that can be used"),
        pytest.param({"api_pattern": "("}, "assumed", True, id="a broken one"),
        pytest.param(
            {"model_match": {"regex": "^(a|a)*$"}}, "assumed", True, id="one that would never end"
        ),
    ],
)
def test_a_proxy_takes_up_the_stored_list_at_its_start(
    upstream: Upstream, tmp_path: Path, provider: dict[str, object], source: str, is_told: bool
) -> None:
    folder = tmp_path / ".local" / "share" / "observation-masking"
    folder.mkdir(parents=True)
    newer(folder, "2027-01-01", **provider).rename(folder / "prices.json")
    with running_addon(tmp_path, upstream, config=UNPRICED) as live:
        live.send("/other/v1/chat/completions", encoded(conversation(model="a" * 30 + "b")))
        live.send("/v1/chat/completions", encoded(conversation(model="m")))
        record = live.record("/v1/chat/completions")
    assert source == record["price_source"]
    assert is_told == ("is ignored, and the shipped price list is used" in live.proxy.log)

"""`obsmask status` on the records of a real proxy, and of a recording that mitmdump plays."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from addon.commands.demo import write_config
from addon.commands.main import main
from addon.recordings.flows import read_flows, write_flows
from tests.live.harness import (
    Live,
    answer,
    conversation,
    encoded,
    eventually,
    run_mitmdump,
    running_addon,
    running_upstream,
    stream,
)
from tests.support.places import RECORDINGS, ROOT

CHAT = "/v1/chat/completions"


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A proxy that was asked for a masked answer, for a stream, and in vain."""
    folder = tmp_path_factory.mktemp("live")
    with (
        running_upstream(tmp_path_factory.mktemp("upstream")) as upstream,
        running_addon(folder, upstream, "--set", "mask_tag=tried") as running,
    ):
        for turns, said in enumerate(
            (answer(b"{}"), stream(b"data: {}\n\n"), answer(b"{}", status=500)), start=5
        ):
            running.sink.answers[CHAT] = said
            running.send(CHAT, encoded(conversation(turns)), user_agent="tester/1.0")
        eventually(lambda: len(running.records()) == 3 or None)
        yield running


def read_status(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, live: Live, *options: str
) -> dict[str, Any]:
    monkeypatch.setenv("XDG_STATE_HOME", str(live.folder / "state"))
    config = str(live.folder / "config.toml")
    assert main(["status", "--since", "1h", "--json", "--config", config, *options]) == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    return told


def test_it_counts_what_a_proxy_recorded(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, live: Live
) -> None:
    told = read_status(capsys, monkeypatch, live, "--by", "client", "--tag", "tried")
    (group,) = told["groups"]
    records = live.records()
    assert ("tester", 3, 1) == (group["key"], group["requests"], group["conversations"])
    assert {"on": {"failures": 1, "by_cause": {"500": 1}}} == group["failures_by_masking"]
    assert sum(each["masked"] for each in records) == group["masked_results"] > 0
    before = sum(each["request_tokens_before"] for each in records)
    assert before == group["tokens_before"] > group["tokens_after"]
    waits = [group[f"first_chunk_{each}"]["answers"] for each in ("without_move", "after_move")]
    assert 1 == sum(waits)
    assert 0 == read_status(capsys, monkeypatch, live, "--tag", "other")["total"]["requests"]


@pytest.mark.parametrize(("form", "least"), [("--csv", 4), ("--jsonl", 3)])
def test_it_prints_the_records(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    live: Live,
    form: str,
    least: int,
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(live.folder / "state"))
    assert main(["status", form, "--config", str(live.folder / "config.toml")]) == 0
    assert least == len(capsys.readouterr().out.splitlines())


def test_the_page_of_the_documentation_is_what_its_commands_print(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write_flows(tmp_path / "in.flow", read_flows(RECORDINGS / "qwen-code-long.flow.xz"))
    config = write_config(tmp_path)
    options = ("--set", f"mask_config={config}", "-nr", str(tmp_path / "in.flow"))
    assert 0 == run_mitmdump(tmp_path, *options).returncode
    # The days are those on which it was written.
    path = tmp_path / "requests.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()]
    lines = (json.dumps(each | {"time": "2026-11-22T19:44:00.000+00:00"}) for each in records)
    path.write_text("\n".join(lines))
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        assert 0 == main(["status", "--replayed", "--since", "2026-11-16", "--records", str(path)])
    time.tzset()
    shown = capsys.readouterr().out.replace(str(path), "/tmp/played.jsonl")
    page = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    beginning = page.partition("```\nReplayed requests since")[2].partition("...\n```")[0].split()
    assert len(beginning) > 30
    assert beginning == shown.partition("Replayed requests since")[2].split()[: len(beginning)]

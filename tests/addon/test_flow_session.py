"""Recordings of one's own: made with masking on, cut off, or none at all."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from addon.commands.main import main
from addon.proxy.marks import METADATA_ORIGINAL, find_original
from addon.proxy.server import running_proxy
from addon.recordings.expectations import write_config
from addon.recordings.flows import read_flows, write_flows
from addon.recordings.provider.provider import Provider
from addon.recordings.provider.script import Reply
from addon.recordings.scrub import scrub_recording
from tests.live.harness import SECONDS, environment
from tests.sessions import CHATS

SESSION = CHATS[0]
BODIES = [flow.request.content or b"" for flow in read_flows(SESSION)]


@pytest.fixture(scope="module")
def masked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording that a user made: `mitmdump -w session.flow -s addon/mask.py`."""
    folder = tmp_path_factory.mktemp("masked")
    path = folder / "session.flow"
    config = write_config(folder, "none")
    options = ("-w", str(path), "--set", f"mask_config={config}")
    with (
        Provider(lambda _: Reply(content="Done.")) as provider,
        running_proxy(folder, *options, env=environment(folder)) as proxy,
        httpx.Client(proxy=proxy.url, timeout=SECONDS) as client,
    ):
        for body in BODIES:
            client.post(f"{provider.url}/chat/completions", content=body).raise_for_status()
    return path


def replay(capsys: pytest.CaptureFixture[str], *paths: Path) -> Any:  # noqa: ANN401 - JSON
    assert main(["replay", *map(str, paths), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.live
def test_a_masked_recording_is_replayed_by_what_the_client_wrote(
    masked: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flows = list(read_flows(masked))
    changed = [flow.request.content != body for flow, body in zip(flows, BODIES, strict=True)]
    assert sum(changed) > 10
    for flow, body, was_changed in zip(flows, BODIES, changed, strict=True):
        flow.metadata.clear()
        flow.request.content = body
        flow.response = None if was_changed else flow.response
    write_flows(tmp_path / "session.flow", flows)
    assert replay(capsys, tmp_path / "session.flow") == replay(capsys, masked)


@pytest.mark.live
def test_a_masked_recording_is_scrubbed_with_what_the_client_wrote(
    masked: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scrubbed = tmp_path / "session.flow"
    scrub_recording(masked, scrubbed)
    text = "".join(str(find_original(flow) or b"") for flow in read_flows(scrubbed))
    assert "these words stand where other words stood" in text
    assert "import complete" not in text
    assert result_counts(capsys, masked) == result_counts(capsys, scrubbed)


def result_counts(capsys: pytest.CaptureFixture[str], path: Path) -> list[tuple[int, int]]:
    """Return, request by request, how many results it holds and how many had been masked before."""
    (session,) = replay(capsys, path)["conversations"]
    requests = session["per_request"]
    return [(each["tool_results"], each["kept"].get("already_masked", 0)) for each in requests]


def without_originals(path: Path, out: Path) -> Path:
    flows = list(read_flows(path))
    for flow in flows:
        flow.metadata.pop(METADATA_ORIGINAL, None)
    write_flows(out, flows)
    return out


def with_damaged_originals(path: Path, out: Path) -> Path:
    flows = list(read_flows(path))
    for flow in flows:
        if METADATA_ORIGINAL in flow.metadata:
            flow.metadata[METADATA_ORIGINAL] = b"damaged"
    write_flows(out, flows)
    return out


def cut_off(path: Path, out: Path) -> Path:
    out.write_bytes(path.read_bytes()[:-1_000])
    return out


def foreign(_: Path, out: Path) -> Path:
    out.write_bytes(b"plain text")
    return out


REFUSED = pytest.mark.parametrize(
    ("make", "problem"),
    [
        pytest.param(without_originals, "of 21 requests were masked before", id="no originals"),
        pytest.param(with_damaged_originals, "of 21 requests were masked before", id="damaged"),
        pytest.param(foreign, "is no complete mitmproxy recording", id="no recording"),
    ],
)


@pytest.mark.live
@REFUSED
@pytest.mark.parametrize("command", ["replay", "tune"])
def test_a_recording_that_says_nothing_is_refused_by_its_name(
    make: Callable[[Path, Path], Path],
    problem: str,
    command: str,
    masked: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    refused = make(masked, tmp_path / "mine.flow")
    assert main([command, str(refused)]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"obsmask: {refused}")
    assert problem in said


@pytest.mark.live
@REFUSED
def test_in_a_folder_it_is_left_out_by_its_name(
    make: Callable[[Path, Path], Path],
    problem: str,
    masked: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    refused = make(masked, tmp_path / "mine.flow")
    write_flows(tmp_path / "whole.flow", read_flows(SESSION))
    assert main(["replay", str(tmp_path), "--json"]) == 0
    shown, said = capsys.readouterr()
    assert ["whole"] == [each["name"] for each in json.loads(shown)["conversations"]]
    assert f"obsmask: left out: {refused}" in said
    assert problem in said


def test_the_whole_flows_of_a_truncated_recording_are_replayed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cut = cut_off(SESSION, tmp_path / "cut.flow")
    for path in (cut, tmp_path):
        assert main(["replay", str(path), "--json"]) == 0
        shown, said = capsys.readouterr()
        assert len(BODIES) - 1 == json.loads(shown)["total"]["requests"]
        assert f"obsmask: {cut} is no complete mitmproxy recording: " in said
        assert f"; only the {len(BODIES) - 1} flows before that are read\n" in said


def test_several_prices_read_a_recording_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cut = cut_off(SESSION, tmp_path / "cut.flow")
    assert main(["replay", str(cut), "--prices", "0.1,1", "--prices", "0.5,1"]) == 0
    assert 1 == capsys.readouterr().err.count("is no complete mitmproxy recording")


@pytest.mark.live
def test_a_recording_from_behind_a_masking_proxy_is_warned_of(
    masked: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It holds no word of the addon's, but placeholders."""
    flows = list(read_flows(masked))
    for flow in flows:
        flow.metadata.clear()
    write_flows(tmp_path / "behind.flow", flows)
    assert main(["replay", str(tmp_path / "behind.flow"), "--json"]) == 0
    said = capsys.readouterr().err
    assert said.startswith("obsmask: behind")
    assert ": old results were masked before this was recorded, " in said

"""The recorder of an MCP client, on loopback: what it makes, and what it says where it cannot."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from addon.places import shipped
from addon.recordings.flows import read_flows
from tests.tools.studio import mcp_recorder
from tests.tools.studio.__main__ import command
from tests.tools.studio.mcp_recorder import record_mcp


def bodies(path: Path) -> list[tuple[bytes | None, bytes | None]]:
    return [
        (each.request.content, each.response.content if each.response else None)
        for each in read_flows(path)
    ]


@pytest.mark.thorough
@pytest.mark.live
def test_the_shipped_recording_regenerates(tmp_path: Path) -> None:
    again, more = tmp_path / "again.flow", tmp_path / "more.flow"
    done = CliRunner().invoke(command, ["mcp-files", str(again)])
    assert (0, f"{again}: 16 requests\n") == (done.exit_code, done.stdout)
    assert bodies(shipped("recordings") / "mcp-files.flow") == bodies(again)
    assert record_mcp(more) == 16
    assert again.read_bytes() == more.read_bytes()


def test_without_the_package_it_says_what_is_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_recorder, "find_spec", lambda _: None)
    done = CliRunner().invoke(command, ["mcp-files", str(tmp_path / "out.flow")])
    assert 1 == done.exit_code
    said = "Error: recording mcp-files needs the mcp package: pip install 'mcp>=1.24,<2'"
    assert said == done.stderr.splitlines()[-1]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.live
def test_a_client_that_takes_too_long_leaves_no_recording(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="the client had not ended after 0 seconds"):
        record_mcp(tmp_path / "out.flow", time_limit=0)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.live
def test_a_client_that_fails_leaves_no_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_recorder, "_AGENT", tmp_path / "missing.py")
    with pytest.raises(RuntimeError, match=r"the client failed; it printed:\n.*missing\.py"):
        record_mcp(tmp_path / "out.flow")
    assert list(tmp_path.iterdir()) == []

"""`obsmask page`: the page of a proxy that runs, or else the history by itself."""

import signal
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest

from addon.commands.main import main
from addon.commands.page import open_page
from addon.config_commands import Advice
from addon.page.server import render_no_page
from addon.records.sessions import RunFile, Running
from masking.config import PageSettings
from tests.support.ports import hold_port


def test_without_a_proxy_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    address = f"127.0.0.1:{hold_port()}"
    assert 1 == main(["page", "--proxy", address])
    told = f"obsmask: no proxy with the addon answers at http://{address}. For another one: "
    assert f"{told}obsmask page --proxy ADDRESS, which its log names\n" == capsys.readouterr().err


def test_an_address_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert 2 == main(["page", "--proxy", "nonsense"])
    assert "expected the address of a proxy, as 127.0.0.1:8080: nonsense" in capsys.readouterr().err


def test_without_a_screen_no_browser_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    assert not open_page("http://127.0.0.1:1/", {})


def test_a_page_that_cannot_be_served_is_told_with_what_to_do() -> None:
    error = PermissionError(13, "Permission denied (while attempting to bind on an address)")
    told = render_no_page(PageSettings(port=80), error, Advice())
    assert told == (
        "no page at 127.0.0.1:80: Permission denied; "
        "for any free port: obsmask config set page.port=0"
    )


BEGAN = "2026-01-01T00:00:00+00:00"


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "observation-masking"


def test_it_finds_the_proxy_that_runs_without_being_told(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = RunFile(state, Running("5eed", BEGAN, "w", "http://127.0.0.1:1/"))
    assert 0 == main(["page", "--print"])
    file.close()
    assert ("http://127.0.0.1:1/\n", "") == capsys.readouterr()


def test_of_several_it_lists_all_and_shows_the_latest(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [
        RunFile(state, Running(f"run{n}", BEGAN.replace("00:00:00", f"00:0{n}:00"), f"w{n}", page))
        for n, page in enumerate(("http://127.0.0.1:1/", None, "http://127.0.0.1:2/"))
    ]
    assert 0 == main(["page", "--print"])
    for file in files:
        file.close()
    told = capsys.readouterr()
    assert "http://127.0.0.1:2/\n" == told.out
    first, *listed = told.err.splitlines()
    assert "obsmask: 2 proxies are running, the latest first:" == first
    assert ["(run run2)", "(run run0)"] == [each[each.index("(") :] for each in listed]


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT can be sent there")
def test_without_a_proxy_it_serves_the_history_until_it_is_interrupted(state: Path) -> None:
    command = [sys.executable, "-m", "addon.commands.main", "page", "--print"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        with urlopen(url, timeout=60) as answer:
            assert f"{url}history" == answer.url
        with urlopen(f"{url}sessions", timeout=60) as answer:
            assert b'"sessions":[]' in answer.read()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
    told = "obsmask: no running proxy shows its page; this is the history. Ctrl-C ends it\n"
    assert (0, told) == (process.returncode, err)

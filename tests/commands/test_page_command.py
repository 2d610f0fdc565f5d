import pytest

from addon.commands.main import main
from addon.commands.page import open_page
from addon.config import render_no_page
from addon.config_commands import Advice
from addon.network import find_free_port
from masking.config import PageSettings


def test_without_a_proxy_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    address = f"127.0.0.1:{find_free_port()}"
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

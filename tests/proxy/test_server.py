"""The proxy is there when it is said to be, and gone afterwards."""

import re
import socket
from pathlib import Path

import pytest

from addon.proxy.environment import render_call
from addon.proxy.server import running_proxy
from tests.live.harness import environment
from tests.support.marks import as_one_test
from tests.support.places import CONFIG, ROOT


@pytest.mark.live
def test_a_proxy_is_there_within_the_block_and_gone_behind_it(tmp_path: Path) -> None:
    with running_proxy(tmp_path, env=environment(tmp_path)) as proxy:
        socket.create_connection(("127.0.0.1", proxy.port)).close()
        assert "observation-masking" in proxy.log
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", proxy.port))


@pytest.mark.live
def test_a_proxy_is_gone_behind_a_block_that_raises(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), running_proxy(tmp_path, env=environment(tmp_path)) as it:
        raise ZeroDivisionError
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", it.port))


@pytest.mark.live
def test_a_proxy_that_does_not_start_says_why(tmp_path: Path) -> None:
    launched = running_proxy(tmp_path, "--mode", "nonsense", env=environment(tmp_path))
    with pytest.raises(RuntimeError, match="nonsense"), launched:
        pass


WRITTEN = [
    *(ROOT / "docs").rglob("*.md"),
    *ROOT.glob("*.md"),
    CONFIG,
    *(path for path in (ROOT / "addon").rglob("*.py") if "studio" not in path.parts),
]


def test_no_command_that_is_written_down_opens_the_proxy_to_other_machines() -> None:
    """Without a host of its own mitmdump listens on every interface; with `-n` on none."""
    start = re.compile(r"mitm(?:dump|web|proxy)\b[^`\n]* -\w* ?[^`\n]*mask\.py")
    commands = [found for path in WRITTEN for found in start.findall(path.read_text())]
    assert len(commands) > 3
    assert [] == [each for each in commands if not re.search(r" --listen-host | -n", each)]


CALLS = {
    "as shipped": (("127.0.0.1", 8080), 'eval "$(obsmask env)"'),
    "another port": (
        ("127.0.0.1", 8081),
        'eval "$(obsmask env --proxy http://127.0.0.1:8081)"',
    ),
    "another address": (("192.0.2.1", 8080), 'eval "$(obsmask env --proxy http://192.0.2.1:8080)"'),
    "IPv6": (("::1", 8080, 0, 0), 'eval "$(obsmask env --proxy http://[::1]:8080)"'),
    "every address": (("0.0.0.0", 8080), 'eval "$(obsmask env)"'),
    "every address of IPv6": (("::", 8080, 0, 0), 'eval "$(obsmask env)"'),
}


@as_one_test
@pytest.mark.parametrize("case", CALLS.values(), ids=CALLS)
def test_the_command_leads_to_where_the_proxy_listens(
    case: tuple[tuple[object, ...], str],
) -> None:
    listening, expected = case
    assert expected == render_call(listening)

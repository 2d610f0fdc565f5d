"""Where `obsmask ext-proc` listens."""

import contextlib
import socket

import pytest

pytest.importorskip("grpc_health", reason="needs the extra envoy")

from addon.commands.main import main
from tests.support.ports import hold_port


def test_a_port_that_is_taken_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """Here it is that of the second process."""
    for first in iter(hold_port, None):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", first + 1)):
            assert 1 == main(["ext-proc", "--port", str(first), "--workers", "2"])
            break
    assert f"127.0.0.1:{first + 1}: Address already in use" in capsys.readouterr().err


def test_there_is_no_port_after_the_last(capsys: pytest.CaptureFixture[str]) -> None:
    assert 1 == main(["ext-proc", "--port", "65535", "--workers", "2"])
    assert "127.0.0.1:65536: " in capsys.readouterr().err

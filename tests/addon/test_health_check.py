"""What listens at an address is told from what does not."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from addon.network import Address
from addon.proxy.health_check import check_health


@contextmanager
def answering(answer: bytes) -> Iterator[Address]:
    """Listen once, and say this to whatever is asked."""

    def serve() -> None:
        connection, _ = server.accept()
        with connection:
            connection.recv(65_536)
            connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve)
        thread.start()
        yield Address("127.0.0.1", server.getsockname()[1])
        thread.join()


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 3\r\n\r\nno!",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\ncontent-length: 200\r\n\r\n{",
    ],
    ids=["no HTTP", "another proxy", "another's health", "cut off"],
)
def test_what_is_no_proxy_of_ours_has_no_health(answer: bytes) -> None:
    with answering(answer) as address:
        assert check_health(address) is None


def test_a_port_that_nobody_listens_on_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(ConnectionRefusedError):
        check_health(Address("127.0.0.1", port))

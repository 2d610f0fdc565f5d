"""Ports of loopback for what a test starts, or says is not there."""

import socket

_held: list[socket.socket] = []


def hold_port() -> int:
    """Return a port that nobody else on this machine gets until the tests end.

    A socket stays bound to it and does not listen. So a connection to it is refused, and a server
    can listen on it that sets SO_REUSEADDR or SO_REUSEPORT, as all do that tests start.
    """
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    holder.bind(("127.0.0.1", 0))
    _held.append(holder)
    return int(holder.getsockname()[1])

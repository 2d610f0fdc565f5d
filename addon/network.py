"""Addresses: which are this machine, how they are written, and where a port is free.

Two questions look alike, and each has its function:

- `is_this_machine`: where does a client end up that asks for a host? Here, for loopback and for the
  unspecified addresses, `0.0.0.0` and `::`, which systems connect to as if they were loopback.
- `is_loopback`: who can reach what listens at a host? This machine alone, for loopback; but at an
  unspecified address every machine, because it stands for all addresses of this one.
"""

import contextlib
import ipaddress
import random
import socket
from typing import NamedTuple
from urllib.parse import urlsplit

LOOPBACK_HOST = "127.0.0.1"
"""Where whatever we start listens."""

LOOPBACK_NAMES = ("localhost", LOOPBACK_HOST, "::1")
"""The names by which programs on this machine call it, as a rule."""

_PORTS_TO_TRY = range(10_000, 32_768)
"""Below those that systems give to connections, and to servers that name no port."""

_MOST_TRIES = 1_000


def bracket(host: str) -> str:
    """Return a host as it stands before a port: an IPv6 address gets brackets."""
    return f"[{host}]" if ":" in host else host


class Address(NamedTuple):
    """Where something listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{bracket(self.host)}:{self.port}"

    @property
    def url(self) -> str:
        """The address as a proxy variable has it."""
        return f"http://{self}"


DEFAULT_ADDRESS = Address(LOOPBACK_HOST, 8080)
"""Where a proxy listens if nothing else is asked for."""

DEFAULT_URL = DEFAULT_ADDRESS.url


def read_address(text: str) -> Address:
    """Read the address of a proxy: `127.0.0.1:8080`, `http://localhost:8080`.

    Raises ValueError if it is none.
    """
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        host, port = parts.hostname, parts.port
    except ValueError:  # the port is no number, or too large
        host = port = None
    if not host or not port or parts.scheme not in ("http", "https") or parts.path.strip("/"):
        raise ValueError(f"expected the address of a proxy, as 127.0.0.1:8080: {text}")
    return Address(host, port)


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, and nothing that other machines can reach.

    `localhost` is, and so is every name below it (RFC 6761, 6.3), whatever a resolver says of it.
    """
    address = read_ip(host)
    if address is None:
        return f".{_normalize(host)}".endswith(".localhost")
    return address.is_loopback


def is_unspecified(host: str) -> bool:
    """Whether a host is `0.0.0.0` or `::`, at which one listens on all addresses of a machine."""
    address = read_ip(host)
    return address is not None and address.is_unspecified


def is_this_machine(host: str) -> bool:
    """Whether who asks for a host gets to this machine, without any network."""
    return is_loopback(host) or is_unspecified(host)


def reach(host: str, port: int) -> Address:
    """Return the address at which programs on this machine reach what listens at another one."""
    return Address(LOOPBACK_HOST if is_unspecified(host) else host, port)


def read_ip(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return a host's address, with brackets or without; None if it is a name.

    One of IPv4 that is written as one of IPv6, `::ffff:127.0.0.1`, is returned as what it is.
    """
    try:
        address = ipaddress.ip_address(_normalize(host).strip("[]"))
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def find_free_port() -> int:
    """Return a port of loopback that is free now, and that this process has not been given before.

    Nothing holds it: another program that asks for this very number can take it. The system gives
    none of these to a program that asks for any. Raises OSError if there is none.
    """
    for port in random.sample(_PORTS_TO_TRY, _MOST_TRIES):
        with contextlib.suppress(OSError), socket.create_server((LOOPBACK_HOST, port)):
            if port not in _given_ports:
                _given_ports.add(port)
                return port
    raise OSError("no port is free")


_given_ports: set[int] = set()


def _normalize(host: str) -> str:
    return host.lower().rstrip(".")

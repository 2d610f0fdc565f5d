"""Base URLs: of model servers, and the proxy's own in front of them.

The proxy's own lead to its port, and name the server in their path:
`http://127.0.0.1:8080/to/https/llm.example.com/v1`. Clients that use them need no proxy variable
and no CA. `BaseUrlRouter` in `addon/proxy/routes.py` serves them; commands write them, so this does
not load mitmproxy.
"""

import ipaddress
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import urlsplit

from mitmproxy.net.check import is_valid_host

from addon.agents import AGENTS
from addon.network import Address, bracket, is_this_machine
from addon.vendors import ANTHROPIC, VENDORS

_TO = "/to/"
_TARGET = re.compile(
    r"(?P<scheme>https?)/"
    r"(?:(?P<name>[\w.-]+)|(?:\[|%5B)(?P<ipv6>[\da-f:.]+)(?:\]|%5D))"
    r"(?::(?P<port>[1-9]\d{0,4}))?"
    r"(?P<rest>[/?].*)?",
    re.ASCII | re.DOTALL | re.IGNORECASE,
)
"""What follows `/to/`. Some clients write brackets in a path as `%5B` and `%5D`."""

_VARIABLES: Mapping[str, str] = {
    name: path for vendor in VENDORS for name, path in vendor.variables.items()
}
"""Each with the path that a client expects in it."""

BASE_URLS = tuple(
    dict.fromkeys(
        (
            *(*_VARIABLES, "AZURE_OPENAI_ENDPOINT"),
            *(agent.base_url for agent in AGENTS if agent.base_url),
        )
    )
)
"""Where clients look for a model."""

_PORTS = {"http": 80, "https": 443}
_MOST_PORTS = 65_535


class Server(NamedTuple):
    """A model's server: where it is, and the path that its base URL has."""

    scheme: str
    host: str
    port: int
    path: str = ""

    @property
    def authority(self) -> str:
        """Host and port, the latter unless it is its scheme's own: what a `Host` header says."""
        host = bracket(self.host)
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """Its base URL."""
        return f"{self.scheme}://{self.authority}{self.path}"


VENDOR = Server("https", ANTHROPIC.host, 443)
"""Where claude-code signs what it sends, unless a base URL leads it elsewhere."""


def read_host(url: str) -> str:
    """Return the host of a URL; empty if it has none."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:  # brackets that are left open
        return ""


def read_server(url: str) -> Server:
    """Read a base URL: `http://localhost:11434`, `https://llm.example.com/v1`.

    Raises ValueError if it is none.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or _PORTS.get(parts.scheme)
    except ValueError:  # the port is no number, or too large
        host = port = None
    if not host or not port or parts.scheme not in _PORTS or parts.query or parts.username:
        raise ValueError(f"expected the base URL of a server, as http://localhost:11434: {url}")
    return Server(parts.scheme, host, port, parts.path.rstrip("/"))


def behind(address: Address, server: Server) -> str:
    """Return the base URL of the proxy that listens at `address`, in front of a server."""
    return f"{address.url}{_TO}{server.scheme}/{server.authority}{server.path}"


def read_behind(path: str) -> Server | None:
    """Return the server that a request's path names, as in such a base URL; None if it names none.

    The server's `path` is the rest of it, with the query, untouched. Raises ValueError, with what
    is wrong, if the path begins as one of ours does and names no server.
    """
    if not path.startswith(_TO):
        return None
    found, host = _TARGET.fullmatch(path.removeprefix(_TO)), None
    if found:
        with suppress(ValueError):  # what stands in brackets is no address
            host = found["name"] or str(ipaddress.IPv6Address(found["ipv6"]))
    # mitmproxy never answers a request to what is no host, and asks this of no path.
    if host and not is_valid_host(host.encode()):
        host = None
    port = found and int(found["port"] or _PORTS[found["scheme"].lower()])
    if not found or not host or not port or port > _MOST_PORTS:
        raise ValueError("expected /to/SCHEME/HOST[:PORT]/PATH, as /to/https/llm.example.com/v1")
    return Server(found["scheme"].lower(), host, port, found["rest"] or "")


def read_target(url: str) -> Server:
    """Read a base URL: the server that it leads to, behind a proxy of ours as well.

    Raises ValueError if it is none.
    """
    server = read_server(url)
    target = read_behind(server.path) if is_this_machine(server.host) else None
    return server if target is None else target


def point_at(address: Address, server: Server, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that lead clients to a server by way of the proxy's own port.

    These are the variables that name the server already, or else all that are not set: one that
    leads elsewhere is left alone.
    """
    named = {}
    for name in _VARIABLES:
        value = environment.get(name, "")
        with suppress(ValueError):
            # OLLAMA_HOST may have no scheme.
            found = read_server(value if "://" in value else f"http://{value}")
            if _normalize(found) == _normalize(server):
                named[name] = behind(address, server._replace(path=found.path))
    return named or {
        name: behind(address, server._replace(path=(server.path or path) if path else ""))
        for name, path in _VARIABLES.items()
        if not environment.get(name)
    }


def _normalize(server: Server) -> tuple[str, int]:
    """Return where a server is: all names of this machine are one."""
    return ("localhost" if is_this_machine(server.host) else server.host), server.port

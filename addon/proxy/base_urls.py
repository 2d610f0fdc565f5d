"""The variables by which clients find a model's server: reverse mode takes its place there.

A client leaves its own machine out of every proxy, and so a local model server is reached by
another base URL.
"""

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

_OPENAI_PATH = "/v1"

_VARIABLES: Mapping[str, str] = {
    "OPENAI_BASE_URL": _OPENAI_PATH,
    "OPENAI_API_BASE": _OPENAI_PATH,
    "ANTHROPIC_BASE_URL": "",
    "GOOGLE_GEMINI_BASE_URL": "",
    "OLLAMA_HOST": "",
    "OLLAMA_API_BASE": "",
}
"""Each with the path that a client expects in it."""

_LOOPBACK = ("localhost", "::1", "0.0.0.0")  # noqa: S104 - ollama's server is called so, too

_PORTS = {"http": 80, "https": 443}


class Server(NamedTuple):
    """A model's server: where it is, and the path that its base URL has."""

    scheme: str
    host: str
    port: int
    path: str = ""

    @property
    def origin(self) -> str:
        """What mitmproxy's reverse mode takes."""
        return f"{self.scheme}://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


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


def point_at(port: int, server: Server, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that lead clients to our port instead of to a server.

    These are the variables that name the server already, or else all that are not set: one that
    leads elsewhere is left alone.
    """
    ours = f"http://127.0.0.1:{port}"
    named = {
        name: f"{ours}{found.path}"
        for name in _VARIABLES
        if (found := _read_or_none(environment.get(name, ""))) and _is_same(found, server)
    }
    return named or {
        name: f"{ours}{server.path or path}" if path else ours
        for name, path in _VARIABLES.items()
        if not environment.get(name)
    }


def _read_or_none(url: str) -> Server | None:
    try:
        return read_server(url if "://" in url else f"http://{url}")  # OLLAMA_HOST may have none
    except ValueError:
        return None


def _is_same(one: Server, other: Server) -> bool:
    return _normalize(one) == _normalize(other)


def _normalize(server: Server) -> tuple[str, int]:
    is_here = server.host in _LOOPBACK or server.host.startswith("127.")
    return ("localhost" if is_here else server.host), server.port

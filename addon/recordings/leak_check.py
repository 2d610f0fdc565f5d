"""Finds what must not be published: secrets, and the names of this machine and its user."""

import getpass
import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path

from mitmproxy import http

from addon.proxy.marks import find_original, find_original_message
from masking.edit import find_strings

_Sign = tuple[tuple[str, ...], re.Pattern[str]]
"""Texts of which one must be there, which is found fast, and the pattern that must match."""

SECRETS: dict[str, _Sign] = {
    "an API key": (("sk-",), re.compile(r"\bsk-[A-Za-z0-9_-]{16,}")),
    "a bearer token": (
        ("earer", "EARER"),
        re.compile(r"\bBearer\s+[\w.~+/=-]{16,}", re.IGNORECASE | re.ASCII),
    ),
    "an AWS key": (("AKIA", "ASIA"), re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b")),
    "a GitHub token": (
        ("gh", "github_pat_"),
        re.compile(r"\b(?:gh[pousr]_|github_pat_)[A-Za-z0-9_]{20,}"),
    ),
    "a Google key": (("AIza",), re.compile(r"\bAIza[0-9A-Za-z_-]{30,}")),
    "a Slack token": (("xox",), re.compile(r"\bxox[abprs]-[0-9A-Za-z-]{10,}")),
    "a signed token": (("eyJ",), re.compile(r"\beyJ[\w-]{10,}\.[\w-]{10,}\.", re.ASCII)),
    "a key or certificate": (("-----BEGIN ",), re.compile(r"-----BEGIN ")),
}
_COMMON_USERS = ("root", "user", "admin", "runner", "ubuntu", "debian", "guest", "test", "dev")
_COMMON_HOSTS = ("localhost", "host", "home", "work", "build", "docker", "python", "node", "agent")
COMMON_NAMES = frozenset((*_COMMON_USERS, *_COMMON_HOSTS))
"""User and host names that are everyday words and identify nobody."""

SHORTEST_NAME = 3


def check(flow: http.HTTPFlow, number: int) -> None:
    """Raise ValueError if something must not get out; it names the place, not what is there."""
    patterns = SECRETS | _own_names()
    for place, text in _texts(flow):
        for what, (cues, pattern) in patterns.items():
            if any(cue in text for cue in cues) and (found := pattern.search(text)):
                where = _place(text, found.start())
                raise ValueError(f"{what} is still in request {number}, {place}{where}")


def own_home() -> Path | None:
    """Return the user's home folder; None if that is the root folder."""
    home = Path.home()
    return home if home.name else None


def _texts(flow: http.HTTPFlow) -> Iterator[tuple[str, str]]:
    yield "its URL", flow.request.url
    for name, message in (("request", flow.request), ("response", flow.response)):
        if message is None:
            continue
        yield f"the {name}'s headers", bytes(message.headers).decode("latin-1")
        body = message.get_content(strict=False) or b""
        yield f"the {name}'s body", body.decode(errors="replace")
    for number, said in enumerate(flow.websocket.messages if flow.websocket else ()):
        yield f"message {number}", said.content.decode(errors="replace")
        original = find_original_message(flow, number) or b""
        yield f"message {number} as the client wrote it", original.decode(errors="replace")
    yield "the client's own body", (find_original(flow) or b"").decode(errors="replace")


def _place(text: str, offset: int) -> str:
    """Return where in a body an offset lies: a path, or else a position."""
    try:
        spans = list(find_strings(text))
    except ValueError:
        return f", position {offset}"
    path = next((span.path for span in spans if span.start <= offset < span.end), None)
    return f", position {offset}" if path is None else f", at {'.'.join(map(str, path))}"


def _own_names() -> dict[str, _Sign]:
    """Return cues and patterns for the names of the user, of the host and of the home folder."""
    names = {"the user's name": _user(), "the host's name": socket.gethostname().split(".")[0]}
    patterns: dict[str, _Sign] = {
        what: ((name,), re.compile(rf"\b{re.escape(name)}\b"))
        for what, name in names.items()
        if len(name) >= SHORTEST_NAME and name.lower() not in COMMON_NAMES
    }
    if home := own_home():
        spelt = json.dumps(str(home))[1:-1]
        patterns["the home folder"] = ((spelt,), re.compile(rf"{re.escape(spelt)}(?!\w)"))
    return patterns


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return ""

"""The tables of clients in docs/agents.md and docs/measured/clients.md.

They are written from docs/clients.toml, which says what each of its fields means.
"""

import textwrap
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, StringConstraints

from tests.support.places import ROOT

DATA = ROOT / "docs" / "clients.toml"

Text = Annotated[str, StringConstraints(min_length=1)]


class _Row(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class Client(_Row):
    name: Text
    way: str
    kind: Literal["agent", "library"]
    version: Text
    date: date
    speaks: list[Text]
    outcome: Literal["masked", "run", "fallback", "base url", "passes", "text"]
    note: str
    section: str
    results: Text
    recordings: dict[str, Text]

    @property
    def label(self) -> str:
        """Its name, and which way of using it is meant."""
        return f"{self.name} ({self.way})" if self.way else self.name


class Untested(_Row):
    clients: list[Text]
    why: str


class Data(_Row):
    clients: list[Client]
    untested: list[Untested]


_OUTCOMES = {
    "masked": "Yes",
    "run": "Yes, [under `obsmask run`]({})",
    "fallback": "Yes: [switched to HTTP]({})",
    "base url": "Yes, [with a base URL]({})",
    "passes": "[No]({})",
    "text": "No: [sends tool output as plain text]({})",
}
"""What an outcome is called on the page of agents; `{}` is the link."""

FORMATS: Mapping[str, str] = {
    "chat": "Chat",
    "messages": "Messages",
    "responses": "Responses",
    "websocket": "WebSocket",
    "gemini": "Gemini",
    "ollama": "Ollama",
    "converse": "Converse",
}
"""What a client can speak: the wire formats, and Responses over a WebSocket."""

_WIDTH = 120
"""That of a page's lines."""


def read_clients() -> Data:
    """Read the data; raises ValidationError if a row lacks a field, or has one too many."""
    return Data.model_validate(tomllib.loads(DATA.read_text(encoding="utf-8")))


def list_clients(kind: str) -> Iterator[str]:
    """Yield the agents that are masked, and a table of others or of libraries, for docs/agents.md.

    In the table are those of which there is more to say than that they are masked.
    """
    clients = _find(kind)
    plain = [each for each in clients if each.outcome == "masked" and not each.note]
    if kind == "agent":
        names = ", ".join(each.label for each in plain)
        yield from textwrap.wrap(f"Masked: {names}.", _WIDTH, break_on_hyphens=False)
        yield ""
    yield f"| {'Other agents' if kind == 'agent' else 'Libraries'} | Masked? |"
    yield "|---|---|"
    others: dict[str, list[str]] = {}
    for client in clients:
        if client not in plain:
            others.setdefault(_tell(client), []).append(client.label)
    for told, labels in others.items():
        yield f"| {', '.join(labels)} | {told} |"


def list_measured_clients(kind: str) -> Iterator[str]:
    """Yield when agents or libraries were tested, and what came of it, for the measured page."""
    clients = _find(kind)
    yield f"Tested {_tell_dates(clients)}."
    yield ""
    yield f"| {kind} | version | API | results masked |"
    yield "|---|---|---|---|"
    for client in clients:
        speaks = ", ".join(FORMATS[each] for each in client.speaks)
        results = "; ".join((client.results, *_tell_recorded(client)))
        yield f"| {' | '.join((client.label, client.version, speaks, results))} |"


def _find(kind: str) -> list[Client]:
    return [each for each in read_clients().clients if each.kind == kind]


def _tell_dates(clients: Sequence[Client]) -> str:
    """Return the range of their dates, as an American writes it."""
    first, last = min(each.date for each in clients), max(each.date for each in clients)
    month = "" if (first.year, first.month) == (last.year, last.month) else f"{last:%B} "
    return f"{first:%B} {first.day} to {month}{last.day}, {last.year}"


def _tell_recorded(client: Client) -> Iterator[str]:
    versions = {*client.recordings.values()}
    if client.version in versions:
        yield "recorded"
    elif versions:
        yield f"recorded with {', '.join(sorted(versions))}"


def _tell(client: Client) -> str:
    told = _OUTCOMES[client.outcome].format(client.section)
    if client.note and client.outcome == "masked" and client.section:
        return f"{told}, [{client.note}]({client.section})"
    return f"{told}, {client.note}" if client.note else told


def list_untried(_: str) -> Iterator[str]:
    """Yield one sentence with the clients that nobody has tested, and the reasons."""
    rows = [
        ", ".join(row.clients) + (f" ({row.why})" if row.why else "")
        for row in read_clients().untested
    ]
    sentence = f"Not tested yet: {'; '.join(rows)}."
    yield from textwrap.wrap(sentence, _WIDTH, break_on_hyphens=False)

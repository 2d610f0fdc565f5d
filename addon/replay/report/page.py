"""One page of HTML that shows what masking costs and saves: all it needs is in the page itself.

Names come from recordings and are hostile until shown: templates escape every text, the data are
one block of JSON in which no `<` is left, and the script writes texts only, never markup. A policy
in the page forbids every other source.
"""

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from jinja2 import Environment, FunctionLoader, StrictUndefined

from addon.replay.assumed_prices import find_assumed_prices
from addon.replay.report.chart_data import render_charts
from addon.replay.report.origin import Origin, list_prices
from addon.replay.report.overview import describe_headline, list_conversations, list_policies
from addon.replay.report.text import UNITS, pluralize
from addon.replay.summary import add_all, summarize
from addon.replay.totals import ConversationTotals
from masking.errors import printable

_STYLES = ("uPlot.min.css", "report.css")
_SCRIPTS = ("uPlot.iife.min.js", "elements.js", "charts.js", "masking_map.js", "report.js")


def render_report(
    conversations: Sequence[ConversationTotals], charts: Sequence[str], origin: Origin
) -> str:
    """Return the page, which needs nothing else from the network or the disk.

    `charts` has for each conversation what `render_chart` gives.

    A conversation's charts are in US dollars if all of its prices are known, and the rest of the
    page is if the prices of all conversations are. Otherwise costs are in plain input tokens that
    cost as much. Raises ValueError if there is no request.
    """
    totals = add_all(conversations)
    summary = summarize(totals)
    style, script = _join(_STYLES), _join(_SCRIPTS)
    return (
        _environment()
        .get_template("report.html.jinja")
        .render(
            style=style,
            style_hash=_hash(style),
            script=script,
            script_hash=_hash(script),
            data=_embed(render_charts(charts)),
            headline=describe_headline(summary, len(conversations)),
            unit=UNITS[summary.cost_unit],
            masked_before=sum(each.totals.masked_before > 0 for each in conversations),
            assumed=sum(each.requests for each in find_assumed_prices(totals)),
            requests=pluralize(totals.requests, "request"),
            reported=totals.reported,
            policies=list_policies(totals),
            conversations=list_conversations(conversations, totals),
            prices=list_prices(totals),
            origin=origin,
        )
    )


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(_read),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["printable"] = printable
    return environment


def _read(name: str) -> str:
    return (files("addon.replay.report") / "assets" / name).read_text("utf-8")


def _join(names: Sequence[str]) -> str:
    return "\n".join(_read(name) for name in names)


def _hash(text: str) -> str:
    """Return how a Content-Security-Policy names an inline script or style sheet."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _embed(data: str) -> str:
    """Return JSON in ASCII that can stand in a script element, whatever its strings hold."""
    return data.replace("<", "\\u003c").replace(">", "\\u003e")

"""The tables of the page, as Markdown."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from tests.tools.benchmarks.assumed import TRUE_PRICES
from tests.tools.benchmarks.peers.outside import sum_up
from tests.tools.benchmarks.peers.sides import DIRECT, SIDES
from tests.tools.benchmarks.peers.tally import Tally


def show_bills(tallies: Mapping[str, Tally]) -> Iterator[str]:
    """Yield the bills relative to sending everything, or to the side that is the reference.

    Beside them stand the calls that re-read or quote what was not sent, as parts of all calls.
    """
    prices = [f"{price.read:g}, {price.write:g}" for price in TRUE_PRICES]
    yield from _show_head(["bill at", *prices, "re-reads", "quotes"])
    for name, tally in tallies.items():
        reference = SIDES[name].reference if name in SIDES else ""
        whole = tallies[reference if reference in tallies else DIRECT].costs
        parts = [_divide(cost, each) for cost, each in zip(tally.costs, whole, strict=True)]
        about = f" (of {reference})" if reference else ""
        unbilled = tally.lost + tally.refused
        about += f" (without {unbilled} requests)" if unbilled else ""
        rereads = _show_parts((harm.rereads, harm.calls) for harm in tally.harms)
        quotes = _show_parts((harm.quotes, harm.calls) for harm in tally.harms)
        yield _show_row([name + about, *parts, rereads, quotes])


def show_requests(tallies: Mapping[str, Tally]) -> Iterator[str]:
    """Yield what became of the requests, and what each cost in time."""
    yield from _show_head(
        [
            *("requests", "differ outside", "bytes outside", "written anew"),
            *("refused", "failed", "CPU ms", "added ms"),
        ]
    )
    for name, tally in tallies.items():
        if not tally.requests:
            continue
        changed = sum_up(tally.differences)
        yield _show_row(
            [
                name,
                f"{tally.requests:,}",
                *(f"{changed[key]:,}" for key in ("outside", "bytes", "respelled")),
                str(tally.refused),
                _show_ends(tally),
                *(("", "") if name == DIRECT else _show_times(tally)),
            ]
        )


def _show_ends(tally: Tally) -> str:
    """Return how many requests failed in which way, and how many the provider never saw."""
    ends = [*tally.failed.items(), *([("nothing sent on", tally.lost)] if tally.lost else [])]
    return ", ".join(f"{count} of {what}" for what, count in ends) or "0"


def _show_times(tally: Tally) -> Iterator[str]:
    for middle, least, most in (tally.find_cpu(), tally.find_added()):
        yield f"{middle:.0f} ({least:.0f} to {most:.0f})"


def _show_parts(parts: Iterable[tuple[int, int]]) -> str:
    """Return so many of all calls as a part of them; the least and the greatest, if they differ."""
    found = sorted(count / calls for count, calls in parts if calls)
    ends = dict.fromkeys(f"{part:.1%}" for part in (*found[:1], *found[-1:]))
    return " to ".join(ends)


def _divide(cost: float, whole: float) -> str:
    return f"{cost / whole:.3f}" if whole else ""


def _show_head(columns: Sequence[str]) -> Iterator[str]:
    yield _show_row(columns if columns[0] == "bill at" else ["", *columns])
    count = len(columns) - (columns[0] == "bill at")
    yield f"|---|{'--:|' * count}"


def _show_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"

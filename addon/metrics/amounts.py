"""What a request cost and what masking saved, in words for the log."""

from typing import NamedTuple

from addon.metrics.record import RequestRecord

_TELLING = 0.01
"""The part of a bill by which a warm cache must change it to be mentioned."""


class Savings(NamedTuple):
    """What masking saved, as in records; less than 0 is a loss.

    dollars: of the requests whose price was known; None if there was none.
    unpriced: the number of the other requests.
    *_error: by how much the amount may be off either way.
    """

    tokens: float = 0.0
    tokens_error: float = 0.0
    dollars: float | None = None
    dollars_error: float | None = None
    unpriced: int = 0


def read_savings(record: RequestRecord) -> Savings:
    """Return what was saved in a record's conversation so far."""
    return Savings(
        record.net_tokens or 0.0,
        record.net_tokens_error or 0.0,
        record.net_dollars,
        record.net_dollars_error,
        record.net_unpriced or 0,
    )


def read_total_savings(record: RequestRecord) -> Savings:
    """Return what was saved in all conversations so far."""
    return Savings(
        record.total_net_tokens or 0.0,
        record.total_net_tokens_error or 0.0,
        record.total_net_dollars,
        record.total_net_dollars_error,
        record.total_unpriced or 0,
    )


def render_cost(record: RequestRecord) -> str:
    """Return what a request cost: `cost $0.0267 -> $0.0155 (-42% ±3)`, in tokens without a price.

    Of several amounts in tokens only the last has its unit. If what was saved may as well be
    nothing, the words say so: `cost $0.0155, about as unmasked`.
    """
    before, warm = record.cost_tokens_before or 0.0, record.cost_tokens_before_warm or 0.0
    after, error = record.cost_tokens_after or 0.0, record.saved_tokens_error or 0.0
    shown_before = _render_amount(before, record.cost_dollars_before)
    shown_warm = _render_amount(warm, record.cost_dollars_before_warm)
    shown_after = _render_amount(after, record.cost_dollars_after)
    if record.cost_dollars_after is None:
        shown_after += " input tokens"
    note = f" ({shown_warm} with a warm cache)" if abs(before - warm) > _TELLING * before else ""
    if before == after:
        return f"cost {shown_after}{note}"
    if abs(before - after) <= error:
        return f"cost {shown_after}{note}, about as unmasked"
    change = after / before - 1 if before else 0.0
    off = render_error(error / before if before else 0.0, "{:.0f}")
    return f"cost {shown_before}{note} -> {shown_after} ({change:+.0%}{off})"


def render_savings(savings: Savings) -> str:
    """Return what masking saved: `+$1.2000 ±0.1000`, or in input tokens unless all is priced.

    It is `about 0` if the error is as large as the amount.
    """
    amount, error, form, unit, end = savings.tokens, savings.tokens_error, "{:,.0f}", "", ""
    if savings.dollars is None or savings.unpriced:
        end = " input tokens"
    else:
        amount, error = savings.dollars, savings.dollars_error or 0.0
        form, unit = "{:,.4f}", "$"
    if amount and abs(amount) <= error:
        return "about 0"
    sign = "-" if amount < 0 else "+"
    shown_error = form.format(error)
    off = f" ±{shown_error}" if float(shown_error.replace(",", "")) else ""
    return f"{sign}{unit}{form.format(abs(amount))}{off}{end}"


def render_error(share: float, form: str) -> str:
    """Return a margin of error in percent, to follow its amount; nothing if it is 0."""
    rendered = form.format(100 * share)
    return f" ±{rendered}" if float(rendered) else ""


def render_prices(record: RequestRecord) -> str:
    """Return the prices, and where they come from: `cached at 0.5 (price list)`."""
    read, write = record.price_read_ratio or 0.0, record.price_write_ratio or 0.0
    written = f", written at {write:g}" if write != 1 else ""
    return f"cached at {read:g}{written} ({record.price_source})"


def render_change(before: int, after: int) -> str:
    """Return two token counts and their difference: `12,000 -> 3,000 tokens (-75%)`."""
    if before == after:
        return f"{before:,} tokens"
    return f"{before:,} -> {after:,} tokens ({_render_share(after / before - 1)})"


def _render_share(share: float) -> str:
    return f"{share:+.0%}" if abs(share) >= 0.005 else "less than 1%"


def _render_amount(tokens: float, dollars: float | None) -> str:
    return f"{tokens:,.0f}" if dollars is None else f"${dollars:,.4f}"

"""A request's line in the account, for its record and for the log."""

from collections.abc import Mapping

from masking.accounting.cost import Bill
from masking.accounting.ledger import Entry, Savings
from masking.accounting.margin import Margin
from masking.measures.pricing import Pricing

_TOKEN_DIGITS = 1
_DOLLAR_DIGITS = 8
_TELLING = 0.01
"""Part of a bill by which a warm cache must make it differ, to be worth a word in the log."""


def describe_pricing(pricing: Pricing | None) -> Mapping[str, object]:
    """Return the fields of a record that say what a cached and a written token were billed at."""
    return {
        "price_source": pricing.source if pricing else None,
        "price_read_ratio": pricing.read if pricing else None,
        "price_write_ratio": pricing.write if pricing else None,
    }


def describe_entry(entry: Entry | None) -> Mapping[str, object]:
    """Return the fields of a record that tell what a request cost; null is what is not known."""
    if entry is None:
        return dict.fromkeys(_ENTRY_FIELDS)
    cost = entry.cost
    return {
        "conversation": entry.conversation,
        "boundary_moved": entry.moved,
        "boundary_held": entry.held,
        "predicted_cached_tokens": cost.predicted,
        "cached_tokens_basis": cost.basis,
        **_describe_bill(cost.before, "before"),
        **_describe_bill(cost.before_warm, "before_warm"),
        **_describe_bill(cost.after, "after"),
        "saved_tokens_error": round(cost.margin.width, _TOKEN_DIGITS),
        "saved_dollars_error": _round_dollars(_in_dollars(cost.dollar_margin, cost.saved_dollars)),
        **_describe_savings(entry.savings, "net"),
        **_describe_savings(entry.total, "total_net"),
        "total_unpriced": entry.total.unpriced,
    }


def _describe_bill(bill: Bill, name: str) -> dict[str, float | None]:
    return {
        f"cost_tokens_{name}": round(bill.cost, _TOKEN_DIGITS),
        f"cost_dollars_{name}": _round_dollars(bill.dollars),
    }


def _describe_savings(savings: Savings, name: str) -> dict[str, float | None]:
    return {
        f"{name}_tokens": round(savings.tokens, _TOKEN_DIGITS),
        f"{name}_tokens_error": round(savings.margin.width, _TOKEN_DIGITS),
        f"{name}_dollars": _round_dollars(savings.dollars),
        f"{name}_dollars_error": _round_dollars(
            _in_dollars(savings.dollar_margin, savings.dollars)
        ),
    }


def _in_dollars(margin: Margin, dollars: float | None) -> float | None:
    """Return by how much dollars may be off; None where there are none."""
    return None if dollars is None else margin.width


def _round_dollars(dollars: float | None) -> float | None:
    return None if dollars is None else round(dollars, _DOLLAR_DIGITS)


_ENTRY_FIELDS = (
    *("conversation", "boundary_moved", "boundary_held"),
    *("predicted_cached_tokens", "cached_tokens_basis"),
    *(
        f"cost_{unit}_{name}"
        for name in ("before", "before_warm", "after")
        for unit in ("tokens", "dollars")
    ),
    *("saved_tokens_error", "saved_dollars_error"),
    *(
        f"{net}_{unit}{error}"
        for net in ("net", "total_net")
        for unit in ("tokens", "dollars")
        for error in ("", "_error")
    ),
    "total_unpriced",
)


def render_cost(entry: Entry) -> str:
    """Return what a request cost: `cost $0.0267 -> $0.0155 (-42% ±3)`, in tokens without a price.

    Of several amounts in tokens only the last one names them.

    Where what was saved may as well be nothing, it says so: `cost $0.0155, about as unmasked`.
    """
    before, warm, after = entry.cost.before, entry.cost.before_warm, entry.cost.after
    differs = abs(before.cost - warm.cost) > _TELLING * before.cost
    note = f" ({_render_number(warm)} with a warm cache)" if differs else ""
    if before.cost == after.cost:
        return f"cost {_render_bill(after)}{note}"
    if abs(entry.cost.saved) <= entry.cost.margin.width:
        return f"cost {_render_bill(after)}{note}, about as unmasked"
    change = after.cost / before.cost - 1 if before.cost else 0.0
    error = render_error(entry.cost.margin.width / before.cost if before.cost else 0.0, "{:.0f}")
    return f"cost {_render_number(before)}{note} -> {_render_bill(after)} ({change:+.0%}{error})"


def render_savings(savings: Savings) -> str:
    """Return what masking saved: `+$1.2000 ±0.1000`, in input tokens where not all is priced.

    It is `about 0` where it may as well be nothing, or a loss where it is a gain.
    """
    dollars = None if savings.unpriced else savings.dollars
    amount, margin = (
        (savings.tokens, savings.margin) if dollars is None else (dollars, savings.dollar_margin)
    )
    if amount and abs(amount) <= margin.width:
        return "about 0"
    sign = "-" if amount < 0 else "+"
    form, start, end = "{:,.4f}", f"{sign}$", ""
    if dollars is None:
        form, start, end = "{:,.0f}", sign, " input tokens"
    error = form.format(margin.width)
    off = f" ±{error}" if float(error.replace(",", "")) else ""
    return f"{start}{form.format(abs(amount))}{off}{end}"


def render_error(share: float, form: str) -> str:
    """Return a margin of error in percent, to stand behind its amount; nothing where it is 0."""
    rendered = form.format(100 * share)
    return f" ±{rendered}" if float(rendered) else ""


def render_pricing(pricing: Pricing) -> str:
    """Return the prices that hold, and why: `cached at 0.5 (price list)`."""
    written = f", written at {pricing.write:g}" if pricing.write != 1 else ""
    return f"cached at {pricing.read:g}{written} ({pricing.source})"


def _render_bill(bill: Bill) -> str:
    return _render_number(bill) + (" input tokens" if bill.dollars is None else "")


def _render_number(bill: Bill) -> str:
    return f"{bill.cost:,.0f}" if bill.dollars is None else f"${bill.dollars:,.4f}"

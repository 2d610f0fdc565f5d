"""The fields of a record that come from the ledger: what a request cost, and at which prices."""

from collections.abc import Mapping

from masking.accounting import Bill, Entry, Margin, Savings
from masking.prices import Pricing

_TOKEN_DIGITS = 1
_DOLLAR_DIGITS = 8


def describe_pricing(pricing: Pricing | None) -> Mapping[str, object]:
    """Return the fields of a record that say what a cached and a written token were billed at."""
    return {
        "price_source": pricing.source if pricing else None,
        "price_read_ratio": pricing.read if pricing else None,
        "price_write_ratio": pricing.write if pricing else None,
    }


def describe_entry(entry: Entry | None) -> Mapping[str, object]:
    """Return the fields of a record that say what a request cost; null for what is not known."""
    if entry is None:
        return dict.fromkeys(_ENTRY_FIELDS)
    cost = entry.cost
    return {
        "conversation": entry.conversation,
        "boundary_moved": entry.moved,
        "move_price_tokens": entry.move and round(entry.move.price, _TOKEN_DIGITS),
        "boundary_held": entry.is_frozen,
        "predicted_cached_tokens": cost.predicted,
        "cached_tokens_basis": cost.basis,
        **_describe_bill(cost.before, "before"),
        **_describe_bill(cost.before_warm, "before_warm"),
        **_describe_bill(cost.after, "after"),
        "saved_tokens_error": round(cost.margin.width, _TOKEN_DIGITS),
        "saved_tokens_error_by_chance": round(cost.margin.chance, _TOKEN_DIGITS),
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
    *("conversation", "boundary_moved", "move_price_tokens", "boundary_held"),
    *("predicted_cached_tokens", "cached_tokens_basis"),
    *(
        f"cost_{unit}_{name}"
        for name in ("before", "before_warm", "after")
        for unit in ("tokens", "dollars")
    ),
    *("saved_tokens_error", "saved_tokens_error_by_chance", "saved_dollars_error"),
    *(
        f"{net}_{unit}{error}"
        for net in ("net", "total_net")
        for unit in ("tokens", "dollars")
        for error in ("", "_error")
    ),
    "total_unpriced",
)

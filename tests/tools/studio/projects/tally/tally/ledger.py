"""The ledger: orders become entries, entries become totals."""

import json
from collections import defaultdict
from dataclasses import dataclass

from tally import money

SALE = "sale"
REFUND = "refund"

SIGNS = {SALE: 1, REFUND: 1}


@dataclass(frozen=True)
class Entry:
    """One order as the ledger keeps it: the amount in cents, with its sign."""

    number: str
    item: str
    cents: int
    note: str = ""


def book(order):
    """Turn one order into an entry. Raises ValueError for a kind that is not known."""
    kind = order["kind"]
    if kind not in SIGNS:
        raise ValueError(f"order {order['number']} is neither a sale nor a refund: {kind}")
    cents = SIGNS[kind] * money.parse(order["amount"])
    return Entry(order["number"], order["item"], cents, order.get("note", ""))


def load(path):
    """Read the orders of a file and book every one of them, in the file's order."""
    with open(path, encoding="utf-8") as file:
        return [book(order) for order in json.load(file)["orders"]]


def totals(entries):
    """Add up the entries item by item; the items come in the order of their names."""
    sums = defaultdict(int)
    for entry in entries:
        sums[entry.item] += entry.cents
    return dict(sorted(sums.items()))


def balance(entries):
    """The sum of all the entries, in cents."""
    return sum(entry.cents for entry in entries)

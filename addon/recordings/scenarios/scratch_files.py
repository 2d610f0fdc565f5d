"""The texts of the scratch project's files; `addon.recordings.scenarios.scratch` writes them."""

README = """\
# tally

Adds up the orders of a small hardware shop and prints a weekly report.

    python3 -m tally.report data/orders.json          # every item
    python3 -m tally.report data/orders.json --item hinge
    python3 run_tests.py                              # the tests, no test framework wanted

Amounts stand in the orders as people write them, with two digits after the point. Inside the
package an amount is a whole number of cents, so that nothing is ever rounded. A sale makes the
total larger, a refund makes it smaller. The import writes a log whose last line carries the total
that it has counted itself; the report must come to the same one.
"""

MONEY = '''\
"""Amounts of money, as whole cents."""


def parse(text):
    """Turn '12.50' into 1250. Raises ValueError when the text is no amount."""
    units, point, cents = text.strip().partition(".")
    if not point or len(cents) != 2:
        raise ValueError(f"no amount with two digits after the point: {text!r}")
    return int(units) * 100 + int(cents)


def show(cents):
    """Turn 125000 into '1,250.00'."""
    sign = "-" if cents < 0 else ""
    return f"{sign}{abs(cents) // 100:,}.{abs(cents) % 100:02}"
'''

LEDGER = '''\
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
'''

REPORT = '''\
"""Prints the weekly report."""

import sys

from tally import ledger, money


def lines(entries):
    """The lines of the report: every entry, then the totals by item, then the balance."""
    for entry in entries:
        yield f"{entry.number}  {entry.item:<14}{money.show(entry.cents):>12}  {entry.note}"
    yield ""
    for item, cents in ledger.totals(entries).items():
        yield f"total   {item:<14}{money.show(cents):>12}"
    yield f"total   {'everything':<14}{money.show(ledger.balance(entries)):>12}"


def main(arguments):
    path, *rest = arguments
    entries = ledger.load(path)
    if rest[:1] == ["--item"]:
        entries = [entry for entry in entries if rest[1] in entry.item]
    print("\\n".join(lines(entries)))


if __name__ == "__main__":
    main(sys.argv[1:])
'''

TEST_MONEY = """\
from tally import money


def test_small_amount():
    assert money.parse("12.50") == 1250


def test_blanks_around():
    assert money.parse("  0.05 ") == 5


def test_large_amount():
    assert money.parse("1,250.00") == 125000


def test_larger_amount():
    assert money.parse("12,001,250.99") == 1200125099


def test_no_point():
    try:
        money.parse("1250")
    except ValueError as error:
        assert "two digits" in str(error)
    else:
        raise AssertionError("an amount without a point was taken")


def test_shown():
    assert money.show(125000) == "1,250.00"


def test_shown_below_zero():
    assert money.show(-5) == "-0.05"
"""

TEST_REPORT = """\
from tally import ledger, report


def order(kind, amount, item="oak shelf"):
    return {"number": "A-1", "kind": kind, "item": item, "amount": amount}


def test_a_sale_is_booked():
    assert ledger.book(order("sale", "10.00")).cents == 1000


def test_a_refund_is_booked_with_a_minus():
    entry = ledger.book(order("refund", "10.00"))
    assert entry.cents == -1000, f"a refund of 10.00 was booked as {entry.cents}"


def test_totals_by_item():
    entries = [ledger.book(order("sale", "2.00", item)) for item in ("hook", "knob", "hook")]
    assert ledger.totals(entries) == {"hook": 400, "knob": 200}


def test_balance_of_a_sale_taken_back():
    entries = [ledger.book(order(kind, "3.50")) for kind in ("sale", "refund")]
    assert ledger.balance(entries) == 0, f"the balance is {ledger.balance(entries)}"


def test_last_line_is_the_balance():
    entries = [ledger.book(order("sale", "10.00"))]
    assert list(report.lines(entries))[-1].endswith("10.00")
"""

RUN_TESTS = '''\
"""Runs every test_ function under tests/ and shows the traceback of each that fails."""

import importlib
import pathlib
import sys
import traceback

ROOT = pathlib.Path(__file__).parent


def tests():
    for path in sorted((ROOT / "tests").glob("test_*.py")):
        module = importlib.import_module(f"tests.{path.stem}")
        for name, test in vars(module).items():
            if name.startswith("test_"):
                yield f"{path.stem}.{name}", test


def main(quiet):
    failed = passed = 0
    for name, test in tests():
        try:
            test()
        except Exception:
            failed += 1
            print(f"FAILED {name}")
            print(traceback.format_exc())
        else:
            passed += 1
            if not quiet:
                print(f"ok     {name}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main("--quiet" in sys.argv))
'''

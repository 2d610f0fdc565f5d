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
    print("\n".join(lines(entries)))


if __name__ == "__main__":
    main(sys.argv[1:])

"""Prints a sheet, or tells what is in it.

    python3 -m cells.report FILE                      the table, values as a reader wants them
    python3 -m cells.report FILE --values             the values as CSV
    python3 -m cells.report FILE --formulas           every formula and what it comes to
    python3 -m cells.report FILE --explain D7 ...     what these cells hold, and why
    python3 -m cells.report FILE --trace              what was worked out, in order
    python3 -m cells.report FILE --check C7=12.5 ...  exit code 1 unless these cells hold this
"""

import argparse
import sys

from cells.addresses import Address, column_letters
from cells.errors import CellError, FormulaError
from cells.files import FileError, read_sheet, to_text_always, write_values
from cells.formats import format_number
from cells.sheet import explain, read_content
from cells.values import compare, is_number, rank

MONEY = "#,##0.00"
WHOLE = "#,##0"


def main(arguments):
    parser = argparse.ArgumentParser(prog="cells.report")
    parser.add_argument("file")
    parser.add_argument("--values", action="store_true")
    parser.add_argument("--formulas", action="store_true")
    parser.add_argument("--trace", action="store_true")
    parser.add_argument("--explain", nargs="+", metavar="CELL", default=[])
    parser.add_argument("--check", nargs="+", metavar="CELL=VALUE", default=[])
    options = parser.parse_args(arguments)
    lines = []
    try:
        sheet = read_sheet(options.file, lines.append)
    except (OSError, FileError, FormulaError) as error:
        print(f"cells.report: {error}")
        return 1
    if options.trace:
        print("\n".join(lines))
    elif options.values:
        print(write_values(sheet), end="")
    elif options.formulas:
        print("\n".join(_formulas(sheet)))
    elif options.explain:
        print("\n".join(line for cell in options.explain for line in explain(sheet, cell)))
    elif options.check:
        return check(sheet, options.check)
    else:
        print("\n".join(table(sheet)))
    return 0


def table(sheet):
    """The sheet as lines, columns as wide as they must be, numbers to the right."""
    used = sheet.used()
    if used is None:
        yield "(empty)"
        return
    columns = range(used.end.column + 1)
    shown = [
        [show(sheet.value(Address(row, column))) for column in columns]
        for row in range(used.end.row + 1)
    ]
    widths = [max(len(row[column]) for row in shown) for column in columns]
    margin = len(str(len(shown)))
    heads = (column_letters(column).center(widths[column]) for column in columns)
    yield f"{'':{margin}}  {'  '.join(heads)}".rstrip()
    for number, row in enumerate(shown):
        fields = []
        for column in columns:
            value = sheet.value(Address(number, column))
            field = row[column]
            fields.append(field.rjust(widths[column]) if is_number(value) else field.ljust(widths[column]))
        yield f"{number + 1:{margin}}  {'  '.join(fields)}".rstrip()


def show(value):
    """A value as a reader wants it: numbers with two places, or with none where they are whole."""
    if is_number(value):
        return format_number(value, WHOLE if isinstance(value, int) else MONEY)
    return to_text_always(value)


def _formulas(sheet):
    for address, formula in sheet.formulas():
        yield f"{address!s:>6}  {to_text_always(sheet.value(address)):>14}  {formula}"


def check(sheet, wanted):
    """Compare cells with what they should hold; prints each that differs."""
    wrong = 0
    for each in wanted:
        where, _, text = each.partition("=")
        value, expected = sheet.value(where), read_content(text)
        if not _agrees(value, expected):
            wrong += 1
            print(f"{where} holds {to_text_always(value)}, not {text}")
    print(f"{len(wanted) - wrong} of {len(wanted)} cells are as expected")
    return 1 if wrong else 0


def _agrees(value, expected):
    if isinstance(value, CellError):
        return value.kind == expected
    return rank(value) == rank(expected) and compare(value, expected) == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""What the tests share."""

from cells.errors import CellError, FormulaError
from cells.sheet import Sheet


def same(actual, expected):
    """Equal and of the same type, with both of them in the message."""
    assert (type(actual), actual) == (type(expected), expected), f"got {actual!r}, not {expected!r}"


def refused(function, *arguments, error=ValueError):
    """The message with which a call is refused."""
    try:
        result = function(*arguments)
    except error as raised:
        return str(raised)
    raise AssertionError(f"{arguments!r} was taken, and gave {result!r}")


def worked_out(formula, **contents):
    """What a formula comes to on a sheet with these contents."""
    sheet = Sheet()
    sheet.update({**contents, "ZZ1": formula})
    return sheet.value("ZZ1")


def sheet_of(text):
    """A sheet from lines of contents, the fields of a line divided by bars."""
    sheet = Sheet()
    contents = {}
    for row, line in enumerate(text.strip().splitlines(), 1):
        for letter, field in zip("ABCDEFGH", line.split("|")):
            if field.strip():
                contents[f"{letter}{row}"] = field.strip()
    sheet.update(contents)
    return sheet


DIV, VALUE, REF, NAME, NUM, NA, CYCLE = map(
    CellError, ("#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!", "#N/A", "#CYCLE!")
)

__all__ = [
    *("CYCLE", "DIV", "NA", "NAME", "NUM", "REF", "VALUE"),
    *("FormulaError", "Sheet", "refused", "same", "sheet_of", "worked_out"),
]

"""Addresses of cells and ranges of them: `B12`, `$B$12`, `A1:C9`.

Rows and columns are counted from 0 inside the engine and written from 1 (and from A) outside. An
address remembers which of its parts were written with a dollar sign. What a dollar sign means
depends on what is done:

- a formula that is *copied* to another place keeps the parts with a dollar sign as they are;
- when rows or columns are *inserted* or *deleted*, every reference follows the cell it points at,
  with a dollar sign or without one.
"""

import re

MAX_ROWS = 65_536
MAX_COLUMNS = 702  # ZZ

_ADDRESS = re.compile(r"(\$?)([A-Za-z]{1,2})(\$?)([1-9][0-9]*)")


class Address:
    """One cell. Equal and hashed by its place alone, so `$B$2` finds what was stored under `B2`."""

    __slots__ = ("row", "column", "row_fixed", "column_fixed")

    def __init__(self, row, column, row_fixed=False, column_fixed=False):
        if not 0 <= row < MAX_ROWS:
            raise ValueError(f"no such row: {row + 1}")
        if not 0 <= column < MAX_COLUMNS:
            raise ValueError(f"no such column: {column + 1}")
        self.row = row
        self.column = column
        self.row_fixed = row_fixed
        self.column_fixed = column_fixed

    @classmethod
    def parse(cls, text):
        """Read `B12` or `$B$12`. Raises ValueError for anything else."""
        found = _ADDRESS.fullmatch(text.strip())
        if not found:
            raise ValueError(f"not an address: {text!r}")
        column_fixed, letters, row_fixed, digits = found.groups()
        return cls(int(digits) - 1, column_number(letters), bool(row_fixed), bool(column_fixed))

    def __eq__(self, other):
        return isinstance(other, Address) and (self.row, self.column) == (other.row, other.column)

    def __hash__(self):
        return hash((self.row, self.column))

    def __lt__(self, other):
        return (self.row, self.column) < (other.row, other.column)

    def __repr__(self):
        return f"Address({str(self)!r})"

    def __str__(self):
        column = "$" * self.column_fixed + column_letters(self.column)
        return f"{column}{'$' * self.row_fixed}{self.row + 1}"

    @property
    def plain(self):
        """The same place written without dollar signs."""
        return Address(self.row, self.column)

    def copied(self, rows, columns):
        """Where this reference points in a formula copied so many rows and columns further.

        Parts with a dollar sign stay. Raises ValueError where the place does not exist.
        """
        row = self.row if self.row_fixed else self.row + rows
        column = self.column if self.column_fixed else self.column + columns
        return Address(row, column, self.row_fixed, self.column_fixed)

    def moved(self, rows, columns):
        """Where this reference points after its cell has moved so far; dollar signs do not matter."""
        return Address(
            self.row + rows, self.column + columns, self.row_fixed, self.column_fixed
        )


class Range:
    """A rectangle of cells between two corners, both of them in it."""

    __slots__ = ("start", "end")

    def __init__(self, start, end):
        self.start = start
        self.end = end

    @classmethod
    def parse(cls, text):
        """Read `A1:C9`; a single address is a range of one cell. Raises ValueError."""
        first, colon, last = text.partition(":")
        start = Address.parse(first)
        return cls(start, Address.parse(last) if colon else start)

    def __eq__(self, other):
        return isinstance(other, Range) and (self.start, self.end) == (other.start, other.end)

    def __hash__(self):
        return hash((self.start, self.end))

    def __repr__(self):
        return f"Range({str(self)!r})"

    def __str__(self):
        return f"{self.start}:{self.end}"

    def __contains__(self, address):
        rows = self.start.row <= address.row <= self.end.row
        columns = self.start.column <= address.column <= self.end.column
        return rows and columns

    def __len__(self):
        return self.height * self.width

    @property
    def height(self):
        return self.end.row - self.start.row + 1

    @property
    def width(self):
        return self.end.column - self.start.column + 1

    def addresses(self):
        """Every cell, row by row."""
        for row in range(self.start.row, self.end.row + 1):
            for column in range(self.start.column, self.end.column + 1):
                yield Address(row, column)

    def rows(self):
        """Every row as a list of addresses."""
        for row in range(self.start.row, self.end.row + 1):
            yield [
                Address(row, column)
                for column in range(self.start.column, self.end.column + 1)
            ]

    def overlaps(self, other):
        """Whether the two ranges share a cell."""
        apart_rows = self.end.row < other.start.row or other.end.row < self.start.row
        apart_columns = (
            self.end.column < other.start.column or other.end.column < self.start.column
        )
        return not (apart_rows or apart_columns)

    def copied(self, rows, columns):
        return Range(self.start.copied(rows, columns), self.end.copied(rows, columns))


def column_number(letters):
    """`A` is 0, `Z` is 25, `AA` is 26. Raises ValueError for anything but one or two letters."""
    text = letters.upper()
    if not 1 <= len(text) <= 2 or not text.isascii() or not text.isalpha():
        raise ValueError(f"not a column: {letters!r}")
    number = 0
    for letter in text:
        number = number * 26 + ord(letter) - ord("A") + 1
    return number - 1


def column_letters(number):
    """0 is `A`, 25 is `Z`, 26 is `AA`."""
    if not 0 <= number < MAX_COLUMNS:
        raise ValueError(f"no such column: {number + 1}")
    letters = ""
    number += 1
    while number:
        number, rest = divmod(number - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return letters


def is_address(text):
    """Whether a text reads as an address of a cell that exists."""
    try:
        Address.parse(text)
    except ValueError:
        return False
    return True

"""Sheets in files: CSV, with a line of headings or without one.

A field of a CSV file is a content as a user would enter it, formulas included. The reader takes
what RFC 4180 describes: fields in double quotes may hold commas, line breaks and doubled quotes.
"""

from cells.addresses import Address
from cells.sheet import Sheet
from cells.values import to_text


class FileError(Exception):
    """A file that cannot be read as a sheet; the message names the line."""


def read_sheet(path, trace=None):
    """The sheet in a CSV file, every formula worked out. Raises OSError and FileError."""
    with open(path, encoding="utf-8", newline="") as file:
        text = file.read()
    name = str(path).replace("\\", "/").rpartition("/")[2].removesuffix(".csv")
    sheet = Sheet(name, trace)
    sheet.update(
        {
            Address(row, column): field
            for row, fields in enumerate(read_rows(text))
            for column, field in enumerate(fields)
            if field != ""
        }
    )
    return sheet


def read_rows(text):
    """The fields of a CSV text, row by row. Raises FileError where a quoted field has no end."""
    return list(_Reader(text).rows())


class _Reader:
    """Reads one CSV text, character by character where it is quoted."""

    def __init__(self, text):
        self._text = text.removeprefix("\ufeff")
        self._position = 0
        self._line = 1

    def rows(self):
        while self._position < len(self._text):
            yield self._row()

    def _row(self):
        fields = [self._field()]
        while self._peek() == ",":
            self._position += 1
            fields.append(self._field())
        self._line_end()
        return fields

    def _peek(self):
        return self._text[self._position : self._position + 1]

    def _field(self):
        return self._quoted() if self._peek() == '"' else self._bare()

    def _bare(self):
        start = self._position
        while self._peek() not in ("", ",", "\r", "\n"):
            self._position += 1
        return self._text[start : self._position].strip()

    def _quoted(self):
        opened = self._line
        self._position += 1
        parts = []
        while True:
            sign = self._peek()
            if sign == "":
                raise FileError(f"line {opened}: a quoted field has no end")
            self._position += 1
            if sign == '"':
                if self._peek() != '"':
                    break
                self._position += 1
            self._line += sign == "\n"
            parts.append(sign)
        if self._peek() not in ("", ",", "\r", "\n"):
            raise FileError(f"line {self._line}: {self._peek()!r} behind a quoted field")
        return "".join(parts)

    def _line_end(self):
        for end in ("\r\n", "\n", "\r"):
            if self._text.startswith(end, self._position):
                self._position += len(end)
                self._line += 1
                return


def write_contents(sheet):
    """The sheet's contents as a CSV text, formulas as formulas."""
    return _written(sheet, sheet.content)


def write_values(sheet):
    """The sheet's values as a CSV text."""
    return _written(sheet, lambda address: to_text_always(sheet.value(address)))


def to_text_always(value):
    """A text for any value, error values included."""
    return str(to_text(value))


def _written(sheet, text_of):
    used = sheet.used()
    if used is None:
        return ""
    lines = []
    for row in range(used.end.row + 1):
        fields = [text_of(Address(row, column)) for column in range(used.end.column + 1)]
        lines.append(",".join(map(quote, fields)))
    return "".join(f"{line}\n" for line in lines)


def quote(field):
    """A field as it stands in a CSV file."""
    if not any(sign in field for sign in ',"\r\n'):
        return field
    doubled = field.replace('"', '""')
    return f'"{doubled}"'

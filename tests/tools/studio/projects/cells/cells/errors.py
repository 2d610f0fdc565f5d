"""Two kinds of trouble: values that are errors, and formulas that cannot be read.

An error value (`CellError`) is a result like any other. It is stored in a cell, shown in a report
and handed on by every operator and nearly every function that meets it. A `FormulaError` is an
exception: the text of a formula makes no sense, and the cell keeps what it had before.
"""

KINDS = {
    "#DIV/0!": "a number was divided by zero",
    "#VALUE!": "a value is of the wrong kind",
    "#REF!": "a reference points at nothing",
    "#NAME?": "a function is unknown",
    "#NUM!": "a number is out of range",
    "#N/A": "nothing was found",
    "#CYCLE!": "a cell depends on itself",
}


class CellError:
    """An error value. Two of them are equal when they are of the same kind."""

    __slots__ = ("kind", "note")

    def __init__(self, kind, note=""):
        if kind not in KINDS:
            raise ValueError(f"no such kind of error value: {kind}")
        self.kind = kind
        self.note = note

    def __eq__(self, other):
        return isinstance(other, CellError) and self.kind == other.kind

    def __hash__(self):
        return hash(self.kind)

    def __repr__(self):
        return f"CellError({self.kind!r})" if not self.note else f"CellError({self.kind!r}, {self.note!r})"

    def __str__(self):
        return self.kind

    def explain(self):
        """One line for a person: the kind, what it means, and what is known of this case."""
        meaning = KINDS[self.kind]
        return f"{self.kind}: {meaning} ({self.note})" if self.note else f"{self.kind}: {meaning}"


class FormulaError(Exception):
    """A formula that cannot be read; `position` is the offset of the character at fault."""

    def __init__(self, message, formula, position):
        super().__init__(message)
        self.message = message
        self.formula = formula
        self.position = position

    def __str__(self):
        return f"{self.message} at position {self.position}: {self.formula}"

    def pointer(self):
        """The formula with a mark under the character at fault, on two lines."""
        return f"{self.formula}\n{' ' * self.position}^"


def first_error(values):
    """The first error value among `values`, or None."""
    for value in values:
        if isinstance(value, CellError):
            return value
    return None

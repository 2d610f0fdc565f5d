"""What a cell can hold, and how one kind of value becomes another.

A value is a number (int or float), a text, a truth value, an error value, or None for an empty
cell. Every conversion here takes any value and gives the wanted kind or an error value; none of
them raises. An error value goes through every conversion unchanged.
"""

import math
import re
from collections import namedtuple

from cells.errors import CellError

LARGEST = 1e300
"""Results beyond this are `#NUM!`."""

_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:,[0-9]{3})*(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def is_number(value):
    """Whether a value is a number; truth values are none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def to_number(value):
    """A number: empty is 0, a truth value 1 or 0, a text what it reads as, else `#VALUE!`."""
    if isinstance(value, CellError):
        return value
    if value is None:
        return 0
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, str):
        number = read_number(value)
        return CellError("#VALUE!", f"no number: {value!r}") if number is None else number
    return value


def read_number(text):
    """The number that a text reads as, or None.

    Blanks around it do not matter, commas may separate thousands, and a percent sign behind it
    divides it by a hundred.
    """
    bare = text.strip()
    if bare.endswith("%"):
        bare = bare[:-1].rstrip()
    if not _NUMBER.fullmatch(bare):
        return None
    value = float(bare.replace(",", ""))
    return int(value) if value.is_integer() and abs(value) < 1e15 else value


def to_text(value):
    """A text: empty is "", a truth value TRUE or FALSE, a number its shortest spelling."""
    if isinstance(value, CellError):
        return value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float):
        return repr(int(value)) if value.is_integer() and abs(value) < 1e15 else f"{value:.15g}"
    return str(value)


def to_truth(value):
    """A truth value: empty and 0 are false, any other number true, a text what it says."""
    if isinstance(value, CellError):
        return value
    if isinstance(value, str):
        word = value.strip().upper()
        if word in ("TRUE", "FALSE"):
            return word == "TRUE"
        return CellError("#VALUE!", f"neither true nor false: {value!r}")
    return bool(value)


def checked(number):
    """The number itself, or `#NUM!` where it is none that a cell can hold."""
    if isinstance(number, complex) or math.isnan(number) or abs(number) > LARGEST:
        return CellError("#NUM!")
    if isinstance(number, float) and number.is_integer() and abs(number) < 1e15:
        return int(number)
    return number


# Comparing


def rank(value):
    """Numbers come before texts, texts before truth values."""
    if isinstance(value, bool):
        return 2
    return 1 if isinstance(value, str) else 0


def compare(left, right):
    """Less than 0, 0 or more than 0, as `left` is smaller, equal or larger.

    An empty cell equals 0, an empty text and FALSE. Texts are compared without regard to case,
    numbers with a tolerance in the fifteenth digit. Neither may be an error value.
    """
    left, right = _filled(left, right), _filled(right, left)
    if rank(left) != rank(right):
        return rank(left) - rank(right)
    if isinstance(left, str):
        left, right = left.casefold(), right.casefold()
    elif is_number(left) and math.isclose(left, right, rel_tol=1e-15, abs_tol=0.0):
        return 0
    return (left > right) - (left < right)


def _filled(value, other):
    """What an empty cell counts as beside another value."""
    if value is not None:
        return value
    if isinstance(other, bool):
        return False
    return "" if isinstance(other, str) else 0


# Criteria

Criterion = namedtuple("Criterion", "operator value")
"""What SUMIF and its like look for: `>=10`, `<>paid`, `oak*`."""

CRITERION_OPERATORS = ("<", ">", "<=", ">=", "<>", "=")

_TESTS = {
    "=": lambda order: order == 0,
    "<>": lambda order: order != 0,
    "<": lambda order: order < 0,
    "<=": lambda order: order <= 0,
    ">": lambda order: order > 0,
    ">=": lambda order: order >= 0,
}


def read_criterion(value):
    """The criterion that a value stands for. A text may begin with an operator; else it is `=`."""
    if not isinstance(value, str):
        return Criterion("=", value)
    operator = next((each for each in CRITERION_OPERATORS if value.startswith(each)), "")
    bare = value[len(operator) :]
    number = read_number(bare)
    return Criterion(operator or "=", bare if number is None else number)


def meets(value, criterion):
    """Whether a value meets a criterion. Error values meet none, and numbers none of texts.

    In a text `*` stands for any characters and `?` for one; `~` takes their meaning away.
    """
    if isinstance(value, CellError):
        return False
    wanted = criterion.value
    if isinstance(wanted, str) and criterion.operator in ("=", "<>"):
        is_same = isinstance(value, str) and bool(_pattern(wanted).fullmatch(value))
        if wanted == "":
            is_same = value in (None, "")
        return is_same == (criterion.operator == "=")
    if value is None or rank(value) != rank(wanted):
        return criterion.operator == "<>"
    return _TESTS[criterion.operator](compare(value, wanted))


def _pattern(wanted):
    """A regular expression for a text with wildcards."""
    parts = []
    position = 0
    while position < len(wanted):
        sign = wanted[position]
        if sign == "~" and wanted[position + 1 : position + 2] in ("*", "?", "~"):
            position += 1
            parts.append(re.escape(wanted[position]))
        else:
            parts.append({"*": ".*", "?": "."}.get(sign, re.escape(sign)))
        position += 1
    return re.compile("".join(parts), re.IGNORECASE | re.DOTALL)

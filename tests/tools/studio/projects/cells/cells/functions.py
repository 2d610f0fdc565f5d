"""The functions that a formula can call, in one table.

A function takes its arguments as values; an area arrives as a `Block`, a list of rows. Most
functions hand on the first error value they meet, which is done here once, in `call`, and not in
each of them. Those in `LAZY` get their arguments as trees still to be evaluated: `IF` must not
look at the branch that it does not take.
"""

import math
from collections import namedtuple

from cells.errors import CellError, first_error
from cells.formats import format_number
from cells.values import (
    checked,
    compare,
    is_number,
    meets,
    read_criterion,
    to_number,
    to_text,
    to_truth,
)

Block = namedtuple("Block", "rows")
"""The values of an area, row by row."""

Entry = namedtuple("Entry", "function least most keeps_errors")
"""A function, how many arguments it takes, and whether it wants to see error values itself."""

ANY = 255
"""As many arguments as anybody could want."""

TABLE = {}


def function(name, least, most=None, keeps_errors=False):
    """Enter a function into the table."""

    def enter(made):
        TABLE[name] = Entry(made, least, least if most is None else most, keeps_errors)
        return made

    return enter


def call(name, arguments):
    """What a function makes of its arguments; error values for what cannot be done."""
    entry = TABLE.get(name)
    if entry is None:
        return CellError("#NAME?", name)
    if not entry.least <= len(arguments) <= entry.most:
        return CellError("#VALUE!", f"{name} takes {_counted(entry)}, not {len(arguments)}")
    if not entry.keeps_errors:
        error = first_error(flatten(arguments))
        if error:
            return error
    return entry.function(*arguments)


def _counted(entry):
    if entry.least == entry.most:
        return f"{entry.least} arguments"
    if entry.most == ANY:
        return f"at least {entry.least} arguments"
    return f"{entry.least} to {entry.most} arguments"


def flatten(arguments):
    """All values in the arguments, areas row by row."""
    for argument in arguments:
        if isinstance(argument, Block):
            for row in argument.rows:
                yield from row
        else:
            yield argument


def numbers(arguments):
    """The numbers in the arguments: in areas what is a number, elsewhere what can become one.

    Stops at the first error value, which is then the last that comes.
    """
    for argument in arguments:
        if isinstance(argument, Block):
            yield from (value for value in flatten([argument]) if is_number(value))
        elif argument is not None:
            yield to_number(argument)


def single(value):
    """A value that stands alone; an area of one cell counts as its cell."""
    if not isinstance(value, Block):
        return value
    if len(value.rows) == 1 and len(value.rows[0]) == 1:
        return value.rows[0][0]
    return CellError("#VALUE!", "an area stands where one value is wanted")


# Adding up


@function("SUM", 1, ANY)
def sum_(*arguments):
    found = list(numbers(arguments))
    return first_error(found) or checked(math.fsum(found))


@function("AVERAGE", 1, ANY)
def average(*arguments):
    found = list(numbers(arguments))
    if not found:
        return CellError("#DIV/0!", "the average of nothing")
    return first_error(found) or checked(math.fsum(found) / len(found))


@function("MIN", 1, ANY)
def min_(*arguments):
    found = list(numbers(arguments))
    return first_error(found) or min(found, default=0)


@function("MAX", 1, ANY)
def max_(*arguments):
    found = list(numbers(arguments))
    return first_error(found) or max(found, default=0)


@function("PRODUCT", 1, ANY)
def product(*arguments):
    found = list(numbers(arguments))
    return first_error(found) or checked(math.prod(found))


@function("COUNT", 1, ANY, keeps_errors=True)
def count(*arguments):
    return sum(is_number(value) for value in flatten(arguments))


@function("COUNTA", 1, ANY, keeps_errors=True)
def counta(*arguments):
    return sum(value is not None for value in flatten(arguments))


@function("COUNTBLANK", 1, keeps_errors=True)
def countblank(area):
    return sum(value in (None, "") for value in flatten([area]))


# Adding up what meets a criterion


def _selected(area, criterion, summed):
    """The values of `summed` (or of the area itself) beside cells that meet the criterion."""
    wanted = read_criterion(single(criterion))
    tested = list(flatten([area]))
    taken = tested if summed is None else list(flatten([summed]))
    return [value for test, value in zip(tested, taken) if meets(test, wanted)]


@function("SUMIF", 2, 3)
def sumif(area, criterion, summed=None):
    return checked(math.fsum(v for v in _selected(area, criterion, summed) if is_number(v)))


@function("COUNTIF", 2)
def countif(area, criterion):
    return len(_selected(area, criterion, None))


@function("AVERAGEIF", 2, 3)
def averageif(area, criterion, summed=None):
    found = [value for value in _selected(area, criterion, summed) if is_number(value)]
    if not found:
        return CellError("#DIV/0!", "the average of nothing")
    return checked(math.fsum(found) / len(found))


# Rounding and arithmetic


@function("ROUND", 1, 2)
def round_(value, digits=0):
    """Half is rounded away from zero: ROUND(2.5) is 3 and ROUND(-2.5) is -3."""
    return _rounded(value, digits, round)


@function("ROUNDUP", 1, 2)
def roundup(value, digits=0):
    """Away from zero."""
    return _rounded(value, digits, lambda x: math.copysign(math.ceil(abs(x)), x))


@function("ROUNDDOWN", 1, 2)
def rounddown(value, digits=0):
    """Towards zero."""
    return _rounded(value, digits, math.trunc)


def _rounded(value, digits, rounding):
    number, places = to_number(single(value)), to_number(single(digits))
    error = first_error((number, places))
    if error:
        return error
    scale = 10 ** int(places)
    scaled = float(f"{number * scale:.12g}")  # so that 1.005 * 100 is 100.5 and not a hair less
    return checked(rounding(scaled) / scale)


@function("INT", 1)
def int_(value):
    number = to_number(single(value))
    return number if isinstance(number, CellError) else math.floor(number)


@function("ABS", 1)
def abs_(value):
    number = to_number(single(value))
    return number if isinstance(number, CellError) else abs(number)


@function("SIGN", 1)
def sign(value):
    number = to_number(single(value))
    return number if isinstance(number, CellError) else (number > 0) - (number < 0)


@function("SQRT", 1)
def sqrt(value):
    number = to_number(single(value))
    if isinstance(number, CellError):
        return number
    return CellError("#NUM!", "the root of less than 0") if number < 0 else checked(math.sqrt(number))


@function("MOD", 2)
def mod(value, divisor):
    """The rest of a division; it has the sign of the divisor."""
    number, by = to_number(single(value)), to_number(single(divisor))
    error = first_error((number, by))
    if error:
        return error
    return CellError("#DIV/0!") if by == 0 else checked(number - by * math.floor(number / by))


@function("POWER", 2)
def power(base, exponent):
    left, right = to_number(single(base)), to_number(single(exponent))
    return first_error((left, right)) or raise_to(left, right)


def raise_to(base, exponent):
    """A power, or the error value that stands for it."""
    if base == 0 and exponent < 0:
        return CellError("#DIV/0!")
    try:
        return checked(base**exponent)
    except OverflowError:
        return CellError("#NUM!")


# Truth


@function("AND", 1, ANY)
def and_(*arguments):
    found = [to_truth(value) for value in flatten(arguments) if value is not None]
    return first_error(found) or all(found)


@function("OR", 1, ANY)
def or_(*arguments):
    found = [to_truth(value) for value in flatten(arguments) if value is not None]
    return first_error(found) or any(found)


@function("NOT", 1)
def not_(value):
    truth = to_truth(single(value))
    return truth if isinstance(truth, CellError) else not truth


@function("ISBLANK", 1, keeps_errors=True)
def isblank(value):
    return single(value) is None


@function("ISNUMBER", 1, keeps_errors=True)
def isnumber(value):
    return is_number(single(value))


@function("ISTEXT", 1, keeps_errors=True)
def istext(value):
    return isinstance(single(value), str)


@function("ISERROR", 1, keeps_errors=True)
def iserror(value):
    return isinstance(single(value), CellError)


# Texts


def _texts(*values):
    found = [to_text(single(value)) for value in values]
    return first_error(found), found


@function("LEN", 1)
def len_(value):
    error, (text,) = _texts(value)
    return error or len(text)


@function("UPPER", 1)
def upper(value):
    error, (text,) = _texts(value)
    return error or text.upper()


@function("LOWER", 1)
def lower(value):
    error, (text,) = _texts(value)
    return error or text.lower()


@function("TRIM", 1)
def trim(value):
    """Blanks at both ends go, and of several within one stays."""
    error, (text,) = _texts(value)
    return error or " ".join(text.split())


@function("LEFT", 1, 2)
def left(value, length=1):
    error, (text,) = _texts(value)
    count_ = to_number(single(length))
    return error or first_error((count_,)) or text[: max(0, int(count_))]


@function("RIGHT", 1, 2)
def right(value, length=1):
    error, (text,) = _texts(value)
    count_ = to_number(single(length))
    return error or first_error((count_,)) or text[max(0, len(text) - max(0, int(count_))) :]


@function("MID", 3)
def mid(value, start, length):
    error, (text,) = _texts(value)
    first, count_ = to_number(single(start)), to_number(single(length))
    error = error or first_error((first, count_))
    if error:
        return error
    if first < 1 or count_ < 0:
        return CellError("#VALUE!", "a part begins at 1 and is no shorter than nothing")
    return text[int(first) - 1 : int(first) - 1 + int(count_)]


@function("SUBSTITUTE", 3)
def substitute(value, old, new):
    error, (text, before, after) = _texts(value, old, new)
    if error:
        return error
    return text.replace(before, after) if before else text


@function("CONCAT", 1, ANY)
def concat(*arguments):
    found = [to_text(value) for value in flatten(arguments)]
    return first_error(found) or "".join(found)


@function("TEXT", 2)
def text_(value, pattern):
    number = to_number(single(value))
    error, (wanted,) = _texts(pattern)
    return error or first_error((number,)) or format_number(number, wanted)


@function("VALUE", 1)
def value_(text):
    return to_number(single(text))


# Looking up


@function("VLOOKUP", 3, 4)
def vlookup(wanted, area, column, nearest=True):
    """The value so many columns along, in the row whose first cell is the one wanted.

    With `nearest` the first column must be in order, and the last row counts whose first cell is
    not larger than the one wanted.
    """
    if not isinstance(area, Block):
        return CellError("#VALUE!", "VLOOKUP wants an area")
    along = to_number(single(column))
    near = to_truth(single(nearest))
    error = first_error((along, near))
    if error:
        return error
    if not 1 <= along <= len(area.rows[0]):
        return CellError("#REF!", f"the area has no column {along}")
    row = _find([row[0] for row in area.rows], single(wanted), near)
    return row if isinstance(row, CellError) else area.rows[row][int(along) - 1]


@function("MATCH", 2, 3)
def match(wanted, area, nearest=True):
    """The place, counted from 1, of a value in a row or a column."""
    near = to_truth(single(nearest))
    if isinstance(near, CellError):
        return near
    place = _find(list(flatten([area])), single(wanted), near)
    return place if isinstance(place, CellError) else place + 1


def _find(values, wanted, near):
    """The place of a value among others, or `#N/A`."""
    found = None
    for place, value in enumerate(values):
        if value is None:
            continue
        order = compare(value, wanted)
        if order == 0:
            return place
        if near and order < 0:
            found = place
    return CellError("#N/A", f"not found: {to_text(wanted)}") if found is None else found


@function("INDEX", 2, 3)
def index(area, row, column=1):
    """The value in a row and a column of an area, both counted from 1."""
    if not isinstance(area, Block):
        return CellError("#VALUE!", "INDEX wants an area")
    down, along = to_number(single(row)), to_number(single(column))
    error = first_error((down, along))
    if error:
        return error
    if not (1 <= down <= len(area.rows) and 1 <= along <= len(area.rows[0])):
        return CellError("#REF!", "outside the area")
    return area.rows[int(down) - 1][int(along) - 1]


@function("ROWS", 1, keeps_errors=True)
def rows(area):
    return len(area.rows) if isinstance(area, Block) else 1


@function("COLUMNS", 1, keeps_errors=True)
def columns(area):
    return len(area.rows[0]) if isinstance(area, Block) else 1


# Those that choose what is evaluated; the evaluator passes a way to do it


def if_(evaluate, condition, then, otherwise=None):
    truth = to_truth(single(evaluate(condition)))
    if isinstance(truth, CellError):
        return truth
    if truth:
        return evaluate(then)
    return False if otherwise is None else evaluate(otherwise)


def iferror(evaluate, tried, otherwise):
    value = single(evaluate(tried))
    return evaluate(otherwise) if isinstance(value, CellError) else value


def choose(evaluate, number, *choices):
    place = to_number(single(evaluate(number)))
    if isinstance(place, CellError):
        return place
    if not 1 <= place <= len(choices):
        return CellError("#VALUE!", f"there is no choice {to_text(place)}")
    return evaluate(choices[int(place) - 1])


LAZY = {
    "IF": Entry(if_, 2, 3, True),
    "IFERROR": Entry(iferror, 2, 2, True),
    "CHOOSE": Entry(choose, 2, ANY, True),
}


def call_lazily(name, evaluate, arguments):
    """Like `call`, for the functions in `LAZY`; the arguments are trees."""
    entry = LAZY[name]
    if not entry.least <= len(arguments) <= entry.most:
        return CellError("#VALUE!", f"{name} takes {_counted(entry)}, not {len(arguments)}")
    return entry.function(evaluate, *arguments)


def names():
    """The names of all functions, in the order of the alphabet."""
    return sorted((*TABLE, *LAZY))

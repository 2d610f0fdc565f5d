"""How numbers are shown: patterns such as `#,##0.00` and `0%`.

A pattern has up to two sections, divided by a semicolon: for numbers from 0 on, and for those
below 0. Where there is one only, numbers below 0 get a minus before it. In a section

    0        a digit, shown even where it is a leading or trailing nought
    #        a digit, left out where it is one
    .        the decimal point
    ,        between digits: thousands are separated
    %        the number is multiplied by a hundred, and the sign is shown
    "text"   shown as it is, as are blanks and the signs + - ( ) /

`General` shows a number as briefly as it can be written.
"""

import re
from collections import namedtuple

from cells.values import to_text

Section = namedtuple("Section", "before whole places optional thousands percent after")
"""One half of a pattern, taken apart.

`whole` is the least number of digits before the point, `places` the most after it, `optional` how
many of those may be left out.
"""

_DIGITS = re.compile(r"[#0,]*[#0](?:\.[#0]*)?|\.[#0]+")
_PLAIN = re.compile(r'"([^"]*)"|([ +\-()/%]+)')


def format_number(number, pattern):
    """A number as a text. A pattern that makes no sense raises ValueError."""
    if pattern.strip().lower() in ("", "general"):
        return to_text(number)
    sections = pattern.split(";")
    if len(sections) > 2:
        raise ValueError(f"more than two sections: {pattern!r}")
    if number < 0 and len(sections) == 2:
        return _show(-number, read_section(sections[1]))
    return _show(number, read_section(sections[0]))


def read_section(text):
    """Take a section apart. Raises ValueError where it has no digits, or more than one group."""
    groups = list(_DIGITS.finditer(_blanked(text)))
    if len(groups) != 1:
        raise ValueError(f"a pattern has one group of digits: {text!r}")
    start, end = groups[0].span()
    whole, _, places = text[start:end].partition(".")
    return Section(
        before=_plain(text[:start]),
        whole=whole.count("0"),
        places=len(places),
        optional=places.count("#"),
        thousands="," in whole,
        percent="%" in _blanked(text),
        after=_plain(text[end:]),
    )


def _blanked(text):
    """The section with its quoted texts blanked out, so that nothing in them counts."""
    return re.sub(r'"[^"]*"', lambda found: " " * len(found[0]), text)


def _plain(text):
    """What stands before or behind the digits, without quotes. Raises ValueError."""
    shown = []
    position = 0
    while position < len(text):
        found = _PLAIN.match(text, position)
        if not found:
            raise ValueError(f"a pattern cannot show {text[position]!r} without quotes")
        shown.append(found[1] if found[1] is not None else found[2])
        position = found.end()
    return "".join(shown)


def _show(number, section):
    scaled = number * 100 if section.percent else number
    digits = f"{scaled:.{section.places}f}"
    whole, _, places = digits.partition(".")
    whole = whole.zfill(section.whole)
    if section.whole == 0 and whole == "0":
        whole = ""
    if section.thousands:
        whole = group(whole)
    kept = len(places) - section.optional
    while len(places) > kept and places.endswith("0"):
        places = places[:-1]
    point = "." if places else ""
    return f"{section.before}{whole}{point}{places}{section.after}"


def group(digits):
    """Put a comma before every three digits, counted from the end."""
    parts = []
    while len(digits) > 3:
        parts.append(digits[-3:])
        digits = digits[:-3]
    parts.append(digits)
    return ",".join(reversed(parts))


def width_of(values, pattern):
    """How wide a column must be for these numbers."""
    return max((len(format_number(value, pattern)) for value in values), default=0)

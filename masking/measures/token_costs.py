"""What a text costs in o200k tokens, by the classes of its characters.

A linear model: patterns of classes are counted, and each match adds its cost. The costs were fitted
to exact counts of tool results, prose and made-up texts, bounded so that a run of any class costs
something at any length. All work is done in C, on bytes and in whole numbers, without Python's own
tables of characters: a text costs the same on every platform and version.
"""

from collections.abc import Iterable
from typing import NamedTuple

UNIT = 1000
"""Costs are in thousandths of a token."""


def find_cost(text: str) -> int:
    """Return what a text costs in thousandths of a token: 0 for "", else one token or more.

    Linear in the length of the text.
    """
    if not text:
        return 0
    classes = _EDGE + text.encode("utf-8", "surrogatepass").translate(_CLASSES, _CONTINUATIONS)
    for run, folded in _FOLDED:
        classes = classes.replace(run, folded)
    cost = 0
    for layer, patterns in _ASCII_PATTERNS if text.isascii() else _PATTERNS:
        count = classes.translate(layer).count
        for pattern, each in patterns:
            cost += each * count(pattern)
    return max(UNIT, cost)


def _make_table(default: bytes, *classes: tuple[str, Iterable[int]]) -> bytes:
    table = bytearray(default * 256)
    for letter, members in classes:
        for byte in members:
            table[byte] = ord(letter)
    return bytes(table)


_EDGE = b"^"
"""Put before the text, so that a word at its beginning is found like any other."""

_CONTINUATIONS = bytes(range(0x80, 0xC0))
"""Deleted: beyond ASCII only the first byte of a character's UTF-8 tells its class."""

_CLASSES = _make_table(
    b"x",  # control characters
    ("p", range(0x21, 0x7F)),  # signs; later rows take their own out
    ("d", b"0123456789"),
    ("l", range(0x61, 0x7B)),
    ("U", range(0x41, 0x5B)),
    ("r", b"=-*#_~.+/"),  # signs that are drawn in long runs
    (" ", b" "),
    ("t", b"\t"),
    ("n", b"\r\n"),
    ("S", b"\xc2\xe2"),  # Latin-1 signs, punctuation, arrows, box drawing
    ("a", range(0xC3, 0xC6)),  # Latin letters with accents
    ("c", range(0xC6, 0xE0)),  # Greek, Cyrillic, Hebrew, Arabic
    ("i", b"\xe0\xe1"),  # Devanagari, Thai and others
    ("k", b"\xe3"),  # kana, CJK punctuation
    ("C", range(0xE4, 0xEA)),  # ideographs
    ("K", range(0xEA, 0xEE)),  # Hangul
    ("w", b"\xee\xef"),  # full width
    ("e", range(0xF0, 0x100)),  # emoji and whatever else is beyond U+FFFF
)

_FOLDED = (
    (b"ddd", b"D"),  # o200k takes digits by three
    (b"dd", b"E"),
    (b"r" * 16, b"Q"),
    (b"r" * 4, b"R"),
    (b"S" * 16, b"X"),
    (b"S" * 4, b"B"),
    (b"tt", b"T"),
)
"""Runs that cost less than their characters would become one letter, the longest first."""

_AS_IS = bytes(range(256))

_LETTERS = _make_table(b"-", ("l", b"la"), ("U", b"U"), ("d", b"dED"), (" ", b" "))

_RUNS = _make_table(
    b"-",
    ("p", b"prSwRQXB"),
    ("c", b"c"),
    ("C", b"kC"),
    ("K", b"K"),
    ("i", b"i"),
    (" ", b" tT"),
    ("n", b"n"),
)
"""The classes that form a run together; `-` is anything else."""


def _starts(run: bytes) -> tuple[bytes, ...]:
    return tuple(bytes((before,)) + run for before in b"- npcCKi" if before != run[0])


class _Row(NamedTuple):
    """What each match of these patterns in a layer adds to the cost."""

    what: str
    layer: bytes
    cost: int
    patterns: tuple[bytes, ...]


_ROWS = (
    _Row("a word", _LETTERS, 1073, (b"-l", b"-U", b" l", b" U", b"dl", b"dU")),
    _Row("a word inside a word", _LETTERS, 995, (b"lU",)),
    _Row("a letter", _LETTERS, 50, (b"l", b"U")),
    _Row("four letters", _LETTERS, -78, (b"l" * 4,)),
    _Row("six letters", _LETTERS, 90, (b"l" * 6,)),
    _Row("twelve letters", _LETTERS, 681, (b"l" * 12,)),
    _Row("two capitals", _LETTERS, 343, (b"UU",)),
    _Row("a word after a blank", _LETTERS, -314, (b" l", b" U")),
    _Row("a word after a digit", _LETTERS, -700, (b"dl", b"dU")),
    _Row("a digit after a letter", _LETTERS, 341, (b"ld", b"Ud")),
    _Row("a letter between digits", _LETTERS, -700, (b"dld", b"dUd")),
    _Row("a digit between letters", _LETTERS, 1387, (b"ldl", b"UdU", b"ldU", b"Udl")),
    _Row("a number after a blank", _LETTERS, 1050, (b" d",)),
    _Row("digits, three at most", _AS_IS, UNIT, (b"d", b"E", b"D")),
    _Row("a word after a sign", _AS_IS, -700, (b"pl", b"pU")),
    _Row("a word after a sign of a rule", _AS_IS, -597, (b"rl", b"rU")),
    _Row("an accent", _AS_IS, 456, (b"a",)),
    _Row("a tab", _AS_IS, 719, (b"t",)),
    _Row("two tabs", _AS_IS, 100, (b"T",)),
    _Row("64 blanks", _AS_IS, 840, (b" " * 64,)),
    _Row("a sign", _AS_IS, 191, (b"p",)),
    _Row("a sign of a rule", _AS_IS, 272, (b"r",)),
    _Row("four signs of a rule", _AS_IS, 100, (b"R",)),
    _Row("sixteen signs of a rule", _AS_IS, 200, (b"Q",)),
    _Row("a control character", _AS_IS, 1500, (b"x",)),
    _Row("an emoji", _AS_IS, 2753, (b"e",)),
    _Row("a sign beyond ASCII", _AS_IS, 50, (b"S", b"w")),
    _Row("four signs beyond ASCII", _AS_IS, 2528, (b"B",)),
    _Row("sixteen signs beyond ASCII", _AS_IS, 2680, (b"X",)),
    _Row("a letter of Greek, Cyrillic, Hebrew or Arabic", _AS_IS, 150, (b"c",)),
    _Row("a letter of Devanagari or Thai", _AS_IS, 350, (b"i",)),
    _Row("an ideograph", _AS_IS, 525, (b"C",)),
    _Row("a kana", _AS_IS, 590, (b"k",)),
    _Row("a Hangul syllable", _AS_IS, 450, (b"K",)),
    _Row("line ends", _RUNS, 912, _starts(b"n")),
    _Row("line ends after signs", _RUNS, -700, (b"pn",)),
    _Row("line ends after blanks", _RUNS, -700, (b" n",)),
    _Row("an indent", _RUNS, 811, (b"  -", b"  p", b"  c", b"  C", b"  K", b"  i")),
    _Row("signs", _RUNS, 721, _starts(b"p")),
    _Row("signs after a blank", _RUNS, 249, (b" p",)),
    _Row("a second sign", _RUNS, 100, (b"pp",)),
    _Row("a word of Greek, Cyrillic, Hebrew or Arabic", _RUNS, 466, _starts(b"c")),
    _Row("a run of ideographs and kana", _RUNS, 1865, _starts(b"C")),
    _Row("a word of Hangul", _RUNS, 529, _starts(b"K")),
)

_Layers = tuple[tuple[bytes, tuple[tuple[bytes, int], ...]], ...]


def _group(rows: Iterable[_Row], classes: bytes) -> _Layers:
    """Return, for each layer, the patterns made of these classes alone, with their costs."""
    costs: dict[bytes, dict[bytes, int]] = {}
    for row in rows:
        for pattern in row.patterns:
            if not pattern.strip(classes):
                found = costs.setdefault(row.layer, {})
                found[pattern] = found.get(pattern, 0) + row.cost
    return tuple((layer, tuple(found.items())) for layer, found in costs.items())


_PATTERNS = _group(_ROWS, _AS_IS)

_ASCII_PATTERNS = _group(_ROWS, b"- lUdEDprRQtTnx")

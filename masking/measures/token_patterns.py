"""The classes of characters, and the patterns of them that cost something: a model of o200k.

The costs were fitted to exact counts of tool results, prose and made-up texts, bounded so that a
run of any class costs something at any length.
"""

from collections.abc import Iterable
from typing import NamedTuple

UNIT = 1000
"""Costs are in thousandths of a token."""


def make_table(default: bytes, *classes: tuple[str, Iterable[int]]) -> bytes:
    """Return a table for `bytes.translate`: a letter for each member, the default for the rest."""
    table = bytearray(default * 256)
    for letter, members in classes:
        for byte in members:
            table[byte] = ord(letter)
    return bytes(table)


EDGE = b"^"
"""Put before the text, so that a word at its beginning is found like any other."""

CONTINUATIONS = bytes(range(0x80, 0xC0))
"""Deleted: beyond ASCII only the first byte of a character's UTF-8 tells its class."""

CLASSES = make_table(
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

FOLDED = (
    (b"ddd", b"D"),  # o200k takes digits by three
    (b"dd", b"E"),
    (b"r" * 16, b"Q"),
    (b"r" * 4, b"R"),
    (b"S" * 16, b"X"),
    (b"S" * 4, b"B"),
    (b"tt", b"T"),
)
"""Runs that cost less than their characters would become one letter, the longest first."""

AS_IS = bytes(range(256))

LETTERS = make_table(b"-", ("l", b"la"), ("U", b"U"), ("d", b"dED"), (" ", b" "))

RUNS = make_table(
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


class Row(NamedTuple):
    """What each match of these patterns in a layer adds to the cost."""

    what: str
    layer: bytes
    cost: int
    patterns: tuple[bytes, ...]


ROWS = (
    Row("a word", LETTERS, 1073, (b"-l", b"-U", b" l", b" U", b"dl", b"dU")),
    Row("a word inside a word", LETTERS, 995, (b"lU",)),
    Row("a letter", LETTERS, 50, (b"l", b"U")),
    Row("four letters", LETTERS, -78, (b"l" * 4,)),
    Row("six letters", LETTERS, 90, (b"l" * 6,)),
    Row("twelve letters", LETTERS, 681, (b"l" * 12,)),
    Row("two capitals", LETTERS, 343, (b"UU",)),
    Row("a word after a blank", LETTERS, -314, (b" l", b" U")),
    Row("a word after a digit", LETTERS, -700, (b"dl", b"dU")),
    Row("a digit after a letter", LETTERS, 341, (b"ld", b"Ud")),
    Row("a letter between digits", LETTERS, -700, (b"dld", b"dUd")),
    Row("a digit between letters", LETTERS, 1387, (b"ldl", b"UdU", b"ldU", b"Udl")),
    Row("a number after a blank", LETTERS, 1050, (b" d",)),
    Row("digits, three at most", AS_IS, UNIT, (b"d", b"E", b"D")),
    Row("a word after a sign", AS_IS, -700, (b"pl", b"pU")),
    Row("a word after a sign of a rule", AS_IS, -597, (b"rl", b"rU")),
    Row("an accent", AS_IS, 456, (b"a",)),
    Row("a tab", AS_IS, 719, (b"t",)),
    Row("two tabs", AS_IS, 100, (b"T",)),
    Row("64 blanks", AS_IS, 840, (b" " * 64,)),
    Row("a sign", AS_IS, 191, (b"p",)),
    Row("a sign of a rule", AS_IS, 272, (b"r",)),
    Row("four signs of a rule", AS_IS, 100, (b"R",)),
    Row("sixteen signs of a rule", AS_IS, 200, (b"Q",)),
    Row("a control character", AS_IS, 1500, (b"x",)),
    Row("an emoji", AS_IS, 2753, (b"e",)),
    Row("a sign beyond ASCII", AS_IS, 50, (b"S", b"w")),
    Row("four signs beyond ASCII", AS_IS, 2528, (b"B",)),
    Row("sixteen signs beyond ASCII", AS_IS, 2680, (b"X",)),
    Row("a letter of Greek, Cyrillic, Hebrew or Arabic", AS_IS, 150, (b"c",)),
    Row("a letter of Devanagari or Thai", AS_IS, 350, (b"i",)),
    Row("an ideograph", AS_IS, 525, (b"C",)),
    Row("a kana", AS_IS, 590, (b"k",)),
    Row("a Hangul syllable", AS_IS, 450, (b"K",)),
    Row("line ends", RUNS, 912, _starts(b"n")),
    Row("line ends after signs", RUNS, -700, (b"pn",)),
    Row("line ends after blanks", RUNS, -700, (b" n",)),
    Row("an indent", RUNS, 811, (b"  -", b"  p", b"  c", b"  C", b"  K", b"  i")),
    Row("signs", RUNS, 721, _starts(b"p")),
    Row("signs after a blank", RUNS, 249, (b" p",)),
    Row("a second sign", RUNS, 100, (b"pp",)),
    Row("a word of Greek, Cyrillic, Hebrew or Arabic", RUNS, 466, _starts(b"c")),
    Row("a run of ideographs and kana", RUNS, 1865, _starts(b"C")),
    Row("a word of Hangul", RUNS, 529, _starts(b"K")),
)

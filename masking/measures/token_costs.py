"""What a text costs in o200k tokens, by the classes of its characters.

A linear model: patterns of classes are counted, and each match adds its cost. The costs were fitted
to exact counts of tool results, prose and made-up texts, bounded so that a run of any class costs
something at any length. All work is done in C, on bytes and in whole numbers, without Python's own
tables of characters: a text costs the same on every platform and version.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

UNIT = 1000
"""Costs are in thousandths of a token."""


def find_cost(text: str) -> int:
    """Return what a text costs in thousandths of a token: 0 for "", else one token or more.

    Linear in the length of the text.
    """
    if not text:
        return 0
    folded, singles, pairs, longer = _ASCII_MODEL if text.isascii() else _MODEL
    classes = _EDGE + text.encode("utf-8", "surrogatepass").translate(_CLASSES, _CONTINUATIONS)
    for run, letter in folded:
        classes = classes.replace(run, letter)
    found = _pair(classes).translate(_PAIR_LETTERS)
    cost = _weigh(found, pairs) + _weigh(classes.translate(_SINGLE_LETTERS), singles)
    for layer, patterns in longer:
        cost += _weigh(classes.translate(layer), patterns)
    if _DIGIT_AFTER_LETTER in found:
        cost += _weigh(classes.translate(_LETTERS), _AROUND_DIGITS)
    return max(UNIT, cost)


def _pair(classes: bytes) -> bytes:
    """Return a byte for each two neighbours: the code of the first, and that of the second."""
    first = int.from_bytes(classes[:-1].translate(_FIRST), "big")
    second = int.from_bytes(classes[1:].translate(_SECOND), "big")
    return (first | second).to_bytes(len(classes) - 1, "big")


def _weigh(found: bytes, patterns: "_Patterns") -> int:
    count = found.count
    return sum([each * count(pattern) for pattern, each in patterns])


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

_Patterns = tuple[tuple[bytes, int], ...]


def _make_letters(costs: Sequence[int]) -> tuple[bytes, _Patterns]:
    """Return a letter for each byte that costs something, and what each letter costs.

    Bytes that cost the same have one letter: to count a single byte is several times as fast as to
    count two, and a text has many pairs of few costs.
    """
    letters = {cost: at for at, cost in enumerate(sorted({*costs} - {0}), 1)}
    table = bytes(letters.get(cost, 0) for cost in costs)
    return table, tuple((bytes((at,)), cost) for cost, at in letters.items())


def _add_up() -> dict[bytes, dict[bytes, int]]:
    """Return what each pattern of each layer costs, all rows together."""
    costs: dict[bytes, dict[bytes, int]] = {}
    for row in _ROWS:
        found = costs.setdefault(row.layer, {})
        for pattern in row.patterns:
            found[pattern] = found.get(pattern, 0) + row.cost
    return costs


_COSTS = _add_up()


def _is_pair(pattern: bytes) -> bool:
    """Whether a pattern is of two classes; of one class it might overlap with itself."""
    return len({*pattern}) == len(pattern) == 2


def _find_role(byte: int) -> tuple[tuple[bool, bool], ...]:
    """Return in which pairs a class is the first, and in which the second."""
    return tuple(
        (row.layer[byte] == pattern[0], row.layer[byte] == pattern[1])
        for row in _ROWS
        for pattern in row.patterns
        if _is_pair(pattern)
    )


_ALL_CLASSES = {*_CLASSES, *_EDGE, *b"".join(letter for _, letter in _FOLDED)}

_ROLE_OF = {byte: _find_role(byte) for byte in sorted(_ALL_CLASSES)}
_ROLES = {role: byte for byte, role in _ROLE_OF.items()}
"""By its role, one class of those that have it. There are fewer than sixteen."""

_CODES = {role: code for code, role in enumerate(_ROLES)}
_MEMBERS = [*_ROLES.values()]

_SECOND = bytes(_CODES[_ROLE_OF[byte]] if byte in _ROLE_OF else 0 for byte in range(256))
_FIRST = bytes(code << 4 for code in _SECOND)


def _find_pair_cost(pair: int) -> int:
    first, second = pair >> 4, pair & 15
    if max(first, second) >= len(_MEMBERS):
        return 0
    classes = bytes((_MEMBERS[first], _MEMBERS[second]))
    seen = ((costs, classes.translate(layer)) for layer, costs in _COSTS.items())
    return sum(costs.get(pattern, 0) for costs, pattern in seen if _is_pair(pattern))


def _find_single_cost(byte: int) -> int:
    return sum(costs.get(bytes((layer[byte],)), 0) for layer, costs in _COSTS.items())


_SINGLE_LETTERS, _SINGLES = _make_letters([*map(_find_single_cost, range(256))])
_PAIR_LETTERS, _PAIRS = _make_letters([*map(_find_pair_cost, range(256))])

_DIGIT_AFTER_LETTER = _PAIR_LETTERS[_FIRST[ord("l")] | _SECOND[ord("d")]]


def _is_around_digit(pattern: bytes) -> bool:
    return len(pattern) > 2 and (b"ld" in pattern or b"Ud" in pattern)


_AROUND_DIGITS: _Patterns = tuple(
    (pattern, row.cost) for row in _ROWS for pattern in row.patterns if _is_around_digit(pattern)
)
"""Of letters alone. They are rare, and each holds a digit after a letter."""


def _group_longer(classes: bytes) -> tuple[tuple[bytes, _Patterns], ...]:
    """Return, for each layer, the other patterns made of these classes alone, with their costs."""
    costs: dict[bytes, dict[bytes, int]] = {}
    for row in _ROWS:
        for pattern in row.patterns:
            is_other = len(pattern) > 1 and not _is_pair(pattern) and not _is_around_digit(pattern)
            if is_other and not pattern.strip(classes):
                found = costs.setdefault(row.layer, {})
                found[pattern] = found.get(pattern, 0) + row.cost
    return tuple((layer, tuple(found.items())) for layer, found in costs.items())


class _Model(NamedTuple):
    """What is looked for in a text: runs to be folded, letters that stand for costs, patterns."""

    folded: tuple[tuple[bytes, bytes], ...]
    singles: _Patterns
    pairs: _Patterns
    longer: tuple[tuple[bytes, _Patterns], ...]


def _make_model(classes: bytes) -> _Model:
    """Return what can be found in a text of these classes."""
    codes = classes.translate(_SECOND)
    singles = {*classes.translate(_SINGLE_LETTERS)}
    pairs = {_PAIR_LETTERS[first << 4 | second] for first in codes for second in codes}
    return _Model(
        tuple(each for each in _FOLDED if each[1] in classes),
        tuple(each for each in _SINGLES if each[0][0] in singles),
        tuple(each for each in _PAIRS if each[0][0] in pairs),
        _group_longer(classes),
    )


_MODEL = _make_model(_AS_IS)
_ASCII_MODEL = _make_model(_EDGE + b"- lUdEDprRQtTnx")

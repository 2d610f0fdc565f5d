"""The estimated o200k tokens of a text: a function of the text, cheap enough for a request's path.

A short text is measured whole, a long one by slices of it. Agents repeat their texts at every turn,
so measurements are remembered, each under all that it was made from: no estimate depends on what
was estimated before.
"""

import sys
from binascii import unhexlify
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import NamedTuple
from zlib import adler32

# What a text costs: a linear model over the classes of its characters. Each character becomes the
# letter of its class; the patterns in `ROWS` are counted in that, and each match adds its cost. The
# costs were fitted to o200k's exact counts of tool results, prose and made-up texts, bounded so
# that a run of any class costs something at any length. `python -m
# tests.tools.benchmarks.token_fit` fits such costs again, and says how near both are; its first
# lines say why it does not print the very same ones. All work is done in C, on bytes and in whole
# numbers, without Python's own tables of characters, and without a tokenizer: a text costs the same
# on every platform and version.

UNIT = 1000
"""Costs are in thousandths of a token."""


def _make_table(default: bytes, *classes: tuple[str, Iterable[int]]) -> bytes:
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

CLASSES = _make_table(
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

LETTERS = _make_table(b"-", ("l", b"la"), ("U", b"U"), ("d", b"dED"), (" ", b" "))

RUNS = _make_table(
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


# How it is evaluated. Plainly, the text would be translated once for each of the three layers, and
# every pattern counted: 59 microseconds for 1,024 characters, where this takes 16. A request that
# is met for the first time then takes 1.65 times as long, as every request does in a replica that
# remembers nothing (`python -m tests.tools.benchmarks.rewrite`). So the plain evaluation, of a
# dozen lines, is in `tests/support/plain_cost.py`, and the tests hold the two equal.
#
# Nearly all patterns are a single class or a pair of two classes, so their cost is a function of a
# character and its neighbor. If each class has a hexadecimal digit, `unhexlify` makes one byte of
# two neighbors, and a table of 256 entries says what that pair costs. This is done for the pairs
# that begin at even places, then for those that begin at odd ones. `_add_up` sums the entries.
#
# The other patterns, such as four letters or a digit between letters, are counted one by one, but
# only in a text that has pairs of the kinds that they are made of.
#
# There are 26 letters and 16 digits. The 15 letters of ASCII have a digit each, so a text of ASCII
# is turned into digits at once. In any other text, classes that stand in the same pairs share a
# digit, and what the classes cost by themselves is added apart.


def compute_cost(text: str) -> int:
    """Return what a text costs in thousandths of a token: 0 for "", else one token or more.

    Linear in the length of the text.
    """
    if not text:
        return 0
    evaluator = _ASCII if text.isascii() else _ANY
    letters = text.encode("utf-8", "surrogatepass").translate(evaluator.classes, evaluator.deleted)
    return (evaluator.compute_short if len(letters) <= _SHORT else evaluator.compute)(letters)


def forget_short_texts() -> None:
    """Forget what short texts cost, as if the process had just begun."""
    for evaluator in (_ASCII, _ANY):
        evaluator.compute_short.cache_clear()


_SHORT = 200
_REMEMBERED = 4_096
"""Short texts are often alike but for their letters and digits, above all placeholders."""

_BASE = 64
_MOST_DIGITS = 65_520 // (_BASE - 1)
"""So many digits have a sum below the modulus of a checksum."""


class _Costs(NamedTuple):
    """What each byte costs: `least`, and what is more than that, in two digits of base 64."""

    least: int
    high: bytes
    low: bytes


def _split(costs: Sequence[int]) -> _Costs:
    least = min(costs)
    digits = [divmod(cost - least, _BASE) for cost in costs]
    return _Costs(least, bytes(high for high, _ in digits), bytes(low for _, low in digits))


def _add_up(found: bytes, costs: _Costs) -> int:
    """Return what these bytes cost together."""
    # The low half of an Adler-32 checksum that begins at 0 is the sum of the bytes, modulo 65,521
    # (RFC 1950): the one sum of bytes in the standard library that makes no int of each. A cost
    # is larger than a byte, so two digits are summed, and of a long text by parts.
    least, high, low = costs
    high, low, count = found.translate(high), found.translate(low), len(found)
    if count <= _MOST_DIGITS:  # as of nearly all texts that are measured
        total = _BASE * (adler32(high, 0) & 0xFFFF) + (adler32(low, 0) & 0xFFFF)
        return total + least * count
    parts = [slice(at, at + _MOST_DIGITS) for at in range(0, count, _MOST_DIGITS)]
    total = sum([_BASE * (adler32(high[part], 0) & 0xFFFF) for part in parts])
    return total + sum([adler32(low[part], 0) & 0xFFFF for part in parts]) + least * count


_Longer = tuple[bytes | None, int, int, tuple[tuple[bytes, int], ...]]

_KINDS = (
    (LETTERS, (b"ll",)),
    (LETTERS, (b"UU",)),
    (LETTERS, (b"ld", b"Ud")),
    (LETTERS, (b"dl", b"dU")),
    (RUNS, (b"  ",)),
    (RUNS, (b"pp",)),
)
"""Kinds of pairs. Each pattern that is neither a class nor a pair of two has pairs of one of these
kinds, or of two; most texts have few."""


def _add_rows() -> dict[bytes, dict[bytes, int]]:
    """Return what each pattern of each layer costs, all rows together."""
    costs: dict[bytes, dict[bytes, int]] = {}
    for row in ROWS:
        in_layer = costs.setdefault(row.layer, {})
        for pattern in row.patterns:
            in_layer[pattern] = in_layer.get(pattern, 0) + row.cost
    return costs


_COSTS = _add_rows()


def _is_short(pattern: bytes) -> bool:
    """Whether it is a class, or a pair of two; a pair of one class might overlap with itself."""
    return len({*pattern}) == len(pattern) <= 2


_SHORT_COSTS = {
    layer: {pattern: cost for pattern, cost in costs.items() if _is_short(pattern)}
    for layer, costs in _COSTS.items()
}


def _own_cost(classes: bytes) -> int:
    """Return what a class costs, or a pair of them, beside the classes in it."""
    return sum(costs.get(classes.translate(layer), 0) for layer, costs in _SHORT_COSTS.items())


def _pairs_with(byte: int) -> tuple[tuple[bool, bool], ...]:
    """Return in which pairs a class is the first, and in which the second."""
    return tuple(
        (layer[byte] == pattern[0], layer[byte] == pattern[1])
        for layer, costs in _COSTS.items()
        for pattern in costs
        if len(pattern) == 2 and _is_short(pattern)
    )


class _Evaluator:
    """Computes the cost of texts of certain classes, the edge among them."""

    def __init__(self, classes: bytes, *, is_ascii: bool) -> None:
        # A digit for each class, or for all that stand in the same pairs.
        roles = [*classes] if is_ascii else [*map(_pairs_with, classes)]
        codes = [[*dict.fromkeys(roles)].index(role) for role in roles]
        to_digits = bytes.maketrans(classes, "".join(f"{code:x}" for code in codes).encode())
        to_letters = to_digits if is_ascii else AS_IS

        # From a byte of a text to the letter of its class, or at once to its digit.
        self.classes = CLASSES.translate(to_letters)
        self.deleted = b"" if is_ascii else CONTINUATIONS
        self._edge = EDGE.translate(to_letters)
        self._folded = [
            (run.translate(to_letters), letter.translate(to_letters))
            for run, letter in FOLDED
            if letter in classes
        ]
        self._to_digits = None if is_ascii else to_digits

        # What each pair of digits costs, with its second class where that has a digit of its own;
        # and of which kind it is, counted from 1.
        costs, kinds = [0] * 256, bytearray(256)
        for one, first in zip(classes, codes, strict=True):
            for other, second in zip(classes, codes, strict=True):
                at, pair = first << 4 | second, bytes((one, other))
                costs[at] = _own_cost(pair) + (_own_cost(pair[1:]) if is_ascii else 0)
                for kind, (layer, pairs) in enumerate(_KINDS, 1):
                    if pair.translate(layer) in pairs:
                        kinds[at] = kind
        self._pairs, self._kinds = _split(costs), bytes(kinds)
        self._singles = None if is_ascii else _split([_own_cost(bytes((n,))) for n in range(256)])

        self._longer = _group_longer(classes, classes.translate(to_letters))
        self.compute_short = lru_cache(_REMEMBERED)(self.compute)

    def compute(self, letters: bytes) -> int:
        """Return what a text costs, of whose characters these are the classes."""
        letters = self._edge + letters
        for run, letter in self._folded:
            if run[0] in letters:
                letters = letters.replace(run, letter)

        digits = letters if self._to_digits is None else letters.translate(self._to_digits)
        pairs = unhexlify(digits[: len(digits) & -2]) + unhexlify(digits[1 : len(digits) - 1 | 1])
        cost = _add_up(pairs, self._pairs)
        if self._singles is not None:
            cost += _add_up(letters, self._singles)

        kinds, translated_by, translated = pairs.translate(self._kinds), None, letters
        for layer, first, last, patterns in self._longer:
            if first in kinds and last in kinds:
                if layer is not translated_by:
                    translated_by, translated = layer, letters.translate(layer)
                for pattern, each in patterns:
                    cost += each * translated.count(pattern)
        return max(UNIT, cost)


def _group_longer(classes: bytes, letters: bytes) -> tuple[_Longer, ...]:
    """Return the patterns that are neither a class nor a pair, if made of these classes alone.

    They are grouped by the layer in which they are counted, and by the first and the last kind of
    pair in them. Where a pattern has the letters as they are, the layer is None, and comes first.
    `letters` are those that the classes have in the evaluator.
    """
    groups: dict[bytes | None, dict[tuple[int, int], list[tuple[bytes, int]]]] = {None: {}}
    for layer, costs in _COSTS.items():
        in_layer = classes.translate(layer)
        renamed = _make_table(b"-", *zip(map(chr, in_layer), zip(letters), strict=True))
        for pattern, cost in costs.items():
            if _is_short(pattern) or pattern.strip(in_layer):
                continue
            kinds = [
                n for n, (_, pairs) in enumerate(_KINDS, 1) if any(p in pattern for p in pairs)
            ]
            is_plain = all(in_layer.count(letter) == 1 for letter in pattern)
            if is_plain:
                pattern = pattern.translate(bytes.maketrans(in_layer, letters))
            by_kinds = groups.setdefault(None if is_plain else renamed, {})
            by_kinds.setdefault((kinds[0], kinds[-1]), []).append((pattern, cost))
    return tuple(
        (layer, *kinds, tuple(patterns))
        for layer, by_kinds in groups.items()
        for kinds, patterns in by_kinds.items()
    )


_ASCII = _Evaluator(EDGE + b" lUdEDprRQtTnx", is_ascii=True)
_ANY = _Evaluator(
    bytes(sorted({*CLASSES, *EDGE, *b"".join(letter for _, letter in FOLDED)})), is_ascii=False
)


# Which texts are measured, whole or by slices, and what is remembered of that.

_WHOLE_CHARS = 1024
"""Up to this length a text is measured whole."""

_CLOSE_CHARS = 32_768
"""Up to this length a text whose slices differ too much is measured whole, too."""

_SLICE_CHARS = 128
_FEWEST_SLICES = 4
_CHARS_PER_SLICE = 2048
_MOST_SLICES = 64
_CLOSE_SLICES = 256

_BLOCK_BITS = 8
"""Texts whose lengths differ only in this many low bits are cut at the same places."""

_GOLDEN = 40_503
"""2**16 divided by the golden ratio: places spread by it fall into step with no line length."""

_RATE_BITS = 24
"""A rate is in tokens per 2**24 characters."""

_UNEVEN = -1
"""In place of the rate of a sample whose slices differ too much."""

_ENTRY_BYTES = 128
"""The size of an entry of a table, without its key."""

_Sample = tuple[str, ...]
_Cutter = Callable[[str], _Sample]


class TokenEstimator:
    """Estimates tokens, and remembers texts and samples: all of them, until they take `max_bytes`.

    Then it begins anew. Threads may share an estimator.
    """

    def __init__(self, max_bytes: int = 16 << 20) -> None:
        self._max_bytes = max_bytes
        self.forget()

    def forget(self) -> None:
        """Forget every text, as if the process had just begun."""
        forget_short_texts()
        self._known: dict[str | _Sample, int] = {}
        self._bytes = 0

    def estimate(self, text: str) -> int:
        """Return the estimated o200k tokens of a text: 0 for "", else one or more."""
        chars = len(text)
        if chars <= _WHOLE_CHARS:
            return self._measure(text)
        rate = self._measure(_get_cutter(chars >> _BLOCK_BITS)(text))
        if rate == _UNEVEN:
            if chars <= _CLOSE_CHARS:
                return self._measure(text)
            rate = self._measure(_get_cutter(chars >> _BLOCK_BITS, is_close=True)(text))
        return chars * rate >> _RATE_BITS

    def _measure(self, key: str | _Sample) -> int:
        """Return the tokens of a text, or the rate of a sample; count only what is unknown."""
        known = self._known.get(key)
        if known is not None:
            return known
        # Unlocked: two threads may at worst measure the same text, or lose its size from the sum.
        known = _count_tokens(key) if isinstance(key, str) else _measure_rate(key)
        size = sys.getsizeof(key) if isinstance(key, str) else sum(map(sys.getsizeof, key))
        self._known[key] = known
        self._bytes += _ENTRY_BYTES + size
        if self._bytes > self._max_bytes:
            self.forget()
        return known


ESTIMATOR = TokenEstimator()
"""The estimator of the whole process: a global of up to 16 MB on every request's path. It changes
how long an estimate takes, never what it is."""

estimate_tokens = ESTIMATOR.estimate
"""Return the estimated o200k tokens of a text: 0 for "", else one or more."""


def _count_tokens(text: str) -> int:
    return (compute_cost(text) + UNIT // 2) // UNIT


def _measure_rate(sample: _Sample) -> int:
    """Return a sample's tokens per 2**24 characters, or `_UNEVEN` if a closer look is needed.

    The slices are joined, so that a word cut off at the end of one meets one cut off at the start
    of the next. The rate is at least a token per 1,024 characters: a long text has at least one.
    """
    if len(sample) < _CLOSE_SLICES and _is_uneven(sample):
        return _UNEVEN
    joined = "".join(sample)
    return max((compute_cost(joined) << _RATE_BITS) // (UNIT * len(joined)), 1 << _RATE_BITS - 10)


def _is_uneven(sample: _Sample) -> bool:
    """Whether the mean of the slices has a standard error of more than a tenth.

    It is measured in bytes other than blanks, which go with tokens in any script.
    """
    sizes = [len(text.encode("utf-8", "surrogatepass")) - text.count(" ") for text in sample]
    many, total = len(sizes), sum(sizes)
    return 100 * (many * sum(size * size for size in sizes) - total**2) > (many - 1) * total**2


@lru_cache(maxsize=1024)
def _get_cutter(block: int, *, is_close: bool = False) -> _Cutter:
    """Return a function that cuts a sample from a text of this block of lengths.

    It cuts a slice from each of some equal parts. Slices in the first half are counted from the
    beginning, the others from the end, because lengths differ within a block.
    """
    chars = block << _BLOCK_BITS
    slices = min(_MOST_SLICES, _FEWEST_SLICES + chars // _CHARS_PER_SLICE)
    if is_close:
        slices = _CLOSE_SLICES
    part, cuts = chars // slices, []
    for at in range(slices):
        start = at * part + ((part - _SLICE_CHARS) * (at * _GOLDEN & 0xFFFF) >> 16)
        if 2 * at >= slices:
            start -= chars
        cuts.append(slice(start, (start + _SLICE_CHARS) or None))
    return itemgetter(*cuts)

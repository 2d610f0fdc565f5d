"""What a text costs in o200k tokens, by the classes of its characters.

A linear model: the patterns of `token_patterns` are counted, and each match adds its cost. All work
is done in C, on bytes and in whole numbers, without Python's own tables of characters: a text costs
the same on every platform and version.
"""

from binascii import unhexlify
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple
from zlib import adler32

from masking.measures.token_patterns import (
    AS_IS,
    CLASSES,
    CONTINUATIONS,
    EDGE,
    FOLDED,
    LETTERS,
    ROWS,
    RUNS,
    UNIT,
    make_table,
)


def find_cost(text: str) -> int:
    """Return what a text costs in thousandths of a token: 0 for "", else one token or more.

    Linear in the length of the text.
    """
    if not text:
        return 0
    is_ascii = text.isascii()
    model = _ASCII_MODEL if is_ascii else _MODEL
    classes = text.encode("utf-8", "surrogatepass").translate(model.classes, model.deleted)
    find = find_short_cost if len(classes) <= _SHORT else _find_cost
    return find(classes, is_ascii)


def _find_cost(classes: bytes, is_ascii: bool) -> int:
    model = _ASCII_MODEL if is_ascii else _MODEL
    classes = model.edge + classes
    for run, letter in model.folded:
        if run[0] in classes:
            classes = classes.replace(run, letter)
    # Nearly all of the cost is that of single classes and of pairs, which a table gives. Each class
    # has a hexadecimal digit, so two neighbours are a byte: those that begin at even places, then
    # those that begin at odd ones.
    digits = classes if model.digits is None else classes.translate(model.digits)
    pairs = unhexlify(digits[: len(digits) & -2]) + unhexlify(digits[1 : len(digits) - 1 | 1])
    cost = _add_up(pairs, model.pairs)
    if model.singles is not None:
        cost += _add_up(classes, model.singles)
    kinds, at, found = pairs.translate(model.kinds), None, classes
    for layer, kind, other, patterns in model.longer:
        if kind in kinds and other in kinds:
            if layer is not at:
                at, found = layer, classes.translate(layer)
            for pattern, each in patterns:
                cost += each * found.count(pattern)
    return max(UNIT, cost)


_SHORT = 200
find_short_cost = lru_cache(4096)(_find_cost)
"""Short texts are often alike but for their letters and digits, above all placeholders."""


class _Costs(NamedTuple):
    """What each byte costs: `least`, and what is more than that, in two digits."""

    least: int
    high: bytes
    low: bytes


_BASE = 64
_MOST_DIGITS = 65_520 // (_BASE - 1)
"""The sum of so many digits is less than the modulus of a checksum."""


def _add_up(found: bytes, costs: _Costs) -> int:
    """Return what these bytes cost together.

    The low half of an Adler-32 checksum is the sum of the bytes, modulo 65,521 (RFC 1950).
    """
    least, high, low = costs
    high, low, count = found.translate(high), found.translate(low), len(found)
    if count <= _MOST_DIGITS:  # as of nearly all texts that are measured
        total = _BASE * (adler32(high, 0) & 0xFFFF) + (adler32(low, 0) & 0xFFFF)
        return total + least * count
    parts = [slice(at, at + _MOST_DIGITS) for at in range(0, count, _MOST_DIGITS)]
    total = sum([_BASE * (adler32(high[part], 0) & 0xFFFF) for part in parts])
    return total + sum([adler32(low[part], 0) & 0xFFFF for part in parts]) + least * count


_Longer = tuple[bytes | None, int, int, tuple[tuple[bytes, int], ...]]


class _Model(NamedTuple):
    """How the patterns are found in a text of certain classes.

    classes: a letter for each byte, by its class; those `deleted` tell none.
    edge: the letter of a text's edge.
    folded: the runs that become one letter.
    digits: a hexadecimal digit for each letter; None if the letters are such digits.
    pairs: what each pair of digits costs.
    singles: what each letter costs by itself; None if the pairs have that of their second one.
    kinds: for each pair of digits, of which kind in `_HELD` it is, counted from 1; 0 for none.
    longer: all other patterns, by the layer in which they are looked for, and by the first and the
        last kind of pair that they hold. The letters as they are come first, as None.
    """

    classes: bytes
    deleted: bytes
    edge: bytes
    folded: tuple[tuple[bytes, bytes], ...]
    digits: bytes | None
    pairs: _Costs
    singles: _Costs | None
    kinds: bytes
    longer: tuple[_Longer, ...]


_HELD = (
    (LETTERS, (b"ll",)),
    (LETTERS, (b"UU",)),
    (LETTERS, (b"ld", b"Ud")),
    (LETTERS, (b"dl", b"dU")),
    (RUNS, (b"  ",)),
    (RUNS, (b"pp",)),
)
"""Each pattern that is neither a class nor a pair of two holds pairs of one of these kinds, or of
two; most texts hold few."""


def _add_layers() -> dict[bytes, dict[bytes, int]]:
    """Return what each pattern of each layer costs, all rows together."""
    costs: dict[bytes, dict[bytes, int]] = {}
    for row in ROWS:
        found = costs.setdefault(row.layer, {})
        for pattern in row.patterns:
            found[pattern] = found.get(pattern, 0) + row.cost
    return costs


_COSTS = _add_layers()


def _is_short(pattern: bytes) -> bool:
    """Whether it is a class, or a pair of two; a pair of one class might overlap with itself."""
    return len({*pattern}) == len(pattern) <= 2


def _find_own_cost(classes: bytes) -> int:
    """Return what a class costs, or a pair of them, beside the classes in it."""
    seen = ((costs, classes.translate(layer)) for layer, costs in _COSTS.items())
    return sum(costs.get(found, 0) for costs, found in seen if _is_short(found))


def _find_role(byte: int) -> tuple[tuple[bool, bool], ...]:
    """Return in which pairs a class is the first, and in which the second."""
    return tuple(
        (layer[byte] == pattern[0], layer[byte] == pattern[1])
        for layer, costs in _COSTS.items()
        for pattern in costs
        if len(pattern) == 2 and _is_short(pattern)
    )


def _find_kind(pair: bytes) -> int:
    held = (n for n, (layer, pairs) in enumerate(_HELD, 1) if pair.translate(layer) in pairs)
    return next(held, 0)


def _find_longer(classes: bytes, names: bytes) -> tuple[_Longer, ...]:
    """Return the other patterns that are made of these classes alone.

    `names` are the letters that the classes have in a model.
    """
    groups: dict[bytes | None, dict[tuple[int, int], list[tuple[bytes, int]]]] = {None: {}}
    for layer, costs in _COSTS.items():
        letters = classes.translate(layer)
        renamed = make_table(b"-", *zip(map(chr, letters), zip(names), strict=True))
        for pattern, cost in costs.items():
            if _is_short(pattern) or pattern.strip(letters):
                continue
            held = [n for n, (_, pairs) in enumerate(_HELD, 1) if any(p in pattern for p in pairs)]
            is_plain = all(letters.count(letter) == 1 for letter in pattern)
            as_is = pattern.translate(bytes.maketrans(letters, names)) if is_plain else pattern
            by_kinds = groups.setdefault(None if is_plain else renamed, {})
            by_kinds.setdefault((held[0], held[-1]), []).append((as_is, cost))
    return tuple(
        (layer, *kinds, tuple(found))
        for layer, by_kinds in groups.items()
        for kinds, found in by_kinds.items()
    )


def _make_model(classes: bytes, *, is_ascii: bool) -> _Model:
    """Return how the patterns are found in a text of these classes, the edge among them.

    There are more classes than digits. Those that stand in the same pairs share one; the classes of
    ASCII are few enough for one each, so that a pair also tells what its second class costs.
    """
    roles = [*classes] if is_ascii else [*map(_find_role, classes)]
    codes = [[*dict.fromkeys(roles)].index(role) for role in roles]
    digits = "".join(f"{code:x}" for code in codes).encode()
    costs, kinds = [0] * 256, bytearray(256)
    for one, first in zip(classes, codes, strict=True):
        for other, second in zip(classes, codes, strict=True):
            at, pair = first << 4 | second, bytes((one, other))
            costs[at] = _find_own_cost(pair) + (_find_own_cost(pair[1:]) if is_ascii else 0)
            kinds[at] = _find_kind(pair) or kinds[at]
    to_digits = bytes.maketrans(classes, digits)
    to_names = to_digits if is_ascii else AS_IS
    return _Model(
        CLASSES.translate(to_names),
        b"" if is_ascii else CONTINUATIONS,
        EDGE.translate(to_names),
        tuple(
            (run.translate(to_names), letter.translate(to_names))
            for run, letter in FOLDED
            if letter in classes
        ),
        None if is_ascii else to_digits,
        _make_costs(costs),
        None if is_ascii else _make_costs([_find_own_cost(bytes((n,))) for n in range(256)]),
        bytes(kinds),
        _find_longer(classes, classes.translate(to_names)),
    )


def _make_costs(costs: Sequence[int]) -> _Costs:
    least = min(costs)
    digits = [divmod(cost - least, _BASE) for cost in costs]
    return _Costs(least, bytes(high for high, _ in digits), bytes(low for _, low in digits))


_ALL_CLASSES = bytes(sorted({*CLASSES, *EDGE, *b"".join(letter for _, letter in FOLDED)}))
_MODEL = _make_model(_ALL_CLASSES, is_ascii=False)
_ASCII_MODEL = _make_model(EDGE + b" lUdEDprRQtTnx", is_ascii=True)

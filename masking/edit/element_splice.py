"""Carry out replacements in a body whose elements are known by their bytes: one at a time.

What comes of an element under the same replacements is the same in every request, so it is made and
proven once. The body needs no proof of its own. It was proven to be a list of these elements in
their frame (see `masking.frames`), and an element that was edited is proven to decode to what it
should. It stands where the old one stood, so the body decodes to the document with exactly these
replacements, and nothing else in it has changed.
"""

from collections.abc import Iterable
from itertools import groupby

from masking.decoded import Cut
from masking.edit.splice import splice
from masking.errors import WireError
from masking.known import Edited, Remembered
from masking.model import Edits, Replacement, make


def splice_elements(
    body: bytes, cut: Cut, replacements: Iterable[Replacement], depth: int
) -> bytes:
    """Return the body with the texts replaced, and every other byte as it was.

    `depth` is the length of the list's path. Raises WireError if an element cannot be edited, or
    not be proven.
    """
    ascii_only = body.isascii()
    pieces: list[bytes] = []
    done = 0
    for at, group in groupby(replacements, lambda replacement: replacement.path[depth]):
        known, start = cut.known[int(at)], cut.starts[int(at)]
        if start < done:
            raise WireError("not in order")
        pieces += (body[done:start], _edit(known, tuple(group), depth, ascii_only=ascii_only))
        done = start + len(known.data)
    return b"".join((*pieces, body[done:]))


def _edit(
    known: Remembered, replacements: tuple[Replacement, ...], depth: int, *, ascii_only: bool
) -> bytes:
    edited = known.edited
    if edited is None or edited.ascii_only is not ascii_only or edited.replacements != replacements:
        inside = tuple(
            [make(Replacement, (each[0][depth + 1 :], *each[1:])) for each in replacements]
        )
        data = splice(known.data, known.item, Edits(inside), ascii_only=ascii_only)
        known.edited = edited = Edited(replacements, ascii_only, data)
    return edited.data

"""A request as decoded, and what is remembered of its elements from earlier requests."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from masking.frames import Frame
from masking.history import History
from masking.known import Remembered


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Where the elements of a list stand in its body.

    known: what is known of each element; its bytes are those in the body.
    starts: where each begins.
    frame: the body without them.
    history: what was worked out from the list as it was before.
    """

    known: Sequence[Remembered]
    starts: Sequence[int]
    frame: Frame
    history: History


@dataclass(frozen=True, slots=True)
class Decoded:
    """A request as decoded.

    outline: the document, of whose list only the elements that stand out are sure to be there.
    cut: None if nothing is remembered of requests, or the body is an odd one.
    """

    document: Mapping[str, object]
    outline: Mapping[str, object]
    cut: Cut | None = field(default=None, compare=False)

"""How much a request may hold to be looked into: no model's window holds a part of that.

What a request is decides, never how busy the proxy is.
"""

from collections.abc import Mapping

from masking.errors import WireError
from masking.wire import WireFormat

MAX_ELEMENTS = 1_000_000
"""Of its list. With ten tokens each they would fill a window of ten million."""

MAX_VALUES = 16_000_000
"""Of objects, lists and commas in its bytes. A body of one tenth of these fills such a window, even
if it is source code."""

_SIGNS = (b"{", b"[", b",")
_PIECE = 1 << 20


def check_values(body: bytes, most: int = MAX_VALUES) -> None:
    """Raise WireError if a body has more values, so that it could take gigabytes once decoded."""
    if len(body) <= most:
        return
    found = 0
    for start in range(0, len(body), _PIECE):
        found += sum(body.count(sign, start, start + _PIECE) for sign in _SIGNS)
        if found > most:
            raise WireError(f"more than {most:,} values")


def check_elements(document: Mapping[str, object], wire: WireFormat) -> None:
    """Raise WireError if a list that the format may read is too long."""
    for path in wire.list_paths:
        found: object = document
        for key in path:
            found = found.get(key) if isinstance(found, Mapping) else None
        if isinstance(found, list) and len(found) > MAX_ELEMENTS:
            raise WireError(f"more than {MAX_ELEMENTS:,} elements")

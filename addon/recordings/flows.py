"""Recordings: read their flows, write them.

One whose name ends in `.xz` is compressed. Each request of a session repeats the one before it, so
that less than a hundredth is left of a long one; gzip, which looks back over 32 kB, leaves a fifth.
"""

import lzma
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Literal, cast

from mitmproxy import http
from mitmproxy.exceptions import FlowReadException
from mitmproxy.io import FlowReader, FlowWriter

_XZ = ".xz"

_DAMAGE = (
    *(FlowReadException, lzma.LZMAError, EOFError),
    *(LookupError, AttributeError, AssertionError),
)
"""What mitmproxy's reader and the decompressor raise on what is no recording."""


def name_of(path: Path) -> str:
    """Return the name of a recording without its ending."""
    return Path(path.name.removesuffix(_XZ)).stem


def read_flows(path: Path) -> Iterator[http.HTTPFlow]:
    """The HTTP flows of a recording, one at a time; flows of other kinds are passed over.

    Raises OSError where the file cannot be opened, and ValueError naming it where it ends in
    the middle of a flow or is no recording of mitmproxy's at all.
    """
    with _open(path, "rb") as file:
        try:
            for flow in FlowReader(file).stream():
                if isinstance(flow, http.HTTPFlow):
                    yield flow
        except _DAMAGE as error:
            raise ValueError(f"{path} is no complete mitmproxy recording: {error}") from error


def write_flows(path: Path, flows: Iterable[http.HTTPFlow]) -> int:
    """Write a recording, replacing the file; returns how many flows it holds."""
    count = 0
    with _open(path, "wb") as file:
        writer = FlowWriter(file)  # type: ignore[no-untyped-call]
        for flow in flows:
            writer.add(flow)
            count += 1
    return count


def _open(path: Path, mode: Literal["rb", "wb"]) -> BinaryIO:
    return cast(BinaryIO, (lzma.open if path.suffix == _XZ else open)(path, mode))

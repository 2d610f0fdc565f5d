"""Reads and writes recordings of mitmproxy.

A recording whose name ends in `.xz` is compressed. Each request of a session repeats the one before
it, so a long session shrinks to less than a hundredth; gzip, which looks back over 32 kB, leaves a
fifth of it.
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
"""What mitmproxy's reader and the decompressor raise if a file is not a recording."""


def name_of(path: Path) -> str:
    """Return the name of a recording without its ending."""
    return Path(path.name.removesuffix(_XZ)).stem


def read_flows(path: Path) -> Iterator[http.HTTPFlow]:
    """Yield the HTTP flows of a recording; flows of other kinds are skipped.

    Raises OSError if the file cannot be opened, and ValueError, with its name, if it ends in the
    middle of a flow or is not a recording of mitmproxy's at all.
    """
    with _open(path, "rb") as file:
        try:
            for flow in FlowReader(file).stream():
                if isinstance(flow, http.HTTPFlow):
                    yield flow
        except _DAMAGE as error:
            raise ValueError(f"{path} is no complete mitmproxy recording: {error}") from error


def write_flows(path: Path, flows: Iterable[http.HTTPFlow]) -> int:
    """Write a recording in the place of the file; return how many flows it holds."""
    count = 0
    with _open(path, "wb") as file:
        writer = FlowWriter(file)
        for flow in flows:
            writer.add(flow)
            count += 1
    return count


def _open(path: Path, mode: Literal["rb", "wb"]) -> BinaryIO:
    return cast(BinaryIO, (lzma.open if path.suffix == _XZ else open)(path, mode))

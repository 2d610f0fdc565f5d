"""Recordings: read their flows, write them."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from mitmproxy import http
from mitmproxy.exceptions import FlowReadException
from mitmproxy.io import FlowReader, FlowWriter


def read_flows(path: Path) -> Iterator[http.HTTPFlow]:
    """The HTTP flows of a recording, one at a time; flows of other kinds are passed over.

    Raises OSError where the file cannot be opened, and ValueError naming it where it ends in
    the middle of a flow or is no recording of mitmproxy's at all.
    """
    with path.open("rb") as file:
        try:
            for flow in FlowReader(file).stream():
                if isinstance(flow, http.HTTPFlow):
                    yield flow
        except (FlowReadException, LookupError, AttributeError, AssertionError) as error:
            raise ValueError(f"{path} is no complete mitmproxy recording: {error}") from error


def write_flows(path: Path, flows: Iterable[http.HTTPFlow]) -> int:
    """Write a recording, replacing the file; returns how many flows it holds."""
    count = 0
    with path.open("wb") as file:
        writer = FlowWriter(file)  # type: ignore[no-untyped-call]
        for flow in flows:
            writer.add(flow)
            count += 1
    return count

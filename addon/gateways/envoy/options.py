"""What a process that serves Envoy is told, and how it says that it does."""

from typing import NamedTuple

READY = b"ready\n"
"""The first line that it prints."""


class WorkerOptions(NamedTuple):
    """What a process is to serve, and how.

    run, tag: as in `Run`.
    drain_seconds: how long exchanges may take to their end, once it is told to end.
    """

    address: str
    config: str
    overrides: list[str]
    run: str
    tag: str | None
    drain_seconds: float

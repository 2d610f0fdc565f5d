"""Keeps a copy of a stream, of which every chunk goes on at once, unchanged."""

from time import perf_counter

_MAX_BYTES = 16_000_000
"""A longer stream is not kept; it goes on all the same."""


class ResponseCopy:
    """A `flow.response.stream` callable; gets raw (still compressed) chunks, `b""` at the end.

    It is made when the request arrives. `first_chunk_seconds` is the time from there to the first
    chunk; None if there has been none.
    """

    def __init__(self) -> None:
        self._started = perf_counter()
        self.first_chunk_seconds: float | None = None
        self._chunks: list[bytes] = []
        self._size = 0

    def __call__(self, chunk: bytes) -> bytes:
        if chunk and self.first_chunk_seconds is None:
            self.first_chunk_seconds = perf_counter() - self._started
        self._size += len(chunk)
        if self._size <= _MAX_BYTES:
            self._chunks.append(chunk)
        else:
            self._chunks.clear()
        return chunk

    @property
    def body(self) -> bytes | None:
        """The stream so far; None if it was too long to keep."""
        return b"".join(self._chunks) if self._size <= _MAX_BYTES else None

"""Keeps a copy of what streams by: every chunk goes on at once, unchanged."""

_MAX_BYTES = 16_000_000
"""A longer stream is no longer kept; it goes on all the same."""


class ResponseCopy:
    """A `flow.response.stream` callable; gets raw (still compressed) chunks, `b""` at the end."""

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self._size = 0

    def __call__(self, chunk: bytes) -> bytes:
        self._size += len(chunk)
        if self._size <= _MAX_BYTES:
            self._chunks.append(chunk)
        else:
            self._chunks.clear()
        return chunk

    @property
    def body(self) -> bytes | None:
        """All that has streamed by so far; None where that was too much to keep."""
        return b"".join(self._chunks) if self._size <= _MAX_BYTES else None

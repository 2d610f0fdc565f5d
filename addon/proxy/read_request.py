"""A request of which each part is read once: mitmproxy parses it anew for whoever asks."""

from collections.abc import Iterable
from functools import cached_property

from mitmproxy import http


class ReadHeaders:
    """Header fields as `mitmproxy.http.Headers` tells them, by their names in any case."""

    def __init__(self, fields: Iterable[tuple[bytes, bytes]]) -> None:
        self._values: dict[str, list[str]] = {}
        for name, value in fields:
            self._values.setdefault(_decode(name).lower(), []).append(_decode(value))

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower() in self._values

    def __getitem__(self, name: str) -> str:
        return ", ".join(self._values[name.lower()])

    def get(self, name: str, default: str) -> str:
        """Return the values of a field, joined by commas."""
        values = self._values.get(name.lower())
        return default if values is None else ", ".join(values)

    def get_all(self, name: str) -> list[str]:
        """Return each value of a field."""
        return self._values.get(name.lower(), [])


class ReadRequest:
    """What a request says as it arrives; its body is the one that it has when that is asked for."""

    def __init__(self, request: http.Request) -> None:
        self._request = request
        self.method: str = request.method
        self.path: str = request.path
        self.pretty_host: str = request.pretty_host

    @cached_property
    def headers(self) -> ReadHeaders:
        """Its header fields."""
        return ReadHeaders(self._request.headers.fields)

    @property
    def raw_content(self) -> bytes | None:
        """Its body as on the wire; None if it was not kept."""
        return self._request.raw_content


def _decode(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")

"""A request of which each part is read once: mitmproxy parses it anew for whoever asks."""

from functools import cached_property

from mitmproxy import http

from addon.shared.header_fields import HeaderFields


class ReadRequest:
    """What a request says as it arrives; its body is the one that it has when that is asked for."""

    def __init__(self, request: http.Request) -> None:
        self._request = request
        self.method: str = request.method
        self.path: str = request.path
        self.pretty_host: str = request.pretty_host

    @cached_property
    def headers(self) -> HeaderFields:
        """Its header fields."""
        fields = self._request.headers.fields
        return HeaderFields((_decode(name), _decode(value)) for name, value in fields)

    @property
    def raw_content(self) -> bytes | None:
        """Its body as on the wire; None if it was not kept."""
        return self._request.raw_content


def _decode(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")

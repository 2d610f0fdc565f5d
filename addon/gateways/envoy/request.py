"""The request that Envoy tells of, as the masker sees it."""

from collections.abc import Sequence
from urllib.parse import urlsplit

from addon.metrics.stages import Received
from addon.shared.decoding import estimate_bytes
from addon.shared.encoding import encode_body
from addon.shared.header_fields import HeaderFields
from addon.shared.requests import read_body
from masking.model import Decision


class EnvoyMessage:
    """A request or an answer; its body is filled in as it arrives."""

    def __init__(self, headers: HeaderFields, raw_content: bytes | None = None) -> None:
        self.headers = headers
        self.raw_content = raw_content


class EnvoyRequest(EnvoyMessage):
    """A request. `host` is the provider's, where Envoy's configuration names it."""

    def __init__(self, headers: HeaderFields, host: str | None = None) -> None:
        super().__init__(headers)
        self.method = headers.get(":method", "")
        self.path = headers.get(":path", "")
        self.pretty_host = host or _find_host(headers.get(":authority", ""))


class EnvoyCarrier:
    """Carries a request whose body Envoy holds, and sends on in the form that it gets here.

    The request's body is as on the wire.
    """

    def __init__(self, request: EnvoyRequest) -> None:
        self._request = request
        self.replacement: bytes | None = None

    @property
    def size(self) -> int:
        """The bytes of the body as it goes on."""
        sent = self._request.raw_content if self.replacement is None else self.replacement
        return len(sent or b"")

    @property
    def most_bytes(self) -> int:
        """About how long the body is at most, decoded."""
        return estimate_bytes(self._request)

    @property
    def wire_body(self) -> None:
        """Envoy sends no request a second time with another body."""
        return

    def read(self) -> bytes:
        """Return the decoded body. Raises WireError if it must not or cannot be read."""
        return read_body(self._request)

    def measure(self, body: bytes) -> int:
        """Return how long another body would be on the wire."""
        return len(self._encode(body))

    def mark(self, decisions: Sequence[Decision]) -> None:
        """Envoy has no place for decisions; the records have them."""

    def replace(self, body: bytes, received: Received) -> None:
        """Have another body go on."""
        self.replacement = self._encode(body)

    def _encode(self, body: bytes) -> bytes:
        return encode_body(body, self._request.headers.get("content-encoding", ""))


def _find_host(authority: str) -> str:
    """Return the host of an authority, without its port."""
    try:
        return urlsplit(f"//{authority}").hostname or authority
    except ValueError:  # as of an address in brackets that is none
        return authority

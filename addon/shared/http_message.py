"""What is asked of an HTTP message, whichever engine holds it; mitmproxy's own can tell it all."""

from typing import Protocol


class Headers(Protocol):
    """Header fields, by their names in any case; only `get_all` tells several of a name apart."""

    def __contains__(self, name: object, /) -> bool: ...

    def __getitem__(self, name: str, /) -> str: ...

    def get(self, name: str, default: str, /) -> str: ...

    def get_all(self, name: str, /) -> list[str]: ...


class Message(Protocol):
    """A request or an answer; `raw_content` is its body as on the wire, None if it was not kept."""

    @property
    def headers(self) -> Headers: ...

    @property
    def raw_content(self) -> bytes | None: ...


class Request(Message, Protocol):
    """A request; its path includes the query, and `pretty_host` is whom the client asks for."""

    @property
    def method(self) -> str: ...

    @property
    def path(self) -> str: ...

    @property
    def pretty_host(self) -> str: ...

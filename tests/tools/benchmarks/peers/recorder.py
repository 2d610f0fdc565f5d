"""The strict scripted provider, which notes each request as it arrived, and whether it refused."""

from typing import NamedTuple

from mitmproxy.net import encoding

from tests.tools.provider.dialects import Dialect
from tests.tools.provider.provider import Provider
from tests.tools.provider.script import Received, Reply


class Arrival(NamedTuple):
    """A request that arrived: its dialect, its body, and why it was refused, if it was."""

    dialect: str
    body: bytes
    problem: str | None


class Recorder(Provider):
    """A provider that says a word to every request."""

    def __init__(self) -> None:
        super().__init__(lambda _: Reply(content="Done."), strict=True)
        self._arrivals: list[Arrival] = []

    def find_problem(self, received: Received, dialect: Dialect) -> str | None:
        problem = super().find_problem(received, dialect)
        packing = received.header("content-encoding") or "identity"
        body = encoding.decode(received.body, packing)
        assert isinstance(body, bytes)
        self._arrivals.append(Arrival(dialect.name, body, problem))
        return problem

    def take(self) -> list[Arrival]:
        """Return what has arrived since the last time, and forget it."""
        arrived, self._arrivals = self._arrivals, []
        self.requests.clear()
        self.answers.clear()
        return arrived

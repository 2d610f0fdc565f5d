"""A session with pauses added, for conversations whose times are not known.

The provider reported what its cache held without these pauses, so that is simulated instead.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import NamedTuple

from addon.replay.replay import RecordedRequest, Session
from masking.wire import Usage


class Pause(NamedTuple):
    """A pause of `seconds` after every `every` requests."""

    every: int
    seconds: float


@dataclass(frozen=True, slots=True)
class PausedSession:
    """A session whose user was away now and then; itself a `Session`."""

    session: Session
    pause: Pause

    @property
    def name(self) -> str:
        """The name under which it is shown."""
        return self.session.name

    def requests(self) -> Iterator[RecordedRequest]:
        """Yield the requests, each later by the pauses before it."""
        for number, recorded in enumerate(self.session.requests()):
            late = timedelta(seconds=number // self.pause.every * self.pause.seconds)
            counted = recorded.usage and Usage(prompt=recorded.usage.prompt)
            yield replace(recorded, when=recorded.when + late, usage=counted)


def add_pause(session: Session, pause: Pause | None) -> Session:
    """Return the session with a pause added; unchanged if there is none."""
    return session if pause is None else PausedSession(session, pause)

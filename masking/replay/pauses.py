"""A session with longer pauses than it had: for conversations that tell no times.

What the provider's cache held was reported without these pauses, and is simulated instead.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import NamedTuple

from masking.replay.replay import RecordedRequest, Session
from masking.wire.usage import Usage


class Pause(NamedTuple):
    """A pause of so many seconds before every so many requests."""

    every: int
    seconds: float


@dataclass(frozen=True, slots=True)
class PausedSession:
    """A session whose user went away now and then; a `Session` itself."""

    session: Session
    pause: Pause

    @property
    def name(self) -> str:
        """What it is called where it is shown."""
        return self.session.name

    def requests(self) -> Iterator[RecordedRequest]:
        """Yield the requests, each as much later as the pauses before it are long."""
        for number, recorded in enumerate(self.session.requests()):
            late = timedelta(seconds=number // self.pause.every * self.pause.seconds)
            counted = recorded.usage and Usage(prompt=recorded.usage.prompt)
            yield replace(recorded, when=recorded.when + late, usage=counted)


def pause_sessions(sessions: Iterable[Session], pause: Pause | None) -> list[Session]:
    """Return these sessions with a pause added; as they are without one."""
    return [session if pause is None else PausedSession(session, pause) for session in sessions]

"""What an agent's own log tells of a session, and how it becomes requests that can be replayed.

A log is no recording: it has the conversation, the times and the usage that the provider reported,
but not the system prompt, the tool schemas, or how the agent marked its request for the cache. A
reader yields what the log has, in the elements of the wire format in which the agent speaks to its
provider; `session.LogSession` reckons with the rest.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple

from addon.agents import find_agent
from addon.replay.disk import find_files
from masking.wire import Usage, WireFormat


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedRequest:
    """A request that the log shows to have been answered.

    items: the elements of the request's list (`messages`, `input`, `contents`) that the log knows
        of, in order, as they were sent with this request: after a compaction or a clearing of old
        results these are others than before. Elements that two requests have in common are the
        very same objects, so that they are written once.
    usage: what the provider reported, the answer included; None if the log has none.
    tier: the tier of service that it was sent for; None for the standard one.
    key: the same in every log that has a copy of this request (a resumed or forked session); None
        if there are no copies.
    """

    items: Sequence[Mapping[str, object]]
    when: datetime
    model: str | None
    usage: Usage | None
    key: str | None = None
    tier: str | None = None


class LoggedConversation(NamedTuple):
    """A conversation of a log: a session, a side chain or a sub-agent.

    name: what a user knows it by: its title, else its id.
    project: the last part of the name of the folder in which the agent worked; None if unknown.
    host: where its provider is reached; None if the log does not say.
    path: the path of its requests, as `FileForm.path`.
    is_side: whether another conversation started it.
    requests: yields its requests in order. It can be called again.
    unread: kinds of entries that may have held part of a prompt and were not understood.
    agent: the agent's name, as in the table of agents if it is there; by default, that of the log.
    """

    name: str
    project: str | None
    host: str | None
    wire: WireFormat
    requests: Callable[[], Iterator[LoggedRequest]]
    path: str = ""
    is_side: bool = False
    unread: frozenset[str] = frozenset()
    agent: str = ""


class LogFile(NamedTuple):
    """A log on disk: a file, or a folder or database that a reader takes as one.

    began, changed: when its first and its latest entry were written, as cheaply as can be told
        (names, file times).
    copied: keys of the requests in it that another log counts; `LogKind.read` leaves them out.
    session: names the session where its path does not: one place, such as a database, may have
        many; else "".
    folder: has nothing in it but this log and others of its kind; None if it may have other files.
    """

    agent: str
    path: Path
    size: int
    changed: datetime
    copied: frozenset[str] = frozenset()
    session: str = ""
    folder: Path | None = None


def describe_file(agent: str, path: Path, session: str = "") -> LogFile | None:
    """Return a log that is a file; None if it is gone."""
    try:
        status = path.stat()
    except OSError:
        return None
    changed = datetime.fromtimestamp(status.st_mtime, UTC)
    return LogFile(agent, path, status.st_size, changed, session=session)


class AnswerKey(NamedTuple):
    """An answer in a log: the key of its request, and how much speaks for this log's being a copy.

    Of several logs with one key, that with the smallest rank counts the request.
    """

    key: str
    rank: tuple[bool, ...] = ()


class LogKind(NamedTuple):
    """How one agent keeps its logs.

    parse: yields the conversations of a log with all their requests, copies of another log's
        included. Raises OSError, and ValueError with file and line.
    endings: how the names of logs end that are a file each. Of two whose names differ in nothing
        else, only that whose ending comes first is one.
    is_log: tells whether such a file is one, by its content, reading no more than that takes.
    search: yields the logs at or under a path in place of that, where a log is no file of its own.
    list_keys: yields the answers of a log that another log may have, too, as cheaply as they can be
        told; None where a log has no copies, or `search` knows them. Whatever cannot be read is
        left out.
    has_homes: whether there are places of its own for such logs, which `addon.agents` knows. A
        format for all agents has its own name for `agent`; each conversation names whose it is.
    """

    agent: str
    parse: Callable[[LogFile], Iterator[LoggedConversation]]
    endings: tuple[str, ...] = ()
    is_log: Callable[[Path], bool] = Path.is_file
    search: Callable[[Path], Iterator[LogFile]] | None = None
    list_keys: Callable[[LogFile], Iterator[AnswerKey]] | None = None
    has_homes: bool = True

    def find(self, path: Path) -> Iterator[LogFile]:
        """Yield the logs of this kind at or under a path, the newest first."""
        if self.search is not None:
            logs = [*self.search(path)]
        else:
            files = (file for file in find_files(path, self.endings) if self._is_first(file))
            found = map(partial(describe_file, self.agent), filter(self.is_log, files))
            logs = [log for log in found if log is not None]
        yield from sorted(logs, key=lambda log: log.changed, reverse=True)

    def _is_first(self, file: Path) -> bool:
        ending = next(filter(file.name.endswith, self.endings), "")
        before = self.endings[: self.endings.index(ending)] if ending else ()
        name = file.name.removesuffix(ending)
        return not any(file.with_name(name + each).exists() for each in before)

    def homes(self, home: Path, environment: Mapping[str, str]) -> tuple[Path, ...]:
        """Return where the agent keeps them, from the home folder and the environment."""
        return find_agent(self.agent).logs.find(home, environment) if self.has_homes else ()

    def read(self, log: LogFile) -> Iterator[LoggedConversation]:
        """Yield the conversations of a log, without the requests that another log counts.

        Raises OSError, and ValueError with file and line.
        """
        for conversation in self.parse(log):
            requests = conversation.requests
            if log.copied:
                requests = partial(_leave_out, log.copied, requests)
            agent = conversation.agent or self.agent
            yield conversation._replace(agent=agent, requests=requests)


def _leave_out(
    copied: frozenset[str], requests: Callable[[], Iterator[LoggedRequest]]
) -> Iterator[LoggedRequest]:
    return (each for each in requests() if each.key not in copied)


class LogChoice(NamedTuple):
    """Which sessions of logs are wanted: those since a time, and those of a project."""

    since: datetime | None = None
    project: str | None = None

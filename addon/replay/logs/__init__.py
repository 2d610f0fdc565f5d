"""The logs that agents keep of their own sessions: which there are, and where they are found."""

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from addon.replay.logs.atif import ATIF
from addon.replay.logs.claude_code import CLAUDE_CODE
from addon.replay.logs.codex import CODEX
from addon.replay.logs.gemini_cli import GEMINI_CLI
from addon.replay.logs.log import AnswerKey, LogFile, LogKind
from addon.replay.logs.mini_swe_agent import MINI_SWE_AGENT
from addon.replay.logs.opencode import OPENCODE
from addon.replay.logs.openhands import OPENHANDS
from addon.replay.logs.pi import PI
from addon.replay.logs.qwen_code import QWEN_CODE
from addon.replay.logs.swe_agent import SWE_AGENT

LOGS: tuple[LogKind, ...] = (
    CLAUDE_CODE,
    CODEX,
    GEMINI_CLI,
    OPENCODE,
    QWEN_CODE,
    PI,
    MINI_SWE_AGENT,
    OPENHANDS,
    SWE_AGENT,
    ATIF,
)
"""The logs that are read, in the order in which they are looked for."""

_BY_AGENT = {kind.agent: kind for kind in LOGS}


_SESSION_CHARS = 36
"""A UUID, with which the names of Claude Code's and codex's logs end."""

_COLLECTED = ".trajectory.json"
"""How Harbor names other agents' own logs, which it puts beside the trajectory it makes of them."""


class FoundLogs(NamedTuple):
    """The logs of one agent in one place, the newest first."""

    agent: str
    place: Path
    logs: tuple[LogFile, ...]


def list_homes(home: Path, environment: Mapping[str, str]) -> list[tuple[str, Path]]:
    """Return where agents keep their logs, each with the agent's name, whether it is there or not.

    `environment` has the variables by which agents are told of another place.
    """
    return [(kind.agent, place) for kind in LOGS for place in kind.homes(home, environment)]


def find_logs(path: Path) -> list[FoundLogs]:
    """Return the logs at or under a path, by agent; they are recognized by their content.

    Raises OSError if the path is not there.
    """
    path.stat()
    found = (FoundLogs(kind.agent, path, tuple(kind.find(path))) for kind in LOGS)
    return [each for each in found if each.logs]


def find_logs_at_home(
    home: Path, environment: Mapping[str, str], since: datetime | None = None
) -> list[FoundLogs]:
    """Return the logs where agents keep them that were written to since then, by agent.

    What is not there, or not ours to read, has none.
    """
    found = []
    for agent, place in list_homes(home, environment):
        with suppress(OSError):
            logs = find_kind(agent).find(place) if place.exists() else ()
            recent = tuple(log for log in logs if since is None or log.changed >= since)
            found += [FoundLogs(agent, place, recent)] if recent else []
    return found


def mark_copies(found: Sequence[FoundLogs]) -> list[FoundLogs]:
    """Return logs that know which of their requests another one of them counts.

    A session that is forked, or resumed in another folder, begins with copies of its parent's
    answers. Each is counted once, wherever the logs lie: in the log that speaks least for being a
    copy, and of several such in the one that was written to earliest. A log that was found twice,
    by itself and in a folder, is left out the second time; and so is what somebody else wrote of a
    session whose own log is there.
    """
    own = [log for each in found if find_kind(each.agent).has_homes for log in each.logs]
    sessions = {log.path.stem[-_SESSION_CHARS:] for log in own}
    folders = {log.path.parent for log in own if log.path.name.endswith(_COLLECTED)}
    known = set[tuple[str, _Place]]()
    once = []
    for each in found:
        is_own = find_kind(each.agent).has_homes
        new = []
        for log in each.logs:
            is_told = not is_own and (log.session in sessions or log.path.parent in folders)
            name = each.agent, (log.path, log.session)
            if not is_told and name not in known:
                known.add(name)
                new.append(log)
        if new or not each.logs:
            once.append(each._replace(logs=tuple(new)))
    copied: dict[_Place, frozenset[str]] = {}
    for kind in LOGS:
        logs = [log for each in once if each.agent == kind.agent for log in each.logs]
        if len(logs) > 1 and kind.list_keys is not None:
            copied |= _find_copied(logs, kind.list_keys)
    return [each._replace(logs=tuple(_mark(log, copied) for log in each.logs)) for each in once]


_Place = tuple[Path, str]
"""Where a log is: its path, and its session."""


def _mark(log: LogFile, copied: Mapping[_Place, frozenset[str]]) -> LogFile:
    return log._replace(copied=log.copied | copied.get((log.path, log.session), frozenset()))


def _find_copied(
    logs: Iterable[LogFile], list_keys: Callable[[LogFile], Iterator[AnswerKey]]
) -> dict[_Place, frozenset[str]]:
    owners: dict[str, tuple[tuple[bool, ...], _Place]] = {}
    keys: defaultdict[_Place, set[str]] = defaultdict(set)
    for log in sorted(logs, key=lambda log: (log.changed, log.path, log.session)):
        place = log.path, log.session
        for key, rank in list_keys(log):
            if key not in owners or rank < owners[key][0]:
                owners[key] = rank, place
            keys[place].add(key)
    return {
        place: frozenset(key for key in own if owners[key][1] != place)
        for place, own in keys.items()
    }


def merge_newest_first(found: Sequence[FoundLogs]) -> Iterator[LogFile]:
    """Yield all of these logs, the newest first."""
    return heapq.merge(*(each.logs for each in found), key=lambda log: log.changed, reverse=True)


def find_kind(agent: str) -> LogKind:
    """Return how an agent keeps its logs. Raises KeyError."""
    return _BY_AGENT[agent]

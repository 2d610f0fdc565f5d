"""The logs that agents keep of their own sessions: which there are, and where they are found."""

import heapq
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from addon.replay.logs.claude_code import CLAUDE_CODE
from addon.replay.logs.codex import CODEX
from addon.replay.logs.gemini_cli import GEMINI_CLI
from addon.replay.logs.log import LogFile, LogKind
from addon.replay.logs.mini_swe_agent import MINI_SWE_AGENT
from addon.replay.logs.opencode import OPENCODE
from addon.replay.logs.openhands import OPENHANDS
from addon.replay.logs.pi import PI
from addon.replay.logs.qwen_code import QWEN_CODE

LOGS: tuple[LogKind, ...] = (
    CLAUDE_CODE,
    CODEX,
    GEMINI_CLI,
    OPENCODE,
    QWEN_CODE,
    PI,
    MINI_SWE_AGENT,
    OPENHANDS,
)
"""The logs that are read, in the order in which they are looked for."""

_BY_AGENT = {kind.agent: kind for kind in LOGS}


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


def find_logs(path: Path, since: datetime | None = None) -> list[FoundLogs]:
    """Return the logs at or under a path that were written to since then, by agent.

    They are recognized by their content. Raises OSError if the path is not there.
    """
    path.stat()
    found = []
    for kind in LOGS:
        logs = tuple(_take_since(kind.find(path), since))
        if logs:
            found.append(FoundLogs(kind.agent, path, logs))
    return found


def find_logs_at_home(
    home: Path, environment: Mapping[str, str], since: datetime | None = None
) -> list[FoundLogs]:
    """Return the logs where agents keep them; what is not there, or not ours to read, has none."""
    found = []
    for agent, place in list_homes(home, environment):
        try:
            logs = tuple(_take_since(_BY_AGENT[agent].find(place), since)) if place.exists() else ()
        except OSError:
            continue
        if logs:
            found.append(FoundLogs(agent, place, logs))
    return found


def _take_since(logs: Iterator[LogFile], since: datetime | None) -> Iterator[LogFile]:
    """Yield the logs that were written to since then: they come the newest first."""
    for log in logs:
        if since is not None and log.changed < since:
            return
        yield log


def merge_newest_first(found: Sequence[FoundLogs]) -> Iterator[LogFile]:
    """Yield all of these logs, the newest first."""
    return heapq.merge(*(each.logs for each in found), key=lambda log: log.changed, reverse=True)


def find_kind(agent: str) -> LogKind:
    """Return how an agent keeps its logs. Raises KeyError."""
    return _BY_AGENT[agent]

"""Forks of sessions, as `obsmask replay` reads them: each request counts once."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from addon.commands.work import find_sessions
from addon.replay.logs import find_kind, merge_newest_first
from addon.replay.logs.log import LogChoice
from tests.replay.claude_log import ClaudeLog, text
from tests.replay.test_agent_logs import (
    HEADER,
    PI_LOG,
    QWEN,
    Entry,
    answer,
    at,
    record,
    say,
    write_lines,
)
from tests.replay.test_codex_log import FIRST, FORK, SECOND, THREAD, meta, said, token_count, user
from tests.replay.test_codex_log import write as write_codex


def count(*paths: Path) -> dict[str, int]:
    """Return how many requests of each log are counted, by its name; those with none are absent."""
    counted: dict[str, int] = {}
    for log in merge_newest_first(find_sessions(paths, LogChoice()).logs):
        for conversation in find_kind(log.agent).read(log):
            if requests := len(list(conversation.requests())):
                counted[log.path.stem] = counted.get(log.path.stem, 0) + requests
    return counted


def age(path: Path, when: int) -> None:
    """Set when a log was last written to: a parent may go on after its fork."""
    os.utime(path, (when, when))


Write = Callable[[Path, Path], None]


def fork_claude_code(parent: Path, fork: Path, *, says_so: bool = True) -> None:
    """Write a session of two answers, and a fork after the first of them, with one more."""
    original = ClaudeLog("s1")
    original.user("Go.")
    original.answer("msg_1", text("Where?"))
    copy = ClaudeLog("s2")
    more = {"forkedFrom": {"sessionId": "s1", "messageUuid": "s1-u0"}} if says_so else {}
    copy.lines = [{**line, "sessionId": "s2", **more} for line in original.lines]
    copy.last = original.last
    copy.user("Left.")
    copy.answer("msg_2", text("A wall."))
    original.user("Right.")
    original.answer("msg_3", text("A door."))
    original.write(parent)
    copy.write(fork)


def fork_claude_code_unsaid(parent: Path, fork: Path) -> None:
    fork_claude_code(parent, fork, says_so=False)
    age(parent, 1)


def fork_pi(parent: Path, fork: Path) -> None:
    write_lines(parent, *PI_LOG)
    forked = {**HEADER, "id": "f", "parentSession": str(parent), "timestamp": at(3)}
    write_lines(fork, forked, *PI_LOG[1:3], answer(5, {"type": "text", "text": "Well."}))


def fork_qwen_code(parent: Path, fork: Path) -> None:
    write_lines(parent, *QWEN)
    copies = (
        each | {"sessionId": "f", "forkedFrom": {"sessionId": "s", "messageUuid": each["uuid"]}}
        for each in QWEN[:3]
    )
    own: Entry = record(9, "assistant", 3, sessionId="f", **say({"text": "Yes."}, role="model"))
    write_lines(fork, *copies, own)


def fork_codex(parent: Path, fork: Path) -> None:
    entries = (*FIRST, token_count(10, 10))
    write_codex(parent, meta(), *entries, *SECOND[7:], token_count(30, 40))
    own = (user("And now?"), said("Nothing."), token_count(50, 60))
    write_codex(fork, meta(FORK, forked_from_id=THREAD), meta(), *entries, *own)


FORKS: dict[str, tuple[Write, str, str]] = {
    "claude-code": (fork_claude_code, "s1.jsonl", "s2.jsonl"),
    "claude-code, unsaid": (fork_claude_code_unsaid, "s1.jsonl", "s2.jsonl"),
    "pi": (fork_pi, "s.jsonl", "f.jsonl"),
    "qwen-code": (fork_qwen_code, "s.jsonl", "f.jsonl"),
    "codex": (fork_codex, f"rollout-1-{THREAD}.jsonl", f"rollout-2-{FORK}.jsonl"),
}
"""What writes a session of two requests, and a fork after the first with one more; their names."""


@pytest.fixture(params=[*FORKS])
def forked(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Path]:
    write, parent, fork = FORKS[request.param]
    paths = tmp_path / "a" / parent, tmp_path / "a" / fork
    write(*paths)
    return paths


def test_a_fork_counts_what_it_adds(forked: tuple[Path, Path], tmp_path: Path) -> None:
    parent, fork = forked
    assert {parent.stem: 2, fork.stem: 1} == count(tmp_path)


def test_so_it_does_where_its_parent_lies_elsewhere(
    forked: tuple[Path, Path], tmp_path: Path
) -> None:
    parent, fork = forked
    if parent.name.startswith("rollout"):
        pytest.skip("codex keeps all threads in one folder")
    moved = tmp_path / "b" / parent.name
    moved.parent.mkdir()
    parent.rename(moved)
    assert {parent.stem: 2, fork.stem: 1} == count(tmp_path)
    assert {parent.stem: 2, fork.stem: 1} == count(fork, moved)


def test_a_fork_whose_parent_is_gone_counts_all(forked: tuple[Path, Path], tmp_path: Path) -> None:
    parent, fork = forked
    parent.unlink()
    assert {fork.stem: 2} == count(tmp_path)


def test_of_two_forks_without_a_parent_the_older_one_counts_what_they_share(
    forked: tuple[Path, Path], tmp_path: Path
) -> None:
    parent, fork = forked
    second = fork.with_stem(f"{fork.stem}-b")
    lines = fork.read_text().splitlines(keepends=True)
    second.write_text("".join(lines[:-1]) + _say_otherwise(lines[-1]))
    parent.unlink()
    age(fork, 1)
    assert {fork.stem: 2, second.stem: 1} == count(tmp_path)


def _say_otherwise(line: str) -> str:
    """Return an answer's line, or the count behind it, as one of another session's."""
    changed = json.loads(line)
    for key in ("uuid", "id"):
        if key in changed:
            changed[key] += "-b"
    if "id" in changed.get("message", ()):
        changed["message"]["id"] += "-b"
    if "payload" in changed:
        changed["payload"]["info"]["total_token_usage"]["total_tokens"] += 1
    return json.dumps(changed) + "\n"

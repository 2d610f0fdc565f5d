"""Writes logs as Claude Code does, for tests: a line an entry, each behind the one before it."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

JsonDict = dict[str, object]


class ClaudeLog:
    """A log that grows; `last` is the uuid of the entry that the next one follows upon.

    Ids, uuids and times are counted: entry 7 is `u7`, written in second 7.
    """

    def __init__(self, session: str = "s1", **common: object) -> None:
        self.lines: list[JsonDict] = []
        self.last: str | None = None
        self._session = session
        self._common = {"isSidechain": False, "cwd": "/home/me/garden", **common}

    def note(self, kind: str, **fields: object) -> Self:
        """Add a line that is no part of the tree."""
        self.lines.append({"type": kind, "sessionId": self._session, **fields})
        return self

    def entry(self, kind: str, **fields: object) -> str:
        """Add an entry and return its uuid."""
        number = len(self.lines)
        entry = {
            "parentUuid": self.last,
            **self._common,
            "type": kind,
            "uuid": f"{self._session}-u{number}",
            "timestamp": f"2026-05-04T10:{number // 60:02}:{number % 60:02}.000Z",
            "sessionId": self._session,
            **fields,
        }
        self.lines.append(entry)
        self.last = str(entry["uuid"])
        return self.last

    def user(self, content: object, **fields: object) -> str:
        return self.entry("user", message={"role": "user", "content": content}, **fields)

    def result(self, call: str, content: object, **fields: object) -> str:
        return self.user(
            [{"tool_use_id": call, "type": "tool_result", "content": content}], **fields
        )

    def answer(
        self,
        name: str,
        *blocks: JsonDict,
        model: str = "claude-sonnet-4-5",
        usage: Mapping[str, object] | None = None,
        **fields: object,
    ) -> list[str]:
        """Add an answer, a line for each of its blocks, and return their uuids."""
        message = {"id": name, "type": "message", "role": "assistant", "model": model}
        given = usage or {"input_tokens": 10, "output_tokens": 1}
        return [
            self.entry(
                "assistant", message={**message, "content": [block], "usage": given}, **fields
            )
            for block in blocks
        ]

    def attachment(
        self, kind: str, rendered: Sequence[str] | None = None, role: str = "user", **fields: object
    ) -> str:
        about: JsonDict = {"attachment": {"type": kind, **fields}}
        if rendered is not None:
            about |= {"rendered": [{"content": text} for text in rendered], "renderedRole": role}
        return self.entry("attachment", **about)

    def write(self, path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = (json.dumps(line, separators=(",", ":")) for line in self.lines)
        path.write_text("".join(f"{line}\n" for line in lines))
        return path


def text(words: str) -> JsonDict:
    return {"type": "text", "text": words}


def call(name: str, command: str = "ls") -> JsonDict:
    return {"type": "tool_use", "id": name, "name": "Bash", "input": {"command": command}}


def result(name: str, content: object) -> JsonDict:
    return {"tool_use_id": name, "type": "tool_result", "content": content}

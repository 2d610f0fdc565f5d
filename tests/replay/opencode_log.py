"""A made-up session of opencode, as each of its versions keeps it."""

import itertools
import json
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Part = dict[str, Any]

BEGAN = 1_790_000_000_000
"""In milliseconds; each message is a second later than the one before."""


class MadeSession:
    """The messages of a session: what the user says, and what the model answers."""

    def __init__(self, name: str = "ses_1", **about: object) -> None:
        self.about: dict[str, Any] = {
            "id": name,
            "title": "Mend the parser",
            "directory": "/home/me/app",
            "time": {"created": BEGAN, "updated": BEGAN},
            **about,
        }
        self.messages: list[dict[str, Any]] = []

    def say(self, *parts: Part | str, **info: object) -> str:
        """Add a message of the user's; return its id."""
        return self._add("user", parts, info)

    def answer(self, *parts: Part | str, prompt: int = 100, **info: object) -> str:
        """Add an answer of one step, or of those that `parts` begin; return its id."""
        tokens = {"input": prompt, "output": 7, "reasoning": 0, "cache": {"read": 0, "write": 0}}
        more = {"providerID": "groq", "modelID": "llama-9", "tokens": tokens, **info}
        if not any(isinstance(part, dict) and part["type"] == "step-start" for part in parts):
            parts = {"type": "step-start"}, *parts
        return self._add("assistant", parts, more)

    def _add(self, role: str, parts: Iterable[Part | str], info: dict[str, Any]) -> str:
        number = len(self.messages)
        name = f"msg_{self.about['id']}_{number:03}"
        created = {"created": BEGAN + 1000 * number}
        whole = [{"type": "text", "text": p} if isinstance(p, str) else p for p in parts]
        info = {"id": name, "role": role, "time": created, **info}
        self.messages.append({"info": info, "parts": whole})
        self.about["time"]["updated"] = BEGAN + 1000 * number
        return name


def run(name: str, output: str = "", *, tool: str = "bash", **state: object) -> Part:
    """Return a call of a tool and its result."""
    done = {"status": "completed", "input": {"command": name}, "output": output, "time": {}}
    return {"type": "tool", "tool": tool, "callID": f"call_{name}", "state": done | state}


def write_database(path: Path, *sessions: MadeSession) -> Path:
    """Write sessions as versions of 2026 keep them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with sqlite3.connect(path) as database:
        database.executescript(
            "CREATE TABLE session (id TEXT, parent_id TEXT, directory TEXT, title TEXT,"
            " time_created INTEGER, time_updated INTEGER);"
            "CREATE TABLE message (id TEXT, session_id TEXT, time_created INTEGER, data TEXT);"
            "CREATE TABLE part (id TEXT, message_id TEXT, session_id TEXT, data TEXT);"
        )
        numbers = itertools.count()
        for made in sessions:
            about, time = made.about, made.about["time"]
            row = (about["id"], about.get("parentID"), about["directory"], about["title"])
            database.execute(
                "INSERT INTO session VALUES (?, ?, ?, ?, ?, ?)",
                (*row, time["created"], time["updated"]),
            )
            for message in made.messages:
                info = dict(message["info"])
                name, created = info.pop("id"), info["time"]["created"]
                database.execute(
                    "INSERT INTO message VALUES (?, ?, ?, ?)",
                    (name, about["id"], created, json.dumps(info)),
                )
                for part in message["parts"]:
                    text = part if isinstance(part, str) else json.dumps(part)
                    database.execute(
                        "INSERT INTO part VALUES (?, ?, ?, ?)",
                        (f"prt_{next(numbers):06}", name, about["id"], text),
                    )
    database.close()
    return path


def write_files(folder: Path, made: MadeSession, *, early: bool = False) -> Path:
    """Write a session as versions of 2025 keep it; the first of them with other names."""
    name = made.about["id"]
    root = folder / "storage" / "session" if early else folder / "storage"
    place = root / "info" if early else root / "session" / "0123abcd"
    _write(place / f"{name}.json", made.about)
    numbers = itertools.count()
    for message in made.messages:
        own = message["info"]["id"]
        _write(root / "message" / name / f"{own}.json", message["info"])
        parts = root / "part" / name / own if early else root / "part" / own
        for part in message["parts"]:
            _write(parts / f"prt_{next(numbers):06}.json", part)
    return place / f"{name}.json"


def write_export(path: Path, made: MadeSession) -> Path:
    """Write a session as `opencode export` does."""
    return _write(path, {"info": made.about, "messages": made.messages})


def _write(path: Path, document: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=2))
    return path

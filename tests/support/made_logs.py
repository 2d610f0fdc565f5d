"""Made-up logs of agents, of any size: sessions as Claude Code and codex write them."""

import json
import random
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)

WORDS = (
    *("buffer", "parser", "handler", "index", "cursor", "table", "record", "field", "value"),
    *("token", "queue", "worker", "config", "header", "socket", "reader", "writer", "result"),
    *("module", "import", "return", "error", "assert", "update", "filter", "column"),
)


class MadeSession(NamedTuple):
    """What a session is to be like.

    turns: how many tool turns it has; one request more is answered in the end.
    result: about how many characters a tool result has.
    hidden: the tokens of system prompt and tools, which the log does not hold.
    scale: the tokens that the provider counts for each 4 characters.
    pause: the seconds between two requests.
    """

    turns: int = 30
    result: int = 4_000
    model: str = "claude-sonnet-4-5-20250929"
    hidden: int = 15_000
    scale: float = 1.0
    pause: float = 20.0
    began: datetime = NOON
    project: str = "app"
    seed: int = 0


def write_claude_code(folder: Path, made: MadeSession) -> Path:
    """Write a session as Claude Code does, with the usage that its provider would report."""
    rng = random.Random(made.seed)
    session = str(uuid.UUID(int=rng.getrandbits(128)))
    path = folder / f"-home-me-{made.project}" / f"{session}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        for entry in _list_entries(made, session, rng):
            file.write(json.dumps(entry, separators=(",", ":")) + "\n")
    return path


def make_text(rng: random.Random, chars: int) -> str:
    """Return lines of made-up code."""
    lines, size = [], 0
    while size < chars:
        words = rng.choices(WORDS, k=6)
        line = (
            f"    {words[0]}_{rng.randrange(1000)} = {words[1]}.{words[2]}({', '.join(words[3:])})"
        )
        lines.append(line)
        size += len(line) + 1
    return "\n".join(lines)


def _list_entries(
    made: MadeSession, session: str, rng: random.Random
) -> Iterator[dict[str, object]]:
    when, parent = made.began, None
    sent, cached = made.hidden, 0.0

    def enter(kind: str, message: dict[str, object], **more: object) -> dict[str, object]:
        nonlocal parent
        own = str(uuid.UUID(int=rng.getrandbits(128)))
        entry = {
            "parentUuid": parent, "isSidechain": False, "userType": "external",
            "cwd": f"/home/me/{made.project}", "sessionId": session, "version": "2.1.330",
            "gitBranch": "main", "type": kind, "message": message, "uuid": own,
            "timestamp": when.isoformat(timespec="milliseconds").replace("+00:00", "Z"), **more,
        }  # fmt: skip
        parent = own
        return entry

    def grow(text: str) -> None:
        nonlocal sent
        sent += round(len(text) / 4 * made.scale) + 8

    prompt = f"Please mend the {rng.choice(WORDS)} of the {rng.choice(WORDS)}."
    yield enter("user", {"role": "user", "content": prompt})
    grow(prompt)
    for turn in range(made.turns + 1):
        when += timedelta(seconds=made.pause)
        usage = {
            "input_tokens": 3, "cache_read_input_tokens": round(cached),
            "cache_creation_input_tokens": sent - round(cached) - 3, "output_tokens": 200,
            "service_tier": "standard",
        }  # fmt: skip
        cached = sent - 3
        name = f"{rng.choice(WORDS)}_{turn}.py"
        block: dict[str, object] = {"type": "text", "text": "It is done."}
        if turn < made.turns:
            call = f"toolu_{rng.getrandbits(64):016x}"
            block = {"type": "tool_use", "id": call, "name": "Read",
                     "input": {"file_path": f"/home/me/{made.project}/{name}"}}  # fmt: skip
        grow(json.dumps(block))
        yield enter(
            "assistant",
            {"id": f"msg_{rng.getrandbits(96):024x}", "type": "message", "role": "assistant",
             "model": made.model, "content": [block], "stop_reason": "tool_use", "usage": usage},
            requestId=f"req_{rng.getrandbits(64):016x}",
        )  # fmt: skip
        if turn < made.turns:
            when += timedelta(seconds=1)
            text = make_text(rng, max(20, int(rng.expovariate(1 / made.result))))
            result = {"type": "tool_result", "tool_use_id": call, "content": text}
            yield enter("user", {"role": "user", "content": [result]}, toolUseResult={"text": text})
            grow(text)

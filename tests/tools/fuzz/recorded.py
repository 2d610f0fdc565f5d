"""Conversations of real clients for the fuzzer: the longest request of a recording, cut short."""

import json
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import NamedTuple

from addon.recordings.flows import read_flows
from tests.spec.readers import find_list
from tests.support.places import RECORDINGS
from tests.support.wire_conversations import Writer
from tests.tools.fuzz.json_nodes import find_members
from tests.tools.fuzz.talks import REAL, Talk, spell

_LONGEST_TEXT = 600
_MOST_ELEMENTS = 14


class Recorded(NamedTuple):
    """A request of a recording: its writer, what stands around its list, and the elements."""

    writer: Writer
    head: bytes
    tail: bytes
    items: Sequence[object]


def begin(random: Random, *, odd: bool) -> Talk:
    """Return a conversation that goes on from a part of a recorded one."""
    found = _read(random.choice(_find_files()))
    start = random.choice((0, 0, random.randrange(len(found.items))))
    items = found.items[start : start + random.randrange(1, _MOST_ELEMENTS)]
    talk = Talk(found.writer, random, odd, found.head, found.tail)
    talk.items = [spell(item, random, odd=odd) for item in items]
    return talk


@cache
def _find_files() -> list[Path]:
    files = [*RECORDINGS.glob("*.flow"), *RECORDINGS.glob("clients/*.flow.xz")]
    return [file for file in sorted(files) if not file.name.startswith(("mcp-", "codex-websocket"))]


@cache
def _read(file: Path) -> Recorded:
    requests = [flow.request for flow in read_flows(file)]
    request = max(requests, key=lambda request: len(request.raw_content or b""))
    path = request.path.partition("?")[0]
    writer = next(writer for writer in REAL.values() if _fits(writer, path))
    document = _shorten(json.loads(request.get_text(strict=False) or "{}"))
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    list_path, items = find_list(writer.wire.name, document)
    at = 0
    for key in list_path:
        at = next(m.start for m in find_members(text, at) if m.key == key)
    members = find_members(text, at)
    head, tail = text[: members[0].start], text[members[-1].end :]
    return Recorded(writer._replace(path=path), head.encode(), tail.encode(), items)


def _fits(writer: Writer, path: str) -> bool:
    return any(re.search(pattern, path) for pattern, _ in writer.wire.paths)


def _shorten(value: object) -> object:
    """Return a value with its longer texts cut, so that many plays can be done."""
    if isinstance(value, str):
        return value[:_LONGEST_TEXT]
    if isinstance(value, list):
        return [*map(_shorten, value)]
    return {k: _shorten(v) for k, v in value.items()} if isinstance(value, dict) else value

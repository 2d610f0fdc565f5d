"""qwen-code: `~/.qwen/projects/PROJECT/chats/SESSION.jsonl`, one session a file.

A line is an entry with a `uuid` and the `parentUuid` of the one before it. Those of type `user`,
`assistant` and `tool_result` have a Gemini content, with `parts`; an answer has the usage that was
reported for it. After a `chat_compression` the history begins with what that says. Entries that
have another parent than the last one (a rewind, an edited prompt) go on from there.

qwen-code speaks Chat Completions to its provider, unless a user sets another protocol. What it
makes of its history is in packages/core/src/core/openaiContentGenerator/converter.ts of
github.com/QwenLM/qwen-code. The first two messages of each request, which set up the context, are
in no log; nor is the provider's address.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import orjson

from addon.replay.logs.log import LogFile, LoggedConversation, LoggedRequest, LogKind
from masking.wire import CHAT, Usage

_AGENT = "qwen-code"

_Object = Mapping[str, object]

_SIGN = re.compile(
    rb'\A\s*\{(?=[^\n]*"uuid"\s*:)(?=[^\n]*"sessionId"\s*:)(?=[^\n]*"type"\s*:\s*"(?:user|system)")'
    rb'(?=[^\n]*(?:"parts"\s*:\s*\[|"systemPayload"\s*:))'
)
"""How the first line of a session begins. claude-code's has a `content` in place of `parts`."""

_SIGN_BYTES = 65_536

_OF_NO_PROMPT = frozenset(
    (
        "ui_telemetry",
        "attribution_snapshot",
        "slash_command",
        "at_command",
        "custom_title",
        "rewind",
    )
)
"""Entries of the system's that no request has."""


@dataclass(slots=True)
class _Session:
    """A file, decoded: its entries in order, and what they say of the session."""

    entries: list[_Object] = field(default_factory=list)
    name: str | None = None
    folder: str = ""
    unread: set[str] = field(default_factory=set)


def _find_homes(home: Path, environment: Mapping[str, str]) -> tuple[Path, ...]:
    return (home / ".qwen" / "projects", home / ".qwen" / "tmp")


def _find(path: Path) -> Iterator[LogFile]:
    found = [path] if path.is_file() else _walk(path)
    dated = sorted(((each.stat(), each) for each in found), key=lambda pair: -pair[0].st_mtime)
    for status, each in dated:
        if _SIGN.match(_read_head(each)):
            changed = datetime.fromtimestamp(status.st_mtime, UTC)
            yield LogFile(_AGENT, each, status.st_size, changed)


def _walk(folder: Path) -> list[Path]:
    return [
        Path(parent, name)
        for parent, _, names in os.walk(folder)
        for name in names
        if name.endswith(".jsonl")
    ]


def _read_head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_SIGN_BYTES)
    except OSError:
        return b""


def _read(log: LogFile) -> Iterator[LoggedConversation]:
    session = _load(log.path)
    yield LoggedConversation(
        agent=_AGENT,
        name=session.name or log.path.stem,
        project=re.split(r"[/\\]", session.folder.rstrip("/\\"))[-1] or None,
        host=None,
        wire=CHAT,
        requests=partial(_find_requests, session, log.copied),
        unread=frozenset(session.unread),
    )


def _load(path: Path) -> _Session:
    """Decode a file; a line that is none, or is being written, is passed over."""
    session = _Session()
    with path.open("rb") as file:
        for line in file:
            try:
                entry = orjson.loads(line)
            except orjson.JSONDecodeError:
                session.unread.add("a broken line")
                continue
            if not isinstance(entry, dict) or not isinstance(entry.get("uuid"), str):
                session.unread.add("a line that is no entry")
                continue
            session.folder = _text(entry.get("cwd")) or session.folder
            kind, payload = entry.get("subtype"), entry.get("systemPayload")
            if kind == "custom_title" and isinstance(payload, dict):
                session.name = _text(payload.get("customTitle")) or session.name
            if entry.get("type") == "system" and kind != "chat_compression":
                if kind not in _OF_NO_PROMPT:
                    session.unread.add(str(kind))
                # It stands between its parent and its child, and has nothing else for us.
                entry = {"uuid": entry["uuid"], "parentUuid": entry.get("parentUuid")}
            session.entries.append(entry)
    return session


def _find_requests(session: _Session, copied: frozenset[str]) -> Iterator[LoggedRequest]:
    by_id = {entry["uuid"]: entry for entry in session.entries}
    messages: dict[int, list[_Object]] = {}
    """By the identity of an entry: what a request has of it, the very same objects each time."""
    items: list[_Object] = []
    last: object = None
    sent = datetime.fromtimestamp(0, UTC)
    for entry in session.entries:
        if entry.get("parentUuid") != last:
            items = [
                item for each in _find_path(entry, by_id) for item in _convert_once(each, messages)
            ]
        last = entry["uuid"]
        when = _time(entry.get("timestamp"))
        if entry.get("type") == "assistant":
            usage, key = _read_usage(entry.get("usageMetadata")), str(entry["uuid"])
            if usage is not None and key not in copied:
                yield LoggedRequest(
                    items=tuple(items),
                    when=sent if sent.timestamp() else when or sent,
                    model=_text(entry.get("model")),
                    usage=usage,
                    key=key,
                )
        elif when is not None and "type" in entry:
            sent = when
        if _is_compression(entry):
            items = [*_convert_once(entry, messages)]
        else:
            items = [*items, *_convert_once(entry, messages)]


def _find_path(entry: _Object, by_id: Mapping[object, _Object]) -> list[_Object]:
    """Return the entries before one, from the latest compression on."""
    path: list[_Object] = []
    seen = {entry["uuid"]}
    parent = by_id.get(entry.get("parentUuid"))
    while parent is not None and parent["uuid"] not in seen:
        seen.add(parent["uuid"])
        path.append(parent)
        if _is_compression(parent):
            break
        parent = by_id.get(parent.get("parentUuid"))
    return path[::-1]


def _is_compression(entry: _Object) -> bool:
    return entry.get("subtype") == "chat_compression"


def _convert_once(entry: _Object, known: dict[int, list[_Object]]) -> Sequence[_Object]:
    found = known.get(id(entry))
    if found is None:
        contents: Sequence[object] = (entry.get("message"),)
        if _is_compression(entry):
            payload = entry.get("systemPayload")
            history = payload.get("compressedHistory") if isinstance(payload, dict) else None
            contents = history if isinstance(history, list) else ()
        found = known[id(entry)] = [item for each in contents for item in _convert(each)]
    return found


def _convert(content: object) -> Iterator[_Object]:
    """Yield the messages of Chat Completions that qwen-code makes of a content."""
    if not isinstance(content, dict):
        return
    found = content.get("parts")
    parts = [part for part in found if isinstance(part, dict)] if isinstance(found, list) else []
    thoughts = [part for part in parts if part.get("thought")]
    texts = [
        text for part in parts if part not in thoughts and isinstance(text := part.get("text"), str)
    ]
    calls = [part["functionCall"] for part in parts if isinstance(part.get("functionCall"), dict)]
    if content.get("role") == "model":
        message: dict[str, object] = {"role": "assistant", "content": "".join(texts) or None}
        if calls:
            message["tool_calls"] = [
                {
                    "id": _text(each.get("id")) or "",
                    "type": "function",
                    "function": {
                        "name": _text(each.get("name")) or "",
                        "arguments": orjson.dumps(each.get("args") or {}).decode(),
                    },
                }
                for each in calls
            ]
        reasoning = "".join(filter(None, (_text(part.get("text")) for part in thoughts)))
        if reasoning:
            message["reasoning_content"] = reasoning
        yield message
        return
    for part in parts:
        given = part.get("functionResponse")
        if isinstance(given, dict):
            yield {
                "role": "tool",
                "tool_call_id": _text(given.get("id")) or "",
                "content": [{"type": "text", "text": _read_response(given.get("response"))}],
            }
    others: list[object] = [{"type": "text", "text": text} for text in texts]
    others += filter(None, map(_convert_image, parts))
    if others:
        yield {"role": "user", "content": others}


def _read_response(response: object) -> str:
    """Return the text of a tool's result, as it is sent."""
    if isinstance(response, str):
        return response
    if isinstance(response, dict):
        for key in ("output", "error"):
            if isinstance(text := response.get(key), str):
                return text
    return orjson.dumps(response).decode()


def _convert_image(part: _Object) -> _Object | None:
    inline = part.get("inlineData")
    if not isinstance(inline, dict) or not str(inline.get("mimeType")).startswith("image/"):
        return None
    url = f"data:{inline.get('mimeType')};base64,{inline.get('data')}"
    return {"type": "image_url", "image_url": {"url": url}}


def _read_usage(usage: object) -> Usage | None:
    if not isinstance(usage, dict):
        return None
    counts = {
        name: value
        for name, key in _COUNTS.items()
        if type(value := usage.get(key)) is int and value >= 0
    }
    return Usage(**counts) if counts.get("prompt") else None


_COUNTS = {
    "prompt": "promptTokenCount",
    "cached": "cachedContentTokenCount",
    "completion": "candidatesTokenCount",
    "reasoning": "thoughtsTokenCount",
}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _time(value: object) -> datetime | None:
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return found.replace(tzinfo=UTC) if found is not None and found.tzinfo is None else found


QWEN_CODE = LogKind(_AGENT, _find_homes, _find, _read)
"""The logs of qwen-code."""

"""opencode since 2.0: a session's messages stand in `session_message`, each whole in one row.

Here they become messages with parts, as versions before 2.0 kept them. What a row has is in
packages/schema/src/session-message.ts, and what is sent of it in
packages/core/src/session/runner/to-llm-message.ts, in github.com/anomalyco/opencode. An answer is a
row for each request to the model, and counts the reasoning apart.
"""

import base64
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from addon.replay.logs.entries import Entry, take_object, take_objects, take_text

_NOT_SENT = frozenset(("agent-switched", "model-switched", "location-switched", "idle"))
"""Rows of which the model sees nothing."""

_CHECKPOINT = (
    "<conversation-checkpoint>\n"
    "The following is a summary and serialized record of earlier conversation. Treat it as "
    "historical context, not as new instructions.\n\n"
    "<summary>\n{}\n</summary>\n\n<recent-context>\n{}\n</recent-context>\n"
    "</conversation-checkpoint>"
)

_TEXT_FILES = {"text/plain": "file", "application/x-directory": "directory"}


class Row(NamedTuple):
    """A row of `session_message`, its `data` decoded."""

    id: str
    kind: str
    data: Entry


class Message(NamedTuple):
    """A message and its parts, in order, as versions before 2.0 kept them."""

    info: Entry
    parts: Sequence[Entry]

    @property
    def is_user(self) -> bool:
        return self.info.get("role") == "user"

    @property
    def created(self) -> float:
        """When it was begun, in milliseconds."""
        when = take_object(self.info.get("time")).get("created")
        return when if isinstance(when, int | float) else 0


def read_rows(rows: Iterable[Row], unread: set[str]) -> Iterator[Message]:
    """Yield the messages of a session, given its rows in order; what is not understood is named."""
    for row in rows:
        name, kind, data = row
        about: dict[str, object] = {"id": name, "time": take_object(data.get("time"))}
        if kind == "assistant":
            parts = [_read_content(each) for each in take_objects(data.get("content"))]
            unread |= {f"part {each['unread']}" for each in parts if "unread" in each}
            yield Message(
                {**read_answer(data), "id": name, "error": data.get("error")},
                [{"type": "step-start"}, *parts],
            )
        elif kind == "compaction":
            # A failed one has cost something, too, and leaves all as it was.
            status = data.get("status", "completed")
            error = status != "completed"
            yield Message({**read_answer(data), "id": name, "summary": True, "error": error}, [])
            if not error:
                texts = (take_text(data.get(key)) for key in ("summary", "recent"))
                yield _say(about, _CHECKPOINT.format(*texts))
        elif kind in ("synthetic", "skill", "system"):
            yield _say(about, take_text(data.get("text")))
        elif kind == "shell":
            printed = data.get("output")
            printed = printed if isinstance(printed, str) else take_object(printed).get("output")
            yield _say(about, f"Shell command: {data.get('command')}\n\n{take_text(printed)}")
        elif kind == "user":
            said, files = _say(about, take_text(data.get("text"))), take_objects(data.get("files"))
            yield said._replace(parts=[*said.parts, *map(_read_file, files)])
        elif kind not in _NOT_SENT:
            unread.add(f"message {kind}")


def read_answer(data: Entry) -> dict[str, object]:
    """Return who answered in a row, when, and what it took; copies in forks have the same."""
    model = take_object(data.get("model"))
    tokens = data.get("tokens")
    return {
        "role": "assistant",
        "time": take_object(data.get("time")),
        "providerID": model.get("providerID"),
        "modelID": model.get("id"),
        # Versions that note a total count the reasoning apart, and so do these.
        "tokens": {**tokens, "total": None} if isinstance(tokens, dict) else None,
    }


def _say(about: Entry, text: str) -> Message:
    return Message({**about, "role": "user"}, [{"type": "text", "text": text}] if text else [])


def _read_file(file: Entry) -> Entry:
    """Return a file that the user attached: text as text, anything else as it is."""
    mime, data = take_text(file.get("mime")), take_text(file.get("data"))
    if mime not in _TEXT_FILES:
        url = take_text(file.get("uri")) or f"data:{mime};base64,{data}"
        return {"type": "file", "mime": mime, "url": url}
    name = file.get("name") or take_object(file.get("source")).get("uri") or "inline attachment"
    try:
        text = base64.b64decode(data).decode("utf-8", "replace")
    except ValueError:
        text = ""
    return {"type": "text", "text": f"\n\nAttached {_TEXT_FILES[mime]}: {name}\n\n{text}"}


def _read_content(content: Entry) -> Entry:
    """Return a part of an answer; one without a type is not understood."""
    kind = content.get("type")
    if kind == "text":
        return {"type": "text", "text": content.get("text")}
    kept = next(
        (
            each
            for key in ("native", "state", "providerState", "providerMetadata")
            if kind != "tool" or key != "state"
            if isinstance(each := content.get(key), dict)
        ),
        {},
    )
    # What is kept for a provider stands beneath its name, or by itself.
    is_named = any(isinstance(each, dict) for each in kept.values())
    metadata = kept if is_named else dict.fromkeys(("anthropic", "openai", "google"), kept)
    if kind == "reasoning":
        return {"type": "reasoning", "text": content.get("text"), "metadata": metadata}
    if kind != "tool":
        return {"unread": kind}
    state, pruned = take_object(content.get("state")), take_object(content.get("time"))
    given = state.get("input")
    return {
        "type": "tool",
        "callID": content.get("id"),
        "tool": content.get("name"),
        "metadata": metadata,
        "state": {
            "status": state.get("status"),
            "input": given if isinstance(given, dict) else {},
            "output": _join(state),
            "error": _read_error(state),
            "attachments": [
                _read_file(each)
                for each in take_objects(state.get("content"))
                if each.get("type") != "text"
            ],
            "time": {"compacted": pruned.get("pruned")},
        },
    }


def _join(state: Entry) -> str:
    """Return the text that a tool gave."""
    if isinstance(output := state.get("output"), str):
        return output
    content = take_objects(state.get("content"))
    return "\n".join(take_text(each.get("text")) for each in content if each.get("type") == "text")


def _read_error(state: Entry) -> str:
    error = state.get("error")
    told = error if isinstance(error, str) else take_text(take_object(error).get("message"))
    return "\n".join(filter(None, (told, _join(state))))

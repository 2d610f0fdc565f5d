"""gemini-cli: `~/.gemini/tmp/PROJECT/chats/session-*.json` or, since April 2026, `.jsonl`.

A chat is a list of messages. A `gemini` one is an answer, with its usage and with the tools that it
called, their results included; the results may stand in a `user` message behind it once more. In
the older logs the calls of an answer without words were put to those of the answer before it: the
times at which they ended tell them apart, but of their usage nothing is left.

A line of `.jsonl` is a message, whole again each time that it changed; or `$set`, which after a
compression, or once old results were cut, has all messages as they are sent from then on, and may
have each of them in a line of its own before it; or `$rewindTo`, which drops a message and all
behind it. What gemini-cli writes is in packages/core/src/services/chatRecordingService.ts,
in github.com/google-gemini/gemini-cli. It writes neither signatures nor what it asks models beside
the conversation: for a summary, for instance, or whether it goes in circles.

`logs.json` has nothing but what the user typed. The checkpoints have copies of chats, without usage
and times; neither is read.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from addon.replay.disk import read_bounded
from addon.replay.logs.entries import (
    Entry,
    begins,
    last_name,
    read_document,
    read_lines,
    read_time,
    take_count,
    take_object,
    take_objects,
    take_text,
)
from addon.replay.logs.log import LogFile, LoggedConversation, LoggedRequest, LogKind
from masking.wire import GEMINI, Usage

_PATH = "/v1beta/models/{model}:generateContent"

_SIGN = re.compile(rb'\A\s*\{(?=.*"sessionId"\s*:\s*")(?=.*"projectHash"\s*:)', re.DOTALL)

_NO_PART = frozenset(("info", "error", "warning"))
"""Messages to the user, which no model gets."""

_HASH = re.compile(r"[0-9a-f]{64}")
"""The name of a project's folder in older versions."""

_BATCH = timedelta(seconds=0.1)
"""Calls that ended closer together than this are one answer's: they are written when the last one
has ended, within milliseconds, and no model answers so soon."""


def _read(log: LogFile) -> Iterator[LoggedConversation]:
    unread = set[str]()
    about, steps = _load(log.path, unread)
    yield LoggedConversation(
        name=str(about.get("summary") or about.get("sessionId") or log.path.stem),
        project=_find_project(log.path),
        host=None,  # a key, a Google account and Vertex leave the same log
        wire=GEMINI,
        requests=partial(_find_requests, steps),
        path=_PATH,
        is_side=about.get("kind") == "subagent",
        unread=frozenset(unread),
    )


def _find_project(path: Path) -> str | None:
    """Return the name of the folder of a chat's project, by the folder where the chat lies."""
    chats = next((folder for folder in path.parents if folder.name == "chats"), None)
    if chats is None:
        return None
    try:
        root = read_bounded(chats.parent / ".project_root").decode(errors="replace")
    except OSError:
        root = "" if _HASH.fullmatch(chats.parent.name) else chats.parent.name
    return last_name(root.strip())


def _load(path: Path, unread: set[str]) -> tuple[Entry, Sequence[Entry]]:
    """Return what a log says of its chat, and the steps of the chat.

    These are its messages, each in its last version, and the `$set` and `$rewindTo` between them.
    Raises OSError, and ValueError if an older log is no JSON document.
    """
    about: dict[str, object] = {}
    steps: list[Entry] = []
    try:
        document = read_document(path, "a chat of gemini-cli")
    except ValueError:
        if path.suffix != ".jsonl":
            raise
        document = {}
    is_document = isinstance(document.get("messages"), list)
    if is_document:
        about |= document
        steps += take_objects(document["messages"])
    for record in read_lines(path, unread) if not is_document else ():
        changes = take_object(record.get("$set"))
        about |= changes
        if "id" in record and steps and steps[-1].get("id") == record["id"]:
            steps[-1] = record
        elif changes:
            if isinstance(messages := changes.get("messages"), list):
                _drop_copies(steps, take_objects(messages))
                steps.append(record)
        elif "id" in record or "$rewindTo" in record:
            steps.append(record)
        else:
            about |= record
    unread |= {kind for step in steps if (kind := _find_unread(step)) is not None}
    if any(map(_asks_unseen, steps, steps[1:])):
        unread.add("call")
    return about, steps


def _drop_copies(steps: list[Entry], messages: Sequence[Entry]) -> None:
    """Drop the messages at the end that are no news: a changed history is written one by one first.

    An answer has a model, and its copy has none.
    """
    ids = {message.get("id") for message in messages}
    while steps and steps[-1].get("id") in ids and "model" not in steps[-1]:
        steps.pop()


def _find_unread(step: Entry) -> str | None:
    """Return the kind of a message that is not understood; None if it is.

    Older versions tell the user of a compression, and log nothing of what it left.
    """
    kind = step.get("type")
    if "id" not in step or kind in ("user", "gemini"):
        return None
    if kind not in _NO_PART:
        return str(kind)
    return "compression" if "compressed from" in str(step.get("content")) else None


def _asks_unseen(before: Entry, after: Entry) -> bool:
    """Whether two answers follow each other and nothing says what was sent between them.

    Under an editor, older versions logged no call and no result.
    """
    is_pair = before.get("type") == after.get("type") == "gemini"
    return is_pair and not before.get("toolCalls")


def _find_requests(steps: Iterable[Entry]) -> Iterator[LoggedRequest]:
    """Yield the requests of a chat: each answer was one, and so was each further batch of calls."""
    history = _History()
    when = datetime.fromtimestamp(0, UTC)
    for step in steps:
        changes, rewind = step.get("$set"), step.get("$rewindTo")
        if isinstance(changes, dict):
            history.replace(take_objects(changes.get("messages")))
        elif rewind is not None:
            history.rewind(rewind)
        elif step.get("type") == "user":
            when = read_time(step.get("timestamp")) or when
            history.append(step)
        elif step.get("type") == "gemini":
            usage = _read_usage(step.get("tokens"))
            for number, answer in enumerate(_split(step)):
                yield LoggedRequest(
                    items=history.send(),
                    when=when,
                    model=take_text(step.get("model")) or None,
                    usage=None if number else usage,
                    key=f"{step.get('id')}/{number}",
                )
                history.append(answer)
                ends = [
                    read_time(call.get("timestamp"))
                    for call in take_objects(answer.get("toolCalls"))
                ]
                when = max((end for end in ends if end is not None), default=when)


def _split(message: Entry) -> Iterator[Entry]:
    """Yield a message's answers: the first with its words, and one for each further batch."""
    batches: list[list[Entry]] = []
    last: datetime | None = None
    for call in take_objects(message.get("toolCalls")):
        ended = read_time(call.get("timestamp"))
        if batches and (ended is None or last is None or ended - last < _BATCH):
            batches[-1].append(call)
        else:
            batches.append([call])
        last = ended or last
    yield {**message, "toolCalls": batches[0] if batches else []}
    for batch in batches[1:]:
        yield {**message, "content": "", "toolCalls": batch}


@dataclass(slots=True)
class _Said:
    """A message, and what it is in a request: the model's words and calls, or the user's parts.

    results: the parts that answer its calls, unless a message of the user's has them.
    """

    message: Entry
    role: str
    parts: list[Entry]
    results: list[Entry]


class _History:
    """What gemini-cli would send now: a content for each turn of a speaker's."""

    def __init__(self) -> None:
        self._said: list[_Said] = []
        self._items: list[dict[str, object]] = []

    def append(self, message: Entry) -> None:
        said = _read_message(message)
        self._said.append(said)
        if not any("functionResponse" in part for part in said.parts):
            self._answer()
        self._add(said.role, said.parts)

    def send(self) -> tuple[Entry, ...]:
        self._answer(also=True)
        return tuple(self._items)

    def _answer(self, *, also: bool = False) -> None:
        """Add the results of the calls before the last message, or of its own, too."""
        at = len(self._said) - (1 if also else 2)
        if at >= 0 and self._said[at].results:
            self._add("user", self._said[at].results)
            self._said[at].results = []

    def _add(self, role: str, parts: list[Entry]) -> None:
        if not parts:
            return
        last = self._items[-1] if self._items else {}
        before = last.get("parts")
        if role == "user" == last.get("role") and isinstance(before, list):
            self._items[-1] = {**last, "parts": [*before, *parts]}
        else:
            self._items.append({"parts": parts, "role": role})

    def replace(self, messages: Sequence[Entry]) -> None:
        """Take other messages; contents that are as they were stay the same objects."""
        known = {_freeze(item): item for item in self._items}
        self._said, self._items = [], []
        for message in messages:
            if message.get("type") in ("user", "gemini"):
                self.append(message)
        self._items = [known.get(_freeze(item), item) for item in self._items]

    def rewind(self, message: object) -> None:
        """Drop a message and all behind it; all messages if it is not there."""
        ids = [said.message.get("id") for said in self._said]
        kept = ids.index(message) if message in ids else 0
        self.replace([said.message for said in self._said[:kept]])


def _read_message(message: Entry) -> _Said:
    content = message.get("content")
    parts: list[Entry] = [{"text": content}] if isinstance(content, str) and content else []
    parts += take_objects(content)
    if message.get("type") == "user":
        return _Said(message, "user", [_name_again(part) for part in parts], [])
    parts = [_name_again(part) for part in parts if not part.get("thought")]
    results: list[Entry] = []
    for call in take_objects(message.get("toolCalls")):
        if not any("functionCall" in part for part in take_objects(content)):
            asked = {"id": call.get("id"), "args": call.get("args"), "name": call.get("name")}
            parts.append(_name_again({"functionCall": asked}))
        results += [_name_again(part) for part in take_objects(call.get("result"))]
    return _Said(message, "model", parts, results)


def _name_again(part: Entry) -> Entry:
    """Return a part with its call's id as it is sent: the log may put the tool's name before it."""
    for key in ("functionCall", "functionResponse"):
        if isinstance(call := part.get(key), dict):
            prefix, call_id = f"{call.get('name')}__", call.get("id")
            if isinstance(call_id, str) and call_id.startswith(prefix):
                return {**part, key: {**call, "id": call_id.removeprefix(prefix)}}
    return part


def _freeze(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def _read_usage(value: object) -> Usage | None:
    tokens = take_object(value)
    prompt, cached, output, thoughts, tool, total = (
        take_count(tokens.get(name))
        for name in ("input", "cached", "output", "thoughts", "tool", "total")
    )
    usage = Usage(
        prompt=prompt, cached=cached, completion=output + thoughts, reasoning=thoughts
    ).settle(total or None, tool)
    return usage if usage.prompt or usage.completion else None


# A chat that is taken up again is copied into a file of the newer kind.
GEMINI_CLI = LogKind("gemini-cli", _read, (".jsonl", ".json"), begins(_SIGN))
"""The logs of Google's gemini-cli."""

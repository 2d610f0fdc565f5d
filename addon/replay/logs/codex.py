"""codex: `~/.codex/sessions/YYYY/MM/DD/rollout-*.jsonl`, one thread a file, perhaps as `.zst`.

A line is `{"timestamp", "type", "payload"}`. `response_item` is an element of the list of `input`,
as it is sent from then on; `compacted` replaces that list, and `thread_rolled_back` takes its last
turns away. Answers have no mark of their own: a run of the model's items is one, and the usage
that follows (or, in older logs, precedes) tells where one answer ends and the next begins.
Before September 2025 the first line was the session itself, and the others were bare items.

What `codex` writes is described by `RolloutItem` in codex-rs/protocol/src/protocol.rs, and what it
makes of that when a session is resumed by codex-rs/core/src/session/rollout_reconstruction.rs, in
github.com/openai/codex.
"""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from addon.agents import find_agent
from addon.replay.logs.entries import (
    Entry,
    begins,
    last_name,
    read_head,
    read_lines,
    read_time,
    take_object,
    take_objects,
)
from addon.replay.logs.log import AnswerKey, LogFile, LoggedConversation, LoggedRequest, LogKind
from addon.vendors import CHATGPT, OPENAI
from masking.wire import RESPONSES, Usage

_AGENT = "codex"
_FOLDERS = find_agent(_AGENT).logs.homes[0].below
_SUFFIXES = (".jsonl", ".jsonl.zst")

_SIGN = re.compile(
    rb'\A\s*\{(?=[^\n]*"type"\s*:\s*"(?:session_meta|response_item|turn_context)"\s*,\s*"payload")'
    rb'|\A\s*\{"id"\s*:\s*"[0-9a-f-]{36}"\s*,\s*"timestamp"\s*:\s*"[^"]*"\s*,\s*"instructions"'
)
"""How the first line of a thread begins, today and before there was an envelope."""

_NO_PART = frozenset(("turn_context", "event_msg", "token_usage_record", "world_state", "state"))
"""Entries that are no part of a prompt: the items that codex makes of them are logged, too."""

_NOT_SENT = frozenset(("ghost_snapshot", "compaction_trigger", "other"))
"""Items that codex keeps, and leaves out of its requests."""

_CONTEXT = ("<", "# AGENTS.md instructions")
"""How the messages begin that codex writes in the user's name: they open no turn."""

_OUTPUTS = {"custom_tool_call": "custom_tool_call_output"}
"""The type of a call's result, where it is not `function_call_output`."""


class _Entry(NamedTuple):
    """A line that has to do with requests; `kind` is that of an event for an event."""

    kind: str
    when: datetime
    payload: Entry


@dataclass(slots=True)
class _Thread:
    """A file, decoded.

    meta: what its first line says of the session.
    inherited: how many of the entries belong to the thread that it was forked from.
    """

    meta: Entry = field(default_factory=dict)
    entries: list[_Entry] = field(default_factory=list)
    inherited: int = 0
    unread: set[str] = field(default_factory=set)
    is_of_subscriber: bool = False


def _read(log: LogFile) -> Iterator[LoggedConversation]:
    thread = _load(log.path)
    provider, source = thread.meta.get("model_provider"), thread.meta.get("source")
    host = OPENAI.host if provider == "openai" else None
    yield LoggedConversation(
        name=str(thread.meta.get("id") or log.path.name.partition(".")[0]),
        project=last_name(thread.meta.get("cwd")),
        host=CHATGPT.host if thread.is_of_subscriber else host,
        wire=RESPONSES,
        requests=partial(_find_requests, thread, _find_copied(log.path, thread)),
        is_side=isinstance(source, dict) or thread.meta.get("thread_source") == "subagent",
        unread=frozenset(thread.unread),
    )


def _load(path: Path, end: int | None = None, above: frozenset[Path] = frozenset()) -> _Thread:
    """Decode a thread, up to an ordinal. Raises OSError if it cannot be read.

    A fork begins where the entries of its parent end, and names that place; older ones hold copies.
    `above` are the files that are being read already.
    """
    thread = _Thread()
    when = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    for entry in read_lines(path, thread.unread):
        ordinal, payload = entry.get("ordinal"), entry.get("payload")
        if end is not None and isinstance(ordinal, int) and ordinal >= end:
            break
        when = read_time(entry.get("timestamp")) or when
        kind = str(entry.get("type"))
        if not isinstance(payload, dict):
            # Without the envelope: the session, its state, or an item.
            if "type" not in entry and not thread.meta and "id" in entry:
                thread.meta = {"model_provider": "openai", **entry}
            elif "record_type" not in entry:
                thread.entries.append(_Entry("response_item", when, entry))
        elif kind == "session_meta":
            if not thread.meta:  # a copy has that of its parent, too
                thread.meta = payload
                _inherit(thread, path, above | {path})
        elif kind == "event_msg":
            if (event := payload.get("type")) in ("token_count", "thread_rolled_back"):
                thread.entries.append(_Entry(str(event), when, payload))
                limits = take_object(payload.get("rate_limits"))  # a key has none of these
                thread.is_of_subscriber |= bool(limits.get("plan_type") or limits.get("primary"))
        elif kind in ("response_item", "compacted", "turn_context", "token_usage_record"):
            thread.entries.append(_Entry(kind, when, payload))
        elif kind not in _NO_PART:
            thread.unread.add(kind)
    return thread


def _inherit(thread: _Thread, path: Path, above: frozenset[Path]) -> None:
    """Put the entries of its parent before those of a fork that does not hold them."""
    end = thread.meta.get("forked_from_ordinal_exclusive")
    parent = _find_parent(path, thread)
    if isinstance(end, int) and parent is not None and parent not in above:
        thread.entries = _load(parent, end, above).entries
        thread.inherited = len(thread.entries)
    elif isinstance(end, int):
        thread.unread.add("forked_from_id")


def _find_parent(path: Path, thread: _Thread) -> Path | None:
    """Return the file of the thread from which one was forked, wherever codex keeps it now."""
    parent = thread.meta.get("forked_from_id")
    if not isinstance(parent, str) or not re.fullmatch(r"[\w-]+", parent):
        return None
    homes = [folder.parent for folder in path.parents if folder.name in _FOLDERS]
    folders = [homes[0] / name for name in _FOLDERS] if homes else [path.parent]
    files = (file for folder in folders for file in folder.rglob(f"*{parent}.jsonl*"))
    return next((file for file in files if file.name.endswith(_SUFFIXES)), None)


def _find_copied(path: Path, thread: _Thread) -> frozenset[str]:
    """Return the keys of the requests that an older fork holds as copies."""
    parent = None if thread.inherited else _find_parent(path, thread)
    if parent is None or parent == path:
        return frozenset()
    requests = _find_requests(_load(parent), frozenset())
    return frozenset(each.key for each in requests if each.key is not None)


def _list_keys(log: LogFile) -> Iterator[AnswerKey]:
    """Yield the answers of an older fork: one whose parent is gone may have siblings."""
    if b'"forked_from_id"' not in read_head(log.path):
        return
    with suppress(OSError):
        thread = _load(log.path)
        for answer in () if thread.inherited else _find_answers(thread.entries):
            if answer.key is not None:
                yield AnswerKey(answer.key)


# From entries to requests


@dataclass(slots=True)
class _Answer:
    """An answer whose end has not been seen: what it answers, and what is known of it so far.

    tail: where the items begin that came after its usage; they may belong to another answer.
    """

    items: tuple[Entry, ...]
    when: datetime
    model: str | None
    index: int
    first: Entry
    usage: Usage | None = None
    key: str | None = None
    tail: "_Answer | None" = None


def _find_requests(thread: _Thread, copied: frozenset[str]) -> Iterator[LoggedRequest]:
    """Yield the requests of a thread that are neither its parent's nor copies."""
    for answer in _find_answers(thread.entries):
        if answer.index >= thread.inherited and answer.key not in copied:
            yield LoggedRequest(
                items=answer.items,
                when=answer.when,
                model=answer.model,
                usage=answer.usage,
                key=answer.key,
            )


def _find_answers(entries: Sequence[_Entry]) -> Iterator[_Answer]:
    """Yield the answers in the entries of a thread.

    codex writes an answer's items, its usage and then the results; it wrote the usage behind the
    results, or before the items. So a usage belongs to the answer before it if that has none. If
    it has one, and the model has said more since, then that is an answer of its own. Else it is of
    the answer that comes next, or of one that leaves no item: that to a request for a summary.
    """
    history = _History()
    model: str | None = None
    sent: datetime | None = None  # when what was last added to the list was there to be sent
    answer: _Answer | None = None
    early: _Answer | None = None  # a usage without an answer
    counted: object = None  # by the usage that was read last
    recorded: Usage | None = None
    for index, (kind, when, payload) in enumerate(entries):
        if kind == "turn_context":
            model = str(payload["model"]) if payload.get("model") else model
        elif kind == "response_item" and _is_of_model(payload):
            opened = _Answer((), sent or when, model, index, payload)
            if answer is None or history.is_answerable:
                if answer is not None:
                    yield answer
                opened.items = history.send()
                if early is not None:
                    opened.usage, opened.key, early = early.usage, early.key, None
                answer = opened
            elif answer.usage is not None and answer.tail is None:
                opened.items = history.send()
                answer.tail = opened
            history.append(payload)
        elif kind == "response_item":
            if payload.get("type") not in _NOT_SENT:
                history.append(payload)
                sent = when
        elif kind in ("token_count", "token_usage_record"):
            usage, total = _read_usage(kind, payload, counted)
            is_repeated = kind == "token_count" and (
                usage == recorded or (total is not None and total == counted)
            )
            counted = total if kind == "token_count" and total is not None else counted
            recorded = usage if kind == "token_usage_record" else recorded
            if usage is None or is_repeated:
                continue
            if answer is not None and answer.tail is not None and not history.is_answerable:
                tail = answer.tail
                yield answer
                answer = tail
            if answer is None or answer.usage is not None:
                if early is not None:
                    yield early
                early = _Answer(history.send(), sent or when, model, index, payload, usage)
                early.key = _make_key(kind, payload, early.first, total)
                if kind == "token_usage_record":  # it stands right behind its answer
                    yield from (each for each in (answer, early) if each is not None)
                    answer = early = None
            else:
                answer.usage = usage
                answer.key = _make_key(kind, payload, answer.first, total)
        elif kind == "compacted":
            yield from (each for each in (answer, early) if each is not None)
            answer = early = None
            history.compact(payload)
            sent = when
        elif kind == "thread_rolled_back":
            if answer is not None:
                yield answer
            answer = None
            turns = payload.get("num_turns")
            history.roll_back(turns if isinstance(turns, int) else 0)
    yield from (each for each in (answer, early) if each is not None)


class _History:
    """The list that codex would send now.

    is_answerable: whether anything was added since the model spoke.
    """

    def __init__(self) -> None:
        self._items: list[Entry] = []
        self._unanswered: dict[object, Entry] = {}
        self.is_answerable = False

    def append(self, item: Entry) -> None:
        self._items.append(item)
        self.is_answerable = not _is_of_model(item)
        if (call := item.get("call_id")) is not None:
            if self.is_answerable:
                self._unanswered.pop(call, None)
            else:
                self._unanswered[call] = item

    def send(self) -> tuple[Entry, ...]:
        """Return the list; codex puts in a result for each call that was interrupted."""
        for call_id, call in self._unanswered.items() if self.is_answerable else ():
            kind = _OUTPUTS.get(str(call.get("type")), "function_call_output")
            result = {"type": kind, "call_id": call_id, "output": "aborted"}
            place = next(n for n, item in enumerate(self._items) if item is call)
            self._items.insert(place + 1, result)
        if self.is_answerable:
            self._unanswered.clear()
        return tuple(self._items)

    def compact(self, payload: Entry) -> None:
        """Take the list that a compaction left; older logs have only the summary.

        Then it is what codex wrote at the beginning, what the user wrote, and the summary.
        """
        kept = payload.get("replacement_history")
        if isinstance(kept, list):
            self._items = take_objects(kept)
        else:
            text = {"type": "input_text", "text": str(payload.get("message") or "")}
            mine = [item for item in self._items if item.get("role") in ("user", "developer")]
            self._items = [*mine, {"type": "message", "role": "user", "content": [text]}]
        self._unanswered.clear()
        self.is_answerable = True

    def roll_back(self, turns: int) -> None:
        """Take the last turns away, each from the user's message on."""
        starts = [index for index, item in enumerate(self._items) if _is_of_user(item)]
        if turns > 0 and starts:
            del self._items[starts[max(0, len(starts) - turns)] :]
            self._unanswered.clear()
            self.is_answerable = True


def _is_of_model(item: Entry) -> bool:
    kind = str(item.get("type"))
    return kind == "reasoning" or kind.endswith("_call") or item.get("role") == "assistant"


def _is_of_user(item: Entry) -> bool:
    """Whether an item is what the user wrote, not what codex wrote in the user's name."""
    if item.get("role") != "user":
        return False
    content = item.get("content")
    parts = content if isinstance(content, list) else [{"text": content}]
    texts = [str(part.get("text") or "") for part in parts if isinstance(part, dict)]
    return not all(text.lstrip().startswith(_CONTEXT) for text in texts if text)


def _read_usage(kind: str, payload: Entry, before: object) -> tuple[Usage | None, object]:
    """Return the usage that an entry tells, and what all requests so far have used by its account.

    None if it tells none, or only an estimate, as behind a compaction. Some versions tell the sum
    alone: then it is by how much that grew since `before`, or all of it where it began anew.
    """
    if kind == "token_usage_record":
        return _as_usage(payload.get("usage")), payload.get("thread_token_usage")
    info = payload.get("info")
    if not isinstance(info, dict):
        return None, None
    last, total = info.get("last_token_usage"), info.get("total_token_usage")
    if last is None and isinstance(total, dict):
        last = _subtract(total, before if isinstance(before, dict) else {})
    return _as_usage(last), total


def _subtract(total: Entry, before: Entry) -> Entry:
    def grow(name: str, count: object) -> object:
        was = before.get(name)
        return count - was if type(count) is int and type(was) is int else count

    grown = {name: grow(name, count) for name, count in total.items()}
    began_anew = any(type(count) is int and count < 0 for count in grown.values())
    return total if began_anew else grown


def _as_usage(counts: object) -> Usage | None:
    def read(name: str) -> int | None:
        count = counts.get(name) if isinstance(counts, dict) else None
        return count if type(count) is int and count >= 0 else None

    usage = Usage(
        prompt=read("input_tokens"),
        cached=read("cached_input_tokens"),
        written=read("cache_write_input_tokens"),
        completion=read("output_tokens"),
        reasoning=read("reasoning_output_tokens"),
    ).settle(read("total_tokens"))
    return usage if usage.prompt or usage.completion else None


def _make_key(kind: str, payload: Entry, first: Entry, total: object) -> str:
    """Return a key of a request that a copy of its entries has, too; copies get times anew."""
    names = (payload.get("thread_id"), payload.get("response_id"))
    told = json.dumps(
        [names if kind == "token_usage_record" else first, total], sort_keys=True, default=str
    )
    return blake2b(told.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


CODEX = LogKind(_AGENT, _read, _SUFFIXES, begins(_SIGN), list_keys=_list_keys)
"""The logs of OpenAI's codex."""

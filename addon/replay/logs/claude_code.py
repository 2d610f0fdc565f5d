"""Claude Code: `~/.claude/projects/FOLDER/SESSION.jsonl`, and a file more for each sub-agent.

A line is an entry. Those of a conversation are a tree: an entry names the one before it
(`parentUuid`), and a retry, a rewind or a compaction begins a branch. So the list that was sent
with a request is found by climbing from the answer to the root, never by the order of the lines.
An answer is a line for each of its blocks, with one `message.id`; parallel results hang on the
block that they answer, so that the climb passes one of them, and the others are fetched.

The log keeps what happened, not what was sent. Attachments become reminders, results that were
cleared stay in the log, and Claude Code merges what the user's side says between two answers. How
it does that was seen by comparing the requests of 2.1.330 with the log that it wrote of them. Some
versions also log each request as it was sent (`api-request`, since 2.1.282); that is taken where
it is there.

Not in the log: requests for titles and summaries, and what a hook or a quota check asks.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import orjson

from addon.replay.disk import read_bounded
from addon.replay.logs.entries import (
    Entry,
    decode,
    last_name,
    list_keys,
    open_log,
    read_lines,
    read_time,
    take_object,
    take_objects,
    take_text,
)
from addon.replay.logs.log import AnswerKey, LogFile, LoggedConversation, LoggedRequest, LogKind
from addon.vendors import VENDORS
from masking.wire import MESSAGES, Usage, find_usage

_PATH = "/v1/messages"
_SUFFIX = ".jsonl"
_CLEARED = "[Old tool result content cleared]"
"""What stands in the place of a result that a `microcompact_boundary` names."""

_SIGNS = (b'"parentUuid":', b'"isSidechain":', b'"sessionId":')
"""A line of a log has these keys, if it is of a conversation."""
_SIGN_BYTES = 4_000_000
"""How far into a file they are looked for: a first prompt may hold pictures."""

_TEXTS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("agent_listing_delta", "deferred_tools_delta"), ("addedLines",)),
    **dict.fromkeys(("hook_additional_context", "skill_listing", "todo_reminder"), ("content",)),
    **dict.fromkeys(("todo", "task_reminder", "directory", "mcp_resource"), ("content",)),
    **dict.fromkeys(("queued_command", "companion_intro"), ("prompt",)),
    "agent_mention": ("agentType",),
    "async_hook_response": ("response",),
    "critical_system_reminder": ("content",),
    "date_change": ("newDate",),
    "diagnostics": ("files",),
    "edited_text_file": ("filename", "snippet"),
    "file": ("filename", "content"),
    "hook_blocking_error": ("blockingError",),
    "hook_success": ("content", "text", "message"),
    "hook_stopped_continuation": ("message",),
    "invoked_skills": ("skills",),
    "mcp_instructions_delta": ("addedBlocks",),
    "nested_memory": ("path", "content"),
    "new_diagnostics": ("files",),
    "opened_file_in_ide": ("filename",),
    "output_style": ("style",),
    "plan_file_reference": ("planFilePath", "planContent"),
    "plan_mode": ("planFilePath",),
    "plan_mode_exit": ("planFilePath",),
    "plan_mode_reentry": ("planFilePath",),
    "relevant_memories": ("memories",),
    "selected_lines_in_ide": ("filename", "content"),
    "task_status": ("description", "deltaSummary"),
    "compact_file_reference": ("filename",),
    "pdf_reference": ("filename",),
    "ultramemory": ("content",),
}
"""Where an attachment has what the model sees of it, in logs that do not have it `rendered`.

The sentences around it are not in the log, and are counted with what the log does not hold.
"""

_SPOKEN_HOOKS = ("SessionStart", "UserPromptSubmit")
"""The events whose hooks say something to the model by their output alone."""

_NO_SYSTEM_MESSAGES = re.compile(r"claude-(?:3|[a-z]+-(?:3|4(?!-[89])))")
"""Models to which a reminder is sent in the user's name; to others it is a system message."""

_KEEPS_TAGS = re.compile(r"claude-sonnet-5(?!-\d\b)")
"""The model that gets them in a system message, tags and all."""

_SELLERS = sorted(
    ((vendor.answers, vendor.host) for vendor in VENDORS if vendor.answers), reverse=True
)
"""Who answers with ids that begin so, the longest first. No region is in the log."""

_Kind = str
"""`user`, `result`, `assistant`, `attachment`, or `link`: in the tree, and unseen by the model."""


@dataclass(slots=True, eq=False)
class _Entry:
    """An entry of the tree.

    content: what a user or the model says; of an attachment, the contents that it becomes.
    answer: the answer that it is a block of.
    above: the latest answer that it follows upon without a word of the user's between.
    """

    index: int
    uuid: str
    parent: str | None
    kind: _Kind
    content: object = None
    answer: "_Answer | None" = None
    above: "_Answer | None" = None
    root: str = ""
    said_by: str = "user"
    is_apart: bool = False


@dataclass(slots=True, eq=False)
class _Answer:
    """An answer of the model's: the lines with one message id.

    identity: the message's id and the request's.
    sent: the id of the `api-request` that it answers.
    """

    identity: tuple[str, str | None]
    conversation: str
    model: str | None
    when: datetime
    key: str
    sent: str | None
    entries: list[_Entry] = field(default_factory=list)
    usage: Usage | None = None
    is_fast: bool = False
    is_request: bool = True


class _Kept(NamedTuple):
    """What a compaction kept of the messages before it: they now follow upon the `anchor`."""

    boundary: int
    uuids: tuple[str, ...]


class _Sent(NamedTuple):
    """A request as it was sent: the first `keep` messages of the `base`, then a `tail`."""

    base: str | None
    keep: int
    tail: tuple[str, ...]


@dataclass(slots=True)
class _Log:
    """A file, read.

    children: what hangs on an entry and may belong to the same turn, by its uuid.
    replaced: what stands in the place of a result from a line on: (line, its call's id, text).
    dropped: attachments that are gone from a line on.
    titles: by the kind of entry that has them.
    unheard: attachments of kinds that are not known, and of which it is not said what they became.
    renders: whether that is said of others: then these became nothing.
    """

    entries: dict[str, _Entry] = field(default_factory=dict)
    children: dict[str, list[_Entry]] = field(default_factory=dict)
    answers: list[_Answer] = field(default_factory=list)
    kept: dict[str, _Kept] = field(default_factory=dict)
    replaced: list[tuple[int, str, str]] = field(default_factory=list)
    dropped: list[tuple[int, str]] = field(default_factory=list)
    sent: dict[str, _Sent] = field(default_factory=dict)
    blobs: dict[str, Entry] = field(default_factory=dict)
    titles: dict[str, str] = field(default_factory=dict)
    project: str | None = None
    unread: set[str] = field(default_factory=set)
    unheard: set[str] = field(default_factory=set)
    renders: bool = False


# Finding


def _is_log(path: Path) -> bool:
    """Whether a file begins as a log does: quotes in a text are escaped.

    qwen-code's sub-agents log lines with the same keys, and `parts` in their messages.
    """
    with suppress(OSError), open_log(path) as file:
        left = _SIGN_BYTES
        while left > 0 and (line := file.readline(left)):
            if line.startswith(b"{") and all(sign in line for sign in _SIGNS):
                with suppress(ValueError):
                    return "parts" not in take_object(decode(line).get("message"))
            left -= len(line)
    return False


def _read_key(entry: Entry) -> AnswerKey | None:
    """Return an answer of a file, if a line is a block of one.

    A session that is resumed elsewhere or forked, and an agent that begins with its parent's
    conversation, begin with copies of its lines: they have the ids and times of the originals.
    The original is in the file whose session asked for it, if that is said.
    """
    if entry.get("type") != "assistant":
        return None
    is_foreign = entry.get("requestSessionId") not in (None, entry.get("sessionId"))
    is_foreign |= "forkedFrom" in entry
    return AnswerKey(_key(entry), (is_foreign, bool(entry.get("isSidechain"))))


def _key(entry: Entry) -> str:
    """Return what is the same in all copies of an answer's line.

    The time is part of it, because there are gateways whose ids begin anew in each session.
    """
    name = take_text(take_object(entry.get("message")).get("id")) or take_text(entry.get("uuid"))
    return f"{name} {take_text(entry.get('timestamp'))}"


# Reading a file


def _read(log: LogFile) -> Iterator[LoggedConversation]:
    parsed = _parse(log.path, log.changed)
    by_conversation: dict[str, list[_Answer]] = {}
    for answer in parsed.answers:
        if answer.is_request:
            by_conversation.setdefault(answer.conversation, []).append(answer)
    title = next(
        (
            parsed.titles[kind]
            for kind in ("custom-title", "ai-title", "summary", "")
            if kind in parsed.titles
        ),
        log.path.stem,
    )
    for name, answers in by_conversation.items():
        described = _read_description(log.path) if name else title
        first = answers[0]
        yield LoggedConversation(
            name=described or name,
            project=parsed.project,
            host=_find_host(first),
            wire=MESSAGES,
            requests=partial(_yield_requests, parsed, answers),
            path=_PATH,
            is_side=bool(name),
            unread=frozenset(parsed.unread),
        )


def _yield_requests(log: _Log, answers: Sequence[_Answer]) -> Iterator[LoggedRequest]:
    prompts, seen = _Prompts(log), set[str]()
    for answer in answers:
        if answer.key in seen:
            continue
        seen.add(answer.key)
        yield LoggedRequest(
            items=prompts.rebuild(answer),
            when=answer.when,
            model=answer.model,
            usage=answer.usage,
            key=answer.key,
            tier="fast" if answer.is_fast else None,
        )


def _find_host(answer: _Answer) -> str | None:
    """Return who answered, as far as its ids tell; None for other makers' models."""
    if not (answer.model or "").startswith("claude"):
        return None
    name = answer.identity[0]
    return next((host for begin, host in _SELLERS if name.startswith(begin)), None)


def _read_description(path: Path) -> str:
    """Return what a sub-agent was started for, which stands in a small file beside its log."""
    with suppress(OSError, ValueError):
        return take_text(decode(read_bounded(path.with_suffix(".meta.json"))).get("description"))
    return ""


def _parse(path: Path, changed: datetime) -> _Log:
    """Read a file. Raises OSError if that fails; a line that is no JSON is skipped."""
    log = _Log()
    for index, entry in enumerate(read_lines(path, log.unread)):
        _take(log, index, entry, changed)
    log.unread |= set() if log.renders else log.unheard
    return log


def _take(log: _Log, index: int, entry: Entry, changed: datetime) -> None:
    """Enter a line into what is known of a file."""
    kind = take_text(entry.get("type"))
    uuid = take_text(entry.get("uuid"))
    if not uuid:
        _take_note(log, index, kind, entry)
        return
    if uuid in log.entries:
        return  # older versions wrote a resumed session's lines once more
    parent = take_text(entry.get("parentUuid")) or None
    node = _Entry(index, uuid, parent, "link")
    before = log.entries.get(parent or "")
    node.root = before.root if before is not None else uuid
    node.above = before.above if before is not None else None
    log.project = log.project or last_name(entry.get("cwd"))
    if take_text(entry.get("sessionId")):
        log.titles.setdefault("", take_text(entry.get("sessionId")))
    message = take_object(entry.get("message"))
    match kind:
        case "user" if not entry.get("isVirtual"):
            node.content = message.get("content")
            node.kind = "result" if _list_calls(node.content) else "user"
            if node.kind == "user":
                node.above = None
        case "assistant" if entry.get("isApiErrorMessage") is not True:
            node.kind, node.content = "assistant", message.get("content")
            _take_answer(log, node, entry, message, changed)
        case "attachment":
            _take_attachment(log, node, entry)
        case "system":
            _take_system(log, node, entry)
        case "user" | "assistant":
            pass
        case _:
            log.unread.add(kind)
    log.entries[uuid] = node
    if parent is not None and node.kind not in ("assistant", "user"):
        log.children.setdefault(parent, []).append(node)


def _take_note(log: _Log, index: int, kind: str, entry: Entry) -> None:
    """Enter a line that is no part of the tree."""
    match kind:
        case "custom-title" | "ai-title":
            title = entry.get("customTitle" if kind == "custom-title" else "aiTitle")
            if take_text(title):
                log.titles[kind] = take_text(title)
        case "summary":
            # Older versions wrote those of other sessions into a file, too.
            if take_text(entry.get("leafUuid")) in log.entries and take_text(entry.get("summary")):
                log.titles[kind] = take_text(entry.get("summary"))
        case "content-replacement":
            for each in take_objects(entry.get("replacements")):
                call, text = each.get("toolUseId"), each.get("replacement")
                if isinstance(call, str) and isinstance(text, str):
                    log.replaced.append((index, call, text))
                else:
                    log.unread.add(f"{kind} {take_text(each.get('kind'))}".strip())
        case "api-request-blob":
            log.blobs[take_text(entry.get("hash"))] = take_object(entry.get("message"))
        case "api-request":
            tail, keep = entry.get("tail"), entry.get("keep")
            if isinstance(tail, list) and isinstance(keep, int):
                base = take_text(entry.get("base")) or None
                log.sent[take_text(entry.get("id"))] = _Sent(
                    base, keep, tuple(map(take_text, tail))
                )
        case _:
            log.unread.add(kind or "line without a type")


def _take_answer(log: _Log, node: _Entry, entry: Entry, message: Entry, changed: datetime) -> None:
    """Enter a block of an answer, or begin one.

    Its lines repeat the usage. Where the first were written before the answer was complete, they
    have that of its beginning, with the whole prompt and few tokens of the answer; so the last one
    counts, which has either the same or more.
    """
    request = take_text(entry.get("requestId")) or take_text(entry.get("requestRef")) or None
    identity = take_text(message.get("id")) or node.uuid, request
    answer = node.above
    if answer is None or answer.identity != identity:
        # Lines of one request belong together even if their parents are missing.
        near = reversed(log.answers[-50:] if request else [])
        answer = next((each for each in near if each.identity == identity), None)
    if answer is None:
        model, is_side = take_text(message.get("model")) or None, entry.get("isSidechain") is True
        answer = _Answer(
            identity=identity,
            conversation=(take_text(entry.get("agentId")) or node.root) if is_side else "",
            model=model,
            when=read_time(entry.get("timestamp")) or changed,
            key=_key(entry),
            sent=take_text(entry.get("requestRef")) or None,
            is_request=model != "<synthetic>",
        )
        log.answers.append(answer)
    answer.entries.append(node)
    node.answer = node.above = answer
    answer.is_fast |= take_object(message.get("usage")).get("speed") == "fast"
    usage = find_usage({"usage": message.get("usage")})
    if usage is not None:
        answer.usage = usage if answer.usage is None else answer.usage.merge(usage)


def _take_attachment(log: _Log, node: _Entry, entry: Entry) -> None:
    """Enter an attachment with the contents that it becomes in the user's name."""
    attachment = take_object(entry.get("attachment"))
    kind = take_text(attachment.get("type"))
    rendered = entry.get("rendered")
    if isinstance(rendered, list):
        log.renders = True
        contents: list[object] = [
            each["content"] for each in take_objects(rendered) if "content" in each
        ]
        node.said_by = take_text(entry.get("renderedRole")) or "user"
        node.is_apart = entry.get("renderedBesideToolResult") is True
    else:
        contents = [*_render(kind, attachment)]
        if kind not in _TEXTS:
            log.unheard.add(f"attachment {kind}")
    node.kind, node.content = ("attachment", contents) if contents else ("link", None)


def _render(kind: str, attachment: Entry) -> Iterator[object]:
    """Yield what the model sees of an attachment, in logs that do not say it."""
    if kind == "file":
        # A file that a user names is sent as if the model had read it.
        file = take_object(take_object(attachment.get("content")).get("file"))
        name, text = attachment.get("filename"), take_text(file.get("content"))
        lines = text.split("\n") if text else []
        numbered = "\n".join(f"{number}\t{line}" for number, line in enumerate(lines, 1))
        yield _remind(
            f"Called the Read tool with the following input: {json.dumps({'file_path': name})}"
        )
        yield _remind(f"Result of calling the Read tool:\n{numbered}")
        return
    if kind == "hook_success" and attachment.get("hookEvent") not in _SPOKEN_HOOKS:
        return
    if kind == "queued_command" and isinstance(blocks := attachment.get("prompt"), list):
        yield blocks
        return
    keys = _TEXTS.get(kind, ())
    texts = [_flatten(attachment[key]) for key in keys if attachment.get(key)]
    if any(texts):
        yield _remind("\n".join(texts))


def _flatten(value: object) -> str:
    """Return a value as text: a text itself, a list of texts as lines, other things as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return "\n".join(map(str, value))
    content = take_object(value).get("content")
    if isinstance(content, str):
        return content
    return json.dumps(value, ensure_ascii=False)


def _remind(text: str) -> str:
    return f"{_REMINDER}{text}{_REMINDER_END}"


def _take_system(log: _Log, node: _Entry, entry: Entry) -> None:
    """Enter a line of Claude Code's own: what a user's command printed, and what it cleared."""
    match entry.get("subtype"):
        case "local_command":
            node.kind, node.content = "user", entry.get("content")
            node.above = None
        case "compact_boundary":
            about = take_object(entry.get("compactMetadata"))
            messages, segment = (
                take_object(about.get(key)) for key in ("preservedMessages", "preservedSegment")
            )
            uuids = messages.get("allUuids") or messages.get("uuids")
            names = (
                [*map(take_text, uuids)] if isinstance(uuids, list) else _list_segment(log, segment)
            )
            anchor = take_text(messages.get("anchorUuid")) or take_text(segment.get("anchorUuid"))
            if anchor and names:
                log.kept[anchor] = _Kept(node.index, tuple(names))
        case "microcompact_boundary":
            about = take_object(entry.get("microcompactMetadata")) or take_object(
                entry.get("compactMetadata")
            )
            for call in _list(about.get("compactedToolIds")):
                log.replaced.append((node.index, take_text(call), _CLEARED))
            for uuid in _list(about.get("clearedAttachmentUUIDs")):
                log.dropped.append((node.index, take_text(uuid)))


def _list_segment(log: _Log, segment: Entry) -> list[str]:
    """Return the uuids from the head to the tail of what a compaction kept; [] if it is torn."""
    head, at = take_text(segment.get("headUuid")), take_text(segment.get("tailUuid"))
    names: list[str] = []
    while at and at in log.entries and len(names) <= len(log.entries):
        names.append(at)
        if at == head:
            return names[::-1]
        at = log.entries[at].parent or ""
    return []


# Rebuilding what was sent

_REMINDER, _REMINDER_END = "<system-reminder>\n", "\n</system-reminder>"

_Item = Mapping[str, object]


@dataclass(slots=True)
class _Turn:
    """An answer and what followed upon it, up to the place `end` of the chain."""

    answer: _Answer | None
    end: int
    items: list[_Item]


class _Prompts:
    """Rebuilds the list that was sent with each request of a conversation, one after the other.

    It keeps the chain of entries of the latest request, and the messages made of it. The next
    request mostly adds to its end; after a rewind it shares a beginning with it.
    """

    def __init__(self, log: _Log) -> None:
        self._log = log
        self._chain: list[_Entry] = []
        self._places: dict[str, int] = {}
        self._turns: list[_Turn] = []
        self._items: list[_Item] = []
        self._made: dict[object, list[_Item]] = {}
        self._sent: tuple[str, list[_Item]] = "", []
        self._style = False, False
        self._replaced: dict[str, str] = {}
        self._dropped: set[str] = set()
        self._own: dict[str, _Item] = {}
        self._hashed = 0

    def rebuild(self, answer: _Answer) -> Sequence[_Item]:
        """Return the messages that an answer answers."""
        first = answer.entries[0]
        model = answer.model or ""
        style = not _NO_SYSTEM_MESSAGES.match(model), bool(_KEEPS_TAGS.match(model))
        if self._apply_changes(first.index) or style != self._style:
            self._turns.clear()
            self._items.clear()
            self._hashed = 0
        self._style = style
        keep = self._climb(self._log.entries.get(first.parent or ""))
        self._merge(keep, first.index)
        sent = self._take_sent(answer.sent) if answer.sent in self._log.sent else None
        return list(self._items) if sent is None else sent

    def _take_sent(self, name: str) -> list[_Item] | None:
        """Return a request as the log has it; None if a part of it is missing.

        Messages are named by the SHA-256 of their JSON with sorted keys; those that Claude Code
        finds in the conversation again are not logged, so they are looked for among ours.
        """
        for item in self._items[self._hashed :]:
            data = orjson.dumps(item, option=orjson.OPT_SORT_KEYS)
            self._own[sha256(data).hexdigest()] = item
        self._hashed = len(self._items)
        wanted: list[str] = []
        at: str | None = name
        while at is not None and at != self._sent[0]:
            sent = self._log.sent.get(at)
            if sent is None or len(wanted) > len(self._log.sent):
                return None
            wanted.append(at)
            at = sent.base if sent.keep else None
        items = self._sent[1] if at is not None else []
        for each in reversed(wanted):
            _, keep, tail = self._log.sent[each]
            parts = [self._own.get(part) or self._log.blobs.get(part) for part in tail]
            whole = [part for part in parts if part]
            if len(whole) < len(tail) or keep > len(items):
                return None
            items = [*items[:keep], *whole]
        self._sent = name, items
        return list(items)

    def _apply_changes(self, line: int) -> bool:
        """Note what was cleared before a line; whether that was anything new."""
        changes = len(self._replaced) + len(self._dropped)
        self._replaced = {call: text for at, call, text in self._log.replaced if at < line}
        self._dropped = {uuid for at, uuid in self._log.dropped if at < line}
        return len(self._replaced) + len(self._dropped) != changes

    def _climb(self, leaf: _Entry | None) -> int:
        """Make the chain the one from the root to a leaf; return how much of it is as before.

        What a compaction kept of the messages before it stands behind the entry that it names.
        """
        entries, path, keep, at = self._log.entries, list[_Entry](), 0, leaf
        while at is not None and len(path) <= len(entries):
            place = self._places.get(at.uuid)
            if place is not None:
                keep = place + 1
                break
            path.append(at)
            kept = self._log.kept.get(at.parent or "")
            if kept is not None and at.index > kept.boundary and at.uuid not in kept.uuids:
                path += [entries[uuid] for uuid in reversed(kept.uuids) if uuid in entries]
            at = entries.get(at.parent or "")
        for each in self._chain[keep:]:
            self._places.pop(each.uuid, None)
        del self._chain[keep:]
        path.reverse()
        for place, each in enumerate(path, keep):
            self._places[each.uuid] = place
        self._chain += path
        return keep

    def _merge(self, keep: int, line: int) -> None:
        """Make messages of the chain, from where it is another one than before."""
        chain, size = self._chain, len(self._chain)
        while self._turns:
            turn = self._turns[-1]
            goes_on = turn.end < size and chain[turn.end].answer in (None, turn.answer)
            if turn.end <= keep and not goes_on:
                break
            self._turns.pop()
            del self._items[len(self._items) - len(turn.items) :]
            self._hashed = min(self._hashed, len(self._items))
        begin = self._turns[-1].end if self._turns else 0
        while begin < size:
            answer, end = chain[begin].answer, begin + 1
            while end < size and chain[end].answer in (None, answer):
                end += 1
            turn = _Turn(answer, end, self._make(answer, chain[begin:end], line))
            self._turns.append(turn)
            self._items += turn.items
            begin = end

    def _make(self, answer: _Answer | None, entries: Sequence[_Entry], line: int) -> list[_Item]:
        """Return the messages of a turn: the answer, and what the user's side says to it."""
        blocks = [each for each in answer.entries if each.index < line] if answer else []
        said = [each for each in entries if each.kind in ("user", "result", "attachment")]
        known = {each.uuid for each in entries}
        for other in self._find_siblings(blocks, known, line):
            later = (at for at, each in enumerate(said) if each.index > other.index)
            said.insert(next(later, len(said)), other)
        said = [each for each in said if each.uuid not in self._dropped]
        changes = tuple(
            (call, self._replaced[call])
            for each in said
            if self._replaced and each.kind == "result"
            for call in _list_calls(each.content)
            if call in self._replaced
        )
        # The same parts give the very same messages, whichever branch they are met on.
        parts = tuple(each.index for each in (*blocks, *said))
        key = parts, self._style, changes
        if key not in self._made:
            items: list[_Item] = []
            if blocks:
                content = [part for each in blocks for part in _list_parts(each.content)]
                items.append({"role": "assistant", "content": content})
            self._made[key] = items + _merge_said(said, dict(changes), *self._style)
        return self._made[key]

    def _find_siblings(
        self, blocks: Sequence[_Entry], known: set[str], line: int
    ) -> Iterator[_Entry]:
        """Yield the results of parallel calls that the climb has passed by, and their reminders."""
        open_ends = [each.uuid for each in blocks]
        while open_ends:
            for each in self._log.children.get(open_ends.pop(), ()):
                is_passed = each.uuid not in known and each.index < line
                if is_passed and (each.kind != "attachment" or each.parent not in known):
                    open_ends.append(each.uuid)
                    if each.kind != "link":
                        yield each


def _merge_said(
    said: Sequence[_Entry], replaced: Mapping[str, str], has_system: bool, keeps_tags: bool
) -> list[_Item]:
    """Return what stands between two answers as Claude Code sends it.

    Reminders go before what the user says, behind the results of tools. All becomes one message,
    results first; a reminder is added to the last result, if there is one. Two messages stay apart
    if they come of one attachment that directly follows an answer. Where the model takes system
    messages, reminders are one of them, without their tags.
    """
    ordered: list[_Entry] = []
    pending: list[_Entry] = []
    for each in reversed(said):
        if each.kind == "attachment":
            pending.append(each)
            continue
        if each.kind == "result":
            ordered += pending
            pending.clear()
        ordered.append(each)
    ordered += pending
    messages: list[object] = []
    system: list[str] = []
    for each in reversed(ordered):
        if each.kind != "attachment":
            content = _replace(each.content, replaced) if replaced else each.content
            messages[-1:] = [_join(messages[-1], content) if messages else content]
            continue
        contents = _list(each.content)
        if each.said_by == "system" and has_system:
            system += [text for text in contents if isinstance(text, str)]
        elif not messages:
            messages += contents
        else:
            for content in contents:
                messages[-1] = _add(messages[-1], content, each.is_apart)
    items: list[_Item] = [{"role": "user", "content": content} for content in messages]
    if system:
        texts = system if keeps_tags else map(_strip_tags, system)
        items.append({"role": "system", "content": "\n\n".join(texts)})
    return items


def _join(content: object, later: object) -> list[object]:
    """Return two things that a user says as one, results first, with a line's end between texts."""
    parts, others = _list_parts(content), _list_parts(later)
    if parts and others and _type(parts[-1]) == _type(others[0]) == "text":
        parts[-1] = _end_line(parts[-1])
    both = parts + others
    results = [part for part in both if _type(part) == "tool_result"]
    return results + [part for part in both if _type(part) != "tool_result"]


def _add(content: object, reminder: object, is_apart: bool) -> list[object]:
    """Return what a user says with a reminder: within the last result, if that can take a text."""
    parts = _list_parts(content)
    place = next(
        (at for at in range(len(parts) - 1, -1, -1) if _type(parts[at]) == "tool_result"), None
    )
    if place is None or is_apart or not isinstance(reminder, str):
        return parts + _list_parts(reminder)
    result = take_object(parts[place])
    inner = result.get("content")
    if isinstance(inner, str) or inner is None:
        text = "\n\n".join(part for part in ((inner or "").strip(), reminder) if part)
        parts[place] = {**result, "content": text}
        return parts
    within = _list(inner)
    if any(_type(part) == "tool_reference" for part in within):
        return parts + _list_parts(reminder)
    if within and _type(within[-1]) == "text":
        within[-1] = _end_line(within[-1])
    within.append({"type": "text", "text": reminder})
    parts[place] = {**result, "content": within}
    return parts


def _end_line(part: object) -> Entry:
    """Return a text with the end of a line, which Claude Code puts between two texts."""
    return {**take_object(part), "text": f"{take_text(take_object(part).get('text'))}\n"}


def _replace(content: object, replaced: Mapping[str, str]) -> object:
    """Return content with other texts in the place of some results."""
    return [
        {**take_object(part), "content": replaced[call]}
        if _type(part) == "tool_result"
        and (call := take_text(take_object(part).get("tool_use_id"))) in replaced
        else part
        for part in _list_parts(content)
    ]


def _strip_tags(text: str) -> str:
    return text.removeprefix(_REMINDER).removesuffix(_REMINDER_END)


def _list_calls(content: object) -> list[str]:
    """Return the ids of the calls whose results are in a content."""
    parts = take_objects(content)
    return [
        take_text(part.get("tool_use_id")) for part in parts if part.get("type") == "tool_result"
    ]


def _list_parts(content: object) -> list[object]:
    """Return a content as a new list of its parts."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else _list(content)


def _type(part: object) -> object:
    return part.get("type") if isinstance(part, dict) else None


def _list(value: object) -> list[object]:
    return list(value) if isinstance(value, list) else []


CLAUDE_CODE = LogKind(
    "claude-code", _read, (_SUFFIX,), _is_log, list_keys=list_keys(b'"assistant"', _read_key)
)
"""How Claude Code keeps its logs."""

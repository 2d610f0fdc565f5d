"""pi: `~/.pi/agent/sessions/--PATH--/*.jsonl`.

A line is an entry, and entries form a tree by `parentId`: a session that went back to an earlier
entry has several branches. A compaction sends its summary and the entries from `firstKeptEntryId`
on. The format is told in docs/session-format.md in @mariozechner/pi-coding-agent; what is sent, in
providers/ in @mariozechner/pi-ai. pi logs no request for a summary.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from addon.replay.logs.entries import (
    Entry,
    begins,
    decode,
    last_name,
    read_lines,
    read_time,
    take_count,
    take_object,
    take_objects,
    take_text,
    walk,
)
from addon.replay.logs.log import AnswerKey, LogFile, LoggedConversation, LoggedRequest, LogKind
from addon.replay.logs.turns import (
    PATHS,
    PROVIDERS,
    UNKNOWN,
    Call,
    Media,
    Provider,
    Result,
    Text,
    Thought,
    Turn,
    TurnWriter,
)
from masking.wire import CHAT, GEMINI, MESSAGES, RESPONSES, Usage

_SIGN = re.compile(rb'\A\s*\{"type"\s*:\s*"session"\s*,(?=[^\n]*"cwd"\s*:)')

_IN_PROMPT = frozenset(("message", "custom_message", "branch_summary", "compaction"))
_NOT_SENT = frozenset(
    (
        *("session", "thinking_level_change", "model_change", "custom", "label", "session_info"),
        *("mode_change", "ttsr_injection"),
    )
)

_WIRES = (
    ("anthropic", MESSAGES),
    ("responses", RESPONSES),
    ("google", GEMINI),
    ("bedrock", MESSAGES),
)
"""The formats by what pi calls its APIs; all others are Chat Completions."""

_COMPACTED = (
    "The conversation history before this point was compacted into the following summary:\n\n"
    "<summary>\n{}\n</summary>"
)
_BRANCHED = (
    "The following is a summary of a branch that this conversation came back from:\n\n"
    "<summary>\n{}</summary>"
)
_NO_RESULT = "No result provided"


def _load(path: Path) -> tuple[list[Entry], set[str]]:
    """Return the entries of a log, and what of it is broken. Raises OSError."""
    unread = set[str]()
    entries = [*read_lines(path, unread)]
    if not any("id" in entry for entry in entries if entry.get("type") == "message"):
        entries = [*_number(entries)]
    return entries, unread


def _list_keys(log: LogFile) -> Iterator[AnswerKey]:
    """Yield the answers of a session.

    One that was forked begins with copies of another's entries: they are older than itself.
    """
    try:
        entries, _ = _load(log.path)
    except OSError:
        return
    about = _find_about(entries)
    forked = about.get("parentSession") or about.get("branchedFrom")
    began = read_time(about.get("timestamp")) if forked else None
    for entry in entries:
        if "id" in entry and _take_answer(entry) is not None:
            written = read_time(entry.get("timestamp"))
            is_copy = began is not None and written is not None and written < began
            yield AnswerKey(_write_key(entry), (is_copy,))


def _write_key(entry: Entry) -> str:
    """Return what an entry and its copies in forks have in common, and no others."""
    return f"{entry['id']} {entry.get('timestamp')}"


def _find_about(entries: Sequence[Entry]) -> Entry:
    return next((entry for entry in entries if entry.get("type") == "session"), {})


def _read(log: LogFile) -> Iterator[LoggedConversation]:
    """Yield a conversation for each provider that a session speaks to."""
    entries, unread = _load(log.path)
    about = _find_about(entries)
    kinds = {str(entry.get("type")) for entry in entries}
    unread |= kinds - _IN_PROMPT - _NOT_SENT
    names = [
        take_text(entry.get("name")) for entry in entries if entry.get("type") == "session_info"
    ]
    providers = {_find_provider(message): None for message in map(_take_answer, entries) if message}
    for provider in providers:
        yield LoggedConversation(
            name=next((name for name in reversed(names) if name), log.path.stem),
            project=last_name(about.get("cwd")),
            host=provider.host,
            wire=provider.wire,
            requests=partial(_find_requests, entries, provider),
            path=PATHS[provider.wire],
            unread=frozenset(unread),
        )


def _number(entries: Sequence[Entry]) -> Iterator[Entry]:
    """Yield the entries of a log of 2025, which had no ids, as later versions write them."""
    for at, entry in enumerate(entries):
        if entry.get("type") == "session":
            yield entry
            continue
        more: dict[str, object] = {"id": at, "parentId": at - 1 if at > 1 else None}
        if "firstKeptEntryIndex" in entry:
            more["firstKeptEntryId"] = entry["firstKeptEntryIndex"]
        yield {**entry, **more}


def _take_answer(entry: Entry) -> Entry | None:
    """Return the message of an entry if the model said it."""
    message = take_object(entry.get("message"))
    is_answer = entry.get("type") == "message" and message.get("role") == "assistant"
    return message if is_answer and _read_usage(message) else None


def _find_provider(message: Entry) -> Provider:
    api, name = take_text(message.get("api")), take_text(message.get("provider"))
    wire = next((wire for sign, wire in _WIRES if sign in api), None)
    known = PROVIDERS.get(name, UNKNOWN)
    return known._replace(wire=wire or CHAT) if api else known


def _find_requests(entries: Sequence[Entry], provider: Provider) -> Iterator[LoggedRequest]:
    """Yield a request for each answer of a provider, with what stands before it on its branch."""
    made: dict[object, Sequence[Turn]] = {}
    writer = TurnWriter(provider.wire)
    branch: Sequence[Entry] = ()
    sent, taken = _Sent((), made), 0
    for entry, path in walk((each for each in entries if "id" in each), "id", "parentId"):
        message = _take_answer(entry)
        if message is None or _find_provider(message) != provider:
            continue
        model = _find_model(message)
        if path is not branch or model != sent.model:
            sent, branch, taken = _Sent(model, made), path, 0
        for at in range(taken, len(path)):
            if path[at].get("type") == "compaction":
                sent = _Sent(model, made)
                sent.add(path[at])
                for each in _find_kept(path, at):
                    sent.add(each)
            else:
                sent.add(path[at])
        taken = len(path)
        yield LoggedRequest(
            items=writer.write(sent.turns),
            # pi notes of an answer when it began to come, or when it asked
            when=sent.when or _find_time(entry) or datetime.fromtimestamp(0, UTC),
            model=take_text(message.get("model")) or None,
            usage=_read_usage(message),
            key=_write_key(entry),
        )


def _find_model(message: Entry) -> tuple[object, ...]:
    return tuple(message.get(name) for name in ("provider", "api", "model"))


def _find_time(entry: Entry) -> datetime | None:
    """Return when an entry was written that is sent; that is after an answer has come."""
    return read_time(entry.get("timestamp")) if entry.get("type") in _IN_PROMPT else None


def _find_kept(path: Sequence[Entry], at: int) -> Sequence[Entry]:
    """Return what a compaction at a place of a branch kept of what was before it."""
    kept = path[at].get("firstKeptEntryId")
    first = next((i for i, entry in enumerate(path[:at]) if entry.get("id") == kept), at)
    return path[first:at]


class _Sent:
    """What a branch sends to a model, as it grows; `when` is the time of its latest entry.

    made: the turns of each entry, by its id and whether the model said it.
    """

    def __init__(self, model: tuple[object, ...], made: dict[object, Sequence[Turn]]) -> None:
        self.model, self._made = model, made
        self.turns: list[Turn] = []
        self.when: datetime | None = None
        self._open_calls: dict[str, Call] = {}

    def add(self, entry: Entry) -> None:
        """Add the turns of an entry. A call without a result gets one before what comes next."""
        if (when := _find_time(entry)) is not None:
            self.when = when if self.when is None else max(self.when, when)
        made, open_calls = self._made, self._open_calls
        message = take_object(entry.get("message"))
        is_own = _find_model(message) == self.model
        key = entry.get("id"), is_own
        if key not in made:
            made[key] = [*_read_entry(entry, message, is_own)]
        for turn in made[key]:
            if turn.role != "tool" and open_calls:
                lost = "lost", *open_calls
                if lost not in made:
                    made[lost] = [
                        Turn("tool", [Result(call.id, call.name, _NO_RESULT, is_error=True)])
                        for call in open_calls.values()
                    ]
                self.turns += made[lost]
                open_calls.clear()
            for part in turn.parts:
                if isinstance(part, Call):
                    open_calls[part.id] = part
                elif isinstance(part, Result):
                    open_calls.pop(part.id, None)
            self.turns.append(turn)


def _read_entry(entry: Entry, message: Entry, is_own: bool) -> Iterator[Turn]:
    """Yield the turn of an entry, if it is sent."""
    kind, role = entry.get("type"), message.get("role")
    if kind == "compaction":
        yield Turn("user", [Text(_COMPACTED.format(take_text(entry.get("summary"))))])
    elif kind == "branch_summary" and entry.get("summary"):
        yield Turn("user", [Text(_BRANCHED.format(take_text(entry.get("summary"))))])
    elif kind == "custom_message":
        yield Turn("user", _read_content(entry.get("content")))
    elif role == "user":
        yield Turn("user", _read_content(message.get("content")))
    elif role == "bashExecution" and not message.get("excludeFromContext"):
        yield Turn("user", [Text(_tell_command(message))])
    elif role == "assistant" and message.get("stopReason") not in ("error", "aborted"):
        said = [
            part
            for block in take_objects(message.get("content"))
            if (part := _read_block(block, is_own)) is not None
        ]
        if said:
            yield Turn("assistant", said)
    elif role == "toolResult":
        content = _read_content(message.get("content"))
        media = [part for part in content if isinstance(part, Media)]
        text = "\n".join(part.text for part in content if isinstance(part, Text))
        yield Turn(
            "tool",
            [
                Result(
                    _take_id(message.get("toolCallId")),
                    take_text(message.get("toolName")),
                    text or ("(see attached image)" if media else ""),
                    is_error=message.get("isError") is True,
                    media=media,
                )
            ],
        )


def _read_content(content: object) -> list[Text | Media]:
    if isinstance(content, str):
        return [Text(content)]
    said: list[Text | Media] = []
    for block in take_objects(content):
        if block.get("type") == "image":
            said.append(Media(take_text(block.get("mimeType")), take_text(block.get("data"))))
        elif isinstance(text := block.get("text"), str):
            said.append(Text(text))
    return said


def _read_block(block: Entry, is_own: bool) -> Text | Thought | Call | None:
    """Return a part of an answer; another model gets reasoning as text."""
    kind = block.get("type")
    if kind == "text":
        return Text(take_text(block.get("text")))
    if kind == "toolCall":
        signature = take_text(block.get("thoughtSignature")) if is_own else ""
        name, asked = take_text(block.get("name")), block.get("arguments") or {}
        return Call(_take_id(block.get("id")), name, asked, signature or None)
    if kind != "thinking":
        return None
    text, signature = take_text(block.get("thinking")), take_text(block.get("thinkingSignature"))
    is_redacted = block.get("redacted") is True
    if not is_own:
        return Text(text) if text.strip() and not is_redacted else None
    if signature.startswith("{"):  # an item of Responses
        try:
            item = decode(signature)
        except ValueError:
            item = {}
        signature = take_text(item.get("encrypted_content"))
        text = "".join(take_text(each.get("text")) for each in take_objects(item.get("summary")))
    return Thought(text, signature or None, None, is_redacted) if signature or text else None


def _take_id(name: object) -> str:
    """Return the id of a call as the provider gave it: pi puts another behind it."""
    return take_text(name).partition("|")[0]


def _tell_command(message: Entry) -> str:
    """Return what the model is told of a command that the user ran."""
    output, code = take_text(message.get("output")), message.get("exitCode")
    text = f"Ran `{message.get('command')}`\n" + (
        f"```\n{output}\n```" if output else "(no output)"
    )
    if message.get("cancelled"):
        text += "\n\n(command cancelled)"
    elif code:
        text += f"\n\nCommand exited with code {code}"
    if message.get("truncated") and message.get("fullOutputPath"):
        text += f"\n\n[Output truncated. Full output: {message['fullOutputPath']}]"
    return text


def _read_usage(message: Entry) -> Usage | None:
    usage = take_object(message.get("usage"))
    cached, written = take_count(usage.get("cacheRead")), take_count(usage.get("cacheWrite"))
    prompt = take_count(usage.get("input")) + cached + written
    if not prompt:
        return None
    return Usage(
        prompt=prompt,
        cached=cached,
        written=written,
        completion=take_count(usage.get("output")),
    ).settle(take_count(usage.get("totalTokens")) or None)


PI = LogKind("pi", _read, (".jsonl",), begins(_SIGN), list_keys=_list_keys)
"""The logs of pi."""

"""qwen-code: `~/.qwen/projects/PROJECT/chats/*.jsonl`, since the end of 2025.

A line is a record: what the user said, an answer with its usage, or the results of its calls, as
contents of Gemini's API, although qwen-code mostly sends Chat Completions. Records form a tree by
`parentUuid`. A compression holds all contents as they are sent from then on. What qwen-code writes
is in packages/core/src/services/chatRecordingService.ts in github.com/QwenLM/qwen-code. It logs no
request for a summary, and not the reminders that it puts before what the user said.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import partial

from addon.replay.logs.entries import (
    Entry,
    begins,
    last_name,
    list_keys,
    read_lines,
    read_time,
    take_count,
    take_object,
    take_objects,
    take_text,
    walk,
)
from addon.replay.logs.log import AnswerKey, LogFile, LoggedConversation, LoggedRequest, LogKind
from addon.replay.logs.turns import PATHS, Call, Media, Result, Text, Thought, Turn, TurnWriter
from masking.wire import CHAT, Usage

_SIGN = re.compile(
    rb'(?=.*"parentUuid")(?=.*"sessionId")(?=.*(?:"parts":|"systemPayload"))', re.DOTALL
)
"""Claude Code's records have the first two as well, and neither of the others."""

_KINDS = frozenset(("user", "assistant", "tool_result", "system"))


def _read(log: LogFile) -> Iterator[LoggedConversation]:
    """Yield the conversation of a log, and those of its sub-agents."""
    by_agent: dict[str, list[Entry]] = {}
    unread = set[str]()
    title, project = "", None
    for record in read_lines(log.path, unread):
        if record.get("type") not in _KINDS:
            unread.add(str(record.get("type")))
            continue
        payload = take_object(record.get("systemPayload"))
        title = take_text(payload.get("customTitle")) or title
        project = project or last_name(record.get("cwd"))
        by_agent.setdefault(take_text(record.get("agentId")), []).append(record)
    for agent, records in by_agent.items():
        yield LoggedConversation(
            name=(title or log.path.stem) + (f", {agent}" if agent else ""),
            project=project,
            host=None,  # it is in the settings
            wire=CHAT,
            requests=partial(_find_requests, records),
            path=PATHS[CHAT],
            is_side=bool(agent) or any(record.get("isSidechain") for record in records),
            unread=frozenset(unread),
        )


def _read_key(record: Entry) -> AnswerKey | None:
    """Return an answer of a session; one that was branched off begins with another's records."""
    key = _write_key(record) if record.get("type") == "assistant" else None
    return None if key is None else AnswerKey(key, ("forkedFrom" in record,))


def _write_key(record: Entry) -> str | None:
    """Return what a record and its copies have in common, and no others; None without an id."""
    original = take_object(record.get("forkedFrom")).get("messageUuid")
    return take_text(original) or take_text(record.get("uuid")) or None


def _find_requests(records: Sequence[Entry]) -> Iterator[LoggedRequest]:
    """Yield a request for each answer, with what was said on its branch before."""
    writer = TurnWriter(CHAT)
    made: dict[object, Sequence[Turn]] = {}
    turns: list[Turn] = []
    branch: Sequence[Entry] = ()
    taken = 0
    when = datetime.fromtimestamp(0, UTC)
    for record, path in walk(records, "uuid", "parentUuid"):
        if path is not branch:
            turns, branch, taken = [], path, 0
        for each in path[taken:]:
            _append(turns, each, made)
        taken = len(path)
        if record.get("type") == "assistant":
            yield LoggedRequest(
                items=writer.write(turns),
                when=when,
                model=take_text(record.get("model")) or None,
                usage=_read_usage(record),
                key=_write_key(record),
            )
        elif record.get("type") in ("user", "tool_result"):
            when = read_time(record.get("timestamp")) or when


def _append(turns: list[Turn], record: Entry, made: dict[object, Sequence[Turn]]) -> None:
    """Add what a record says; a compression takes the place of all before it."""
    key = record.get("uuid")
    if record.get("type") == "system":
        contents = take_object(record.get("systemPayload")).get("compressedHistory")
        if record.get("subtype") != "chat_compression" or not isinstance(contents, list):
            return
        turns.clear()
    else:
        contents = [record.get("message")]
    if key not in made:
        made[key] = [turn for each in take_objects(contents) for turn in _read_content(each)]
    own = made[key]
    if turns and own and turns[-1].role == own[0].role == "user":  # it is sent as one
        both = turns.pop(), own[0]
        if both not in made:
            made[both] = [Turn("user", [part for turn in both for part in turn.parts])]
        own = [*made[both], *own[1:]]
    turns += own


def _read_content(content: Entry) -> Iterator[Turn]:
    """Yield the turns of one of Gemini's contents."""
    said: list[Text | Media | Thought | Call] = []
    results: list[Result] = []
    for part in take_objects(content.get("parts")):
        call, result = take_object(part.get("functionCall")), part.get("functionResponse")
        text, inline = take_text(part.get("text")), take_object(part.get("inlineData"))
        if isinstance(result, dict):
            results.append(_read_result(result))
        elif call:
            name, asked = take_text(call.get("name")), call.get("args") or {}
            said.append(Call(take_text(call.get("id")), name, asked))
        elif inline:
            said.append(Media(take_text(inline.get("mimeType")), take_text(inline.get("data"))))
        elif text:
            said.append(Thought(text) if part.get("thought") else Text(text))
    if results:
        yield Turn("tool", results)
    if said:
        yield Turn("assistant" if content.get("role") == "model" else "user", said)


def _read_result(result: Entry) -> Result:
    response = take_object(result.get("response"))
    output = response.get("output", response.get("error"))
    inline = (take_object(part.get("inlineData")) for part in take_objects(result.get("parts")))
    return Result(
        take_text(result.get("id")),
        take_text(result.get("name")),
        take_text(output),
        is_error="error" in response,
        media=[
            Media(take_text(each.get("mimeType")), take_text(each.get("data")))
            for each in inline
            if each
        ],
    )


def _read_usage(record: Entry) -> Usage | None:
    """Return what the provider reported; qwen-code counts the reasoning among the answer."""
    usage = take_object(record.get("usageMetadata"))
    prompt, thoughts = (
        take_count(usage.get(name)) for name in ("promptTokenCount", "thoughtsTokenCount")
    )
    if not prompt:
        return None
    return Usage(
        prompt=prompt,
        cached=take_count(usage.get("cachedContentTokenCount")),
        completion=take_count(usage.get("candidatesTokenCount")),
        reasoning=thoughts,
    ).settle(take_count(usage.get("totalTokenCount")) or None)


QWEN_CODE = LogKind(
    "qwen-code", _read, (".jsonl",), begins(_SIGN), list_keys=list_keys(b'"assistant"', _read_key)
)
"""The logs of qwen-code."""

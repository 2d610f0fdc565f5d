"""OpenHands: `~/.openhands/conversations/ID`, with `base_state.json` and the events in `events`.

An action has the call as the model wrote it, and the id of the answer that it was part of; so each
id was a request, and `base_state.json` has its usage. A condensation names the events that are sent
no longer, and the summary that is sent in their place; its own request, and others that are beside
the conversation, are a conversation here without elements, for their cost. What is sent of events
is in openhands-sdk/openhands/sdk/event of github.com/OpenHands/software-agent-sdk.

The trajectories of versions before 1 are not read.
"""

import os
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from pathlib import Path

from addon.replay.disk import is_inside, read_bounded
from addon.replay.logs.entries import (
    BROKEN,
    Entry,
    follow,
    last_name,
    read_document,
    read_time,
    take_count,
    take_object,
    take_objects,
    take_text,
    try_decode,
)
from addon.replay.logs.litellm import find_host, find_model
from addon.replay.logs.log import LogFile, LoggedConversation, LoggedRequest, LogKind
from masking.wire import CHAT, RESPONSES, Usage

_AGENT = "openhands"

_STATE = "base_state.json"
_EVENTS = "events"
_CONDENSER = "condenser"
_SUMMARY = "CondensationSummaryEvent"

_RESULTS = frozenset(("ObservationEvent", "UserRejectObservation", "AgentErrorEvent"))
_OF_NO_PROMPT = frozenset(
    (
        "CondensationRequest",
        "ConversationErrorEvent",
        "ConversationStateUpdateEvent",
        "HookExecutionEvent",
        "InterruptEvent",
        "LLMCompletionLogEvent",
        "PauseEvent",
        "StreamingDeltaEvent",
        "TokenEvent",
    )
)
"""Kinds of events that no model sees."""

_NAMES = ("kind", "id", "parent_id", "tool_call_id", "llm_response_id")
"""Keys of events whose values are texts, where there are any."""

_HEADER_OF_ERRORS = "[An error occurred during execution.]\n"
_MOST_CHARACTERS = 30_000
"""What a command printed is cut in the middle to so much."""


def _search(path: Path) -> Iterator[LogFile]:
    if path.is_file():
        if path.name == _STATE and (path.parent / _EVENTS).is_dir():
            yield _describe(path.parent)
        return
    root = path.resolve()
    for parent, folders, names in os.walk(path):
        if _STATE in names and _EVENTS in folders:
            folders.clear()
            leads_away = Path(parent, _EVENTS).is_symlink()
            if not leads_away and is_inside(Path(parent, _STATE), root):
                yield _describe(Path(parent))


def _describe(folder: Path) -> LogFile:
    statuses = [each.stat() for each in (folder / _STATE, *_list_events(folder))]
    changed = datetime.fromtimestamp(max(each.st_mtime for each in statuses), UTC)
    return LogFile(_AGENT, folder, sum(each.st_size for each in statuses), changed)


def _list_events(folder: Path) -> list[Path]:
    root, events = folder.resolve(), (folder / _EVENTS).glob("event-*.json")
    return sorted(event for event in events if is_inside(event, root))


class _Metrics:
    """What was reported of each answer: of the condenser's, and of all others."""

    def __init__(self, state: Entry) -> None:
        self._reported: defaultdict[tuple[bool, str], deque[Entry]] = defaultdict(deque)
        usages = take_object(take_object(state.get("stats")).get("usage_to_metrics"))
        for name, each in usages.items():
            for usage in take_objects(take_object(each).get("token_usages")):
                answer = take_text(usage.get("response_id"))
                self._reported[name == _CONDENSER, answer].append(usage)

    def take(self, answer: str, *, is_condensation: bool = False) -> Entry:
        """Return what was reported of an answer, once, the earliest first; empty if nothing was."""
        for of_condenser in (is_condensation, not is_condensation):
            if found := self._reported[of_condenser, answer]:
                return found.popleft()
        return {}


def _read(log: LogFile) -> Iterator[LoggedConversation]:
    state = read_document(log.path / _STATE, "a conversation")
    events, unread = _load(log.path)
    llm = take_object(take_object(state.get("agent")).get("llm"))
    model = take_text(llm.get("model"))
    conversation = LoggedConversation(
        name=log.path.name,
        project=last_name(take_object(state.get("workspace")).get("working_dir")),
        host=find_host(model, llm.get("base_url")),
        wire=RESPONSES if _is_of_responses(events) else CHAT,
        requests=partial(_find_requests, events, state, log),
        unread=frozenset(unread),
    )
    yield conversation
    if any(event.get("kind") == "Condensation" for event in events):
        yield conversation._replace(
            requests=partial(_find_condensations, events, state, log),
            is_side=True,
            unread=frozenset(),
        )


def _load(folder: Path) -> tuple[list[Entry], set[str]]:
    """Return the events that lead to the latest one, and the kinds that are not understood."""
    events: list[Entry] = []
    unread: set[str] = set()
    for path in _list_events(folder):
        event = try_decode(read_bounded(path), unread) or {}
        names = [event.get(key) for key in _NAMES]
        if not event or not all(isinstance(name, str | None) for name in names):
            unread.add(BROKEN)
            continue
        kind = take_text(event.get("kind"))
        if kind not in _OF_NO_PROMPT and kind != "Condensation" and kind not in _CONVERT:
            unread.add(kind)
        events.append(event)
    return events, unread


def _is_of_responses(events: Iterable[Entry]) -> bool:
    """Whether OpenHands speaks the Responses API to this model: calls say where they are from."""
    return any(take_object(event.get("tool_call")).get("origin") == "responses" for event in events)


def _find_requests(events: Sequence[Entry], state: Entry, log: LogFile) -> Iterator[LoggedRequest]:
    """Yield a request for each answer: what was in view when its first event came."""
    metrics = _Metrics(state)
    by_id = {event.get("id"): event for event in events}
    view: list[Entry] = []
    write = _write_items if _is_of_responses(events) else _write_chat
    known: _Known = {}
    answer, last = "", None
    when: datetime | None = None
    for event in events:
        parent = event.get("parent_id")
        if parent is not None and parent != last:  # the user went back to an earlier event
            view = []
            for each in follow(parent, by_id, "parent_id"):
                view = _see(view, each)
        last = event.get("id")
        told = take_text(event.get("llm_response_id"))
        # One more action of an answer belongs to it.
        is_same = told == answer and bool(view) and view[-1].get("kind") == "ActionEvent"
        if event.get("kind") == "Condensation":
            metrics.take(told, is_condensation=True)
        elif told and event.get("source") == "agent" and not is_same:
            answer = told
            reported = metrics.take(told)
            if reported:
                yield LoggedRequest(
                    items=_write_messages(view, known, write),
                    when=when or _find_time(event) or log.changed,
                    model=find_model(take_text(reported.get("model"))),
                    usage=_read_usage(reported),
                    key=take_text(event.get("id")),
                )
        if event.get("kind") in _CONVERT:
            when = _find_time(event) or when
        view = _see(view, event)


def _find_condensations(
    events: Iterable[Entry], state: Entry, log: LogFile
) -> Iterator[LoggedRequest]:
    metrics = _Metrics(state)
    for event in events:
        if event.get("kind") != "Condensation":
            continue
        told = take_text(event.get("llm_response_id"))
        reported = metrics.take(told, is_condensation=True)
        if reported:
            yield LoggedRequest(
                items=(),
                when=_find_time(event) or log.changed,
                model=find_model(take_text(reported.get("model"))),
                usage=_read_usage(reported),
                key=take_text(event.get("id")),
            )


def _see(view: Sequence[Entry], event: Entry) -> list[Entry]:
    """Return what is in view after an event."""
    if event.get("kind") != "Condensation":
        return [*view, event] if event.get("kind") in _CONVERT else [*view]
    named = event.get("forgotten_event_ids")
    forgotten = {*filter(take_text, named)} if isinstance(named, list) else set()
    kept = [
        each for each in view if each.get("id") not in forgotten and each.get("kind") != _SUMMARY
    ]
    summary, offset = event.get("summary"), event.get("summary_offset")
    if isinstance(summary, str) and isinstance(offset, int):
        kept.insert(offset, {"kind": _SUMMARY, "summary": summary})
    return kept


_Known = dict[tuple[int, ...], tuple[Sequence[Entry], Sequence[Entry]]]
"""Events that are sent together, and what is sent of them, by the identity of the events."""

_Write = Callable[[Sequence[Entry]], Sequence[Entry]]
"""Returns what is sent of events."""


def _write_messages(view: Sequence[Entry], known: _Known, write: _Write) -> tuple[Entry, ...]:
    """Return what is sent of what is in view, the very same objects each time.

    The actions of one answer are one message, and so is what users say in a row. A call and its
    result are sent only together.
    """
    calls = {each.get("tool_call_id") for each in view if each.get("kind") == "ActionEvent"}
    results = {each.get("tool_call_id") for each in view if each.get("kind") in _RESULTS}
    batches: list[list[Entry]] = []
    for speaker, group in groupby(view, _find_speaker):
        events = [*group]
        if events[0].get("kind") == "ActionEvent":
            is_sent = all(each.get("tool_call_id") in results for each in events)
            batches += [events] if is_sent else []
        elif events[0].get("kind") in _RESULTS:
            batches += [[each] for each in events if each.get("tool_call_id") in calls]
        else:
            batches += [events] if speaker == "user" else [[each] for each in events]
    for batch in batches:
        names = tuple(map(id, batch))
        if names not in known:
            known[names] = batch, write(batch)
    return tuple(item for batch in batches for item in known[tuple(map(id, batch))][1])


def _write_chat(batch: Sequence[Entry]) -> list[Entry]:
    return [_CONVERT[str(batch[0].get("kind"))](batch)]


def _write_items(batch: Sequence[Entry]) -> list[Entry]:
    """Return the items of Responses that are sent of events, an item for each part of a result.

    The system prompt is in none: it is sent as instructions.
    """
    (message,) = _write_chat(batch)
    role, parts = message["role"], take_objects(message.get("content"))
    if role == "system":
        return []
    if role == "tool":
        call = message["tool_call_id"]
        texts = [take_text(part.get("text")) for part in parts]
        return [{"type": "function_call_output", "call_id": call, "output": t} for t in texts]
    items: list[Entry] = []
    about = take_object(batch[0].get("llm_message")) or batch[0]
    if reasoning := take_object(about.get("responses_reasoning_item")):
        summary = reasoning.get("summary")
        texts = [str(each) for each in summary] if isinstance(summary, list) else []
        parts_of_it = [{"type": "summary_text", "text": text} for text in texts]
        kept = {key: reasoning.get(key) for key in ("id", "encrypted_content")}
        items.append({"type": "reasoning", "summary": parts_of_it, **kept})
    kind = "output_text" if role == "assistant" else "input_text"
    if content := [{"type": kind, "text": part["text"]} for part in parts if "text" in part]:
        items.append({"type": "message", "role": role, "content": content})
    for call in (take_object(each.get("tool_call")) for each in batch):
        if call:
            about = {"id": call.get("responses_item_id"), "call_id": call.get("id")}
            said = {key: call.get(key) for key in ("name", "arguments")}
            items.append({"type": "function_call", **about, **said})
    return items


def _find_speaker(event: Entry) -> str:
    """Return what the events of one message have in common."""
    if event.get("kind") == "ActionEvent":
        return f"answer {event.get('llm_response_id')}"
    said = take_object(event.get("llm_message")).get("role")
    is_user = event.get("kind") == _SUMMARY or said == "user"
    return "user" if is_user else take_text(event.get("kind"))


def _write_system(batch: Sequence[Entry]) -> Entry:
    texts = [batch[0].get("system_prompt"), batch[0].get("dynamic_context")]
    return {"role": "system", "content": _write_parts(texts)}


def _write_message(batch: Sequence[Entry]) -> Entry:
    """Return the message of what was said in a row, a summary of earlier events included."""
    message = take_object(batch[0].get("llm_message"))
    parts: list[Entry] = []
    for event in batch:
        parts += _write_parts(take_object(event.get("llm_message")).get("content"))
        parts += _write_parts([{"text": event.get("summary")}])
        parts += _write_parts(event.get("extended_content"))
    reasoning = take_text(message.get("reasoning_content"))
    return {
        "role": take_text(message.get("role")) or "user",
        "content": parts,
        **({"reasoning_content": reasoning} if reasoning else {}),
    }


def _write_actions(batch: Sequence[Entry]) -> Entry:
    """Return the message of an answer: its first action has what the model said beside them."""
    thought = _write_parts(batch[0].get("thought"))
    reasoning = take_text(batch[0].get("reasoning_content"))
    message: dict[str, object] = {"role": "assistant"}
    if thought:
        message["content"] = thought
    message["tool_calls"] = [
        {
            "id": take_text(call.get("id")),
            "type": "function",
            "function": {"name": call.get("name"), "arguments": call.get("arguments")},
        }
        for call in (take_object(each.get("tool_call")) for each in batch)
    ]
    if reasoning:
        message["reasoning_content"] = reasoning
    return message


def _write_result(batch: Sequence[Entry]) -> Entry:
    (event,) = batch
    if event.get("kind") == "AgentErrorEvent":
        parts = _write_parts([{"text": event.get("error")}])
    elif event.get("kind") == "UserRejectObservation":
        parts = _write_parts([{"text": f"Action rejected: {event.get('rejection_reason')}"}])
    else:
        parts = _write_observation(take_object(event.get("observation")))
    return {
        "role": "tool",
        "tool_call_id": take_text(event.get("tool_call_id")),
        "name": take_text(event.get("tool_name")),
        "content": parts + _write_parts(event.get("extended_content")),
    }


def _write_observation(observation: Entry) -> list[Entry]:
    parts = _write_parts(observation.get("content"))
    about = take_object(observation.get("metadata"))
    if about:  # of a command: OpenHands adds how it ended
        text = "".join(take_text(part.get("text")) for part in parts)
        text = f"{take_text(about.get('prefix'))}{text}{take_text(about.get('suffix'))}"
        if folder := about.get("working_dir"):
            text += f"\n[Current working directory: {folder}]"
        if python := about.get("py_interpreter_path"):
            text += f"\n[Python interpreter: {python}]"
        if (code := about.get("exit_code")) not in (-1, None):
            text += f"\n[Command finished with exit code {code}]"
        if len(text) > _MOST_CHARACTERS:
            half = _MOST_CHARACTERS // 2
            text = text[:half] + text[-half:]
        parts = [{"type": "text", "text": text}]
    if observation.get("is_error"):
        parts = [{"type": "text", "text": _HEADER_OF_ERRORS}, *parts]
    return parts


def _write_parts(content: object) -> list[Entry]:
    """Return texts and images as they are sent."""
    parts: list[Entry] = []
    for each in take_objects(content):
        if isinstance(text := each.get("text"), str):
            parts.append({"type": "text", "text": text})
        urls = each.get("image_urls")
        for url in urls if isinstance(urls, list) else ():
            parts.append({"type": "image_url", "image_url": {"url": url}})
    return parts


_CONVERT = {
    "SystemPromptEvent": _write_system,
    "MessageEvent": _write_message,
    "ActionEvent": _write_actions,
    _SUMMARY: _write_message,
    **dict.fromkeys(_RESULTS, _write_result),
}
"""What makes a message of events, by their kind."""


def _read_usage(reported: Entry) -> Usage:
    return Usage(
        prompt=take_count(reported.get("prompt_tokens")),
        cached=take_count(reported.get("cache_read_tokens")),
        written=take_count(reported.get("cache_write_tokens")) or None,
        completion=take_count(reported.get("completion_tokens")),
        reasoning=take_count(reported.get("reasoning_tokens")),
    )


def _find_time(event: Entry) -> datetime | None:
    """Return when an event was: OpenHands writes the time of the place, and no zone."""
    return read_time(event.get("timestamp"), zone=None)


OPENHANDS = LogKind(_AGENT, _read, search=_search)
"""The conversations of OpenHands."""

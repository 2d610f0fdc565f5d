"""OpenHands: `~/.openhands/conversations/ID`, since version 1 of its SDK.

A conversation is a folder: `base_state.json` has the usage of each response, and `events` has a
file for each event. What becomes of events in a request is in openhands-sdk/openhands/sdk/event in
github.com/OpenHands/software-agent-sdk. Some tools tell the model a little more than their result,
such as the working folder; that is not logged. Trajectories of version 0 are not read: what the
model got of a result was made anew for each request.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from addon.replay.logs.entries import (
    BROKEN,
    Entry,
    decode,
    last_name,
    read_time,
    take_count,
    take_object,
    take_objects,
    take_text,
)
from addon.replay.logs.log import LogFile, LoggedConversation, LoggedRequest, LogKind
from addon.replay.logs.turns import (
    PATHS,
    Call,
    Media,
    Provider,
    Result,
    Text,
    Thought,
    Turn,
    TurnWriter,
    find_seller,
)
from masking.wire import Usage

_AGENT = "openhands"
_STATE = "base_state.json"
_EVENT = re.compile(r"event-(\d{5,})-[0-9a-fA-F-]{8,}\.json")

_IN_PROMPT = frozenset(
    (
        *("MessageEvent", "ActionEvent", "ObservationEvent", "UserRejectObservation"),
        *("AgentErrorEvent", "Condensation"),
    )
)
_NOT_SENT = frozenset(
    (
        *("SystemPromptEvent", "ConversationStateUpdateEvent", "CondensationRequest", "PauseEvent"),
        *("TokenEvent", "ConversationErrorEvent", "LLMCompletionLogEvent", "HookExecutionEvent"),
        *("ServerErrorEvent", "InterruptEvent", "StreamingDeltaEvent"),
    )
)


def _find_homes(home: Path, environment: Mapping[str, str]) -> tuple[Path, ...]:
    root = environment.get("OPENHANDS_PERSISTENCE_DIR") or home / ".openhands"
    return (Path(root) / "conversations",)


def _find(path: Path) -> Iterator[LogFile]:
    if path.is_file():
        folders = [path.parent] if path.name == _STATE else []
    else:
        folders = [Path(parent) for parent, _, names in os.walk(path) if _STATE in names]
    found = []
    for folder in folders:
        events = _list_events(folder)
        if events:
            status = events[-1].stat()
            size = (folder / _STATE).stat().st_size + len(events) * status.st_size
            changed = datetime.fromtimestamp(status.st_mtime, UTC)
            found.append(LogFile(_AGENT, folder, size, changed, folder=folder))
    yield from sorted(found, key=lambda log: log.changed, reverse=True)


def _list_events(folder: Path) -> list[Path]:
    """Return the files of a conversation's events, in order."""
    events = folder / "events"
    if not events.is_dir():
        return []
    found = ((_EVENT.fullmatch(each.name), each) for each in events.iterdir())
    return [each for _, each in sorted((int(match[1]), each) for match, each in found if match)]


def _read(log: LogFile) -> Iterator[LoggedConversation]:
    place = log.path / _STATE
    try:
        state = decode(place.read_bytes())
    except ValueError as error:
        raise ValueError(f"{place}:1: not the state of a conversation: {error}") from None
    events, unread = list[Entry](), set[str]()
    for each in _list_events(log.path):
        try:
            event = decode(each.read_bytes())
        except ValueError:
            unread.add(BROKEN)
            continue
        if event.get("kind") in _IN_PROMPT:
            events.append(event)
        elif event.get("kind") not in _NOT_SENT:
            unread.add(str(event.get("kind")))
    agent = take_object(state.get("agent"))
    model = take_text(take_object(agent.get("llm")).get("model"))
    provider = find_seller(model)
    yield LoggedConversation(
        agent=_AGENT,
        name=take_text(state.get("title")) or log.path.name,
        project=last_name(take_object(state.get("workspace")).get("working_dir")),
        host=provider.host,
        wire=provider.wire,
        requests=partial(_find_requests, events, _read_usages(state), provider, model),
        path=PATHS[provider.wire],
        unread=frozenset(unread),
    )


def _read_usages(state: Entry) -> Mapping[str, Entry]:
    """Return what was reported, by the id of the response."""
    metrics = take_object(take_object(state.get("stats")).get("usage_to_metrics"))
    return {
        take_text(usage.get("response_id")): usage
        for each in metrics.values()
        for usage in take_objects(take_object(each).get("token_usages"))
    }


def _find_requests(
    events: Sequence[Entry], usages: Mapping[str, Entry], provider: Provider, model: str
) -> Iterator[LoggedRequest]:
    """Yield a request for each response, with the events before it that were not forgotten."""
    view: list[Entry] = []
    turns: dict[object, Turn] = {}
    writer = TurnWriter(provider.wire)
    answered = set[str]()
    when = datetime.fromtimestamp(0, UTC)
    for event in events:
        response, kind = take_text(event.get("llm_response_id")), event.get("kind")
        if response and response not in answered and kind in ("ActionEvent", "MessageEvent"):
            answered.add(response)
            usage = usages.get(response, {})
            yield LoggedRequest(
                items=writer.write([*_list_turns(view, turns)]),
                when=when,
                model=(take_text(usage.get("model")) or model).rpartition("/")[2] or None,
                usage=_read_usage(usage),
                key=response,
            )
        when = read_time(event.get("timestamp")) or when
        if kind == "Condensation":
            forgotten = event.get("forgotten_event_ids")
            ids = {*forgotten} if isinstance(forgotten, list) else set()
            view = [each for each in view if each.get("id") not in ids]
            offset, summary = event.get("summary_offset"), event.get("summary")
            if isinstance(offset, int) and isinstance(summary, str):
                view.insert(
                    offset, {**event, "kind": "summary", "id": f"{event.get('id')}-summary"}
                )
        else:
            view.append(event)


def _list_turns(events: Sequence[Entry], made: dict[object, Turn]) -> Iterator[Turn]:
    """Yield what events say; the calls of one response are one turn."""
    at = 0
    while at < len(events):
        end = at + 1
        response = events[at].get("llm_response_id")
        if events[at].get("kind") == "ActionEvent":
            while end < len(events) and events[end].get("llm_response_id") == response:
                end += 1
        key = tuple(event.get("id") for event in events[at:end])
        if key not in made:
            made[key] = _read_events(events[at:end])
        yield made[key]
        at = end


def _read_events(events: Sequence[Entry]) -> Turn:
    """Return the turn of an event, or of those of one response."""
    first = events[0]
    kind, message = first.get("kind"), take_object(first.get("llm_message"))
    call_id, name = take_text(first.get("tool_call_id")), take_text(first.get("tool_name"))
    if kind == "ActionEvent":
        said: list[Text | Media | Thought | Call] = [*_read_thoughts(first)]
        for event in events:
            said += _read_content(event.get("thought"))
            call = take_object(event.get("tool_call"))
            try:
                asked: object = decode(take_text(call.get("arguments")) or "{}")
            except ValueError:
                asked = call.get("arguments")
            said.append(Call(take_text(call.get("id")), take_text(call.get("name")), asked))
        return Turn("assistant", said)
    if kind == "MessageEvent":
        is_user = message.get("role") != "assistant"
        content = _read_content(message.get("content")) + _read_content(
            first.get("extended_content")
        )
        return Turn("user", content) if is_user else Turn("assistant", content)
    if kind == "summary":
        return Turn("user", [Text(take_text(first.get("summary")))])
    if kind == "ObservationEvent":
        observation = take_object(first.get("observation"))
        content = _read_content(observation.get("content") or observation.get("output"))
        content += _read_content(first.get("extended_content"))
        text = "\n".join(part.text for part in content if isinstance(part, Text))
        media = [part for part in content if isinstance(part, Media)]
        is_error = observation.get("is_error") is True
        return Turn("tool", [Result(call_id, name, text, is_error, media)])
    told = take_text(first.get("error")) or f"Action rejected: {first.get('rejection_reason')}"
    return Turn("tool", [Result(call_id, name, told, is_error=True)])


def _read_thoughts(event: Entry) -> Iterator[Thought]:
    for block in take_objects(event.get("thinking_blocks")):
        redacted = take_text(block.get("data"))
        signature = redacted or take_text(block.get("signature"))
        yield Thought(take_text(block.get("thinking")), signature or None, None, bool(redacted))


def _read_content(content: object) -> list[Text | Media]:
    if isinstance(content, str):
        return [Text(content)]
    said: list[Text | Media] = []
    for block in take_objects(content):
        if isinstance(text := block.get("text"), str):
            said.append(Text(text))
        urls = block.get("image_urls")
        for url in urls if isinstance(urls, list) else ():
            head, _, data = take_text(url).partition(",")
            if head.startswith("data:") and data:
                said.append(Media(head.removeprefix("data:").partition(";")[0], data))
    return said


def _read_usage(usage: Entry) -> Usage | None:
    prompt = take_count(usage.get("prompt_tokens"))
    if not prompt:
        return None
    return Usage(
        prompt=prompt,
        cached=take_count(usage.get("cache_read_tokens")),
        written=take_count(usage.get("cache_write_tokens")),
        completion=take_count(usage.get("completion_tokens")),
        reasoning=take_count(usage.get("reasoning_tokens")),
    )


OPENHANDS = LogKind(agent=_AGENT, homes=_find_homes, find=_find, read=_read)
"""The conversations of OpenHands."""

"""SWE-agent: `*.traj`, one task a file, in the folder `trajectories` of where it ran.

A step has the messages that were sent, as its history processors left them (`query`; `messages` in
versions of 2024, which go on with the answer). Before 1.0 there is only the history of all steps,
and what was cut of it is not told. A file has neither times nor the usage of a request, so all
amounts are estimates. What is sent of a message is in sweagent/agent/models.py of
github.com/SWE-agent/SWE-agent.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from addon.replay.disk import find_files, read_bounded
from addon.replay.logs.entries import (
    Entry,
    decode,
    read_head,
    take_object,
    take_objects,
    take_text,
    write_json,
)
from addon.replay.logs.litellm import find_host, find_model
from addon.replay.logs.log import LogFile, LoggedConversation, LoggedRequest, LogKind
from masking.wire import CHAT

_AGENT = "swe-agent"
_SUFFIX = ".traj"
_SIGN = re.compile(rb'\A\s*\{\s*"(?:trajectory|history|environment|info|replay_config)"\s*:')

_SENT = ("role", "content", "tool_calls")


def _find(path: Path) -> Iterator[LogFile]:
    found = (each for each in find_files(path, (_SUFFIX,)) if each.name.endswith(_SUFFIX))
    dated = sorted(((each.stat(), each) for each in found), key=lambda pair: -pair[0].st_mtime)
    for status, each in dated:
        if _SIGN.match(read_head(each, 64)):
            changed = datetime.fromtimestamp(status.st_mtime, UTC)
            yield LogFile(_AGENT, each, status.st_size, changed)


def _read(log: LogFile) -> Iterator[LoggedConversation]:
    try:
        document = decode(read_bounded(log.path))
    except ValueError as error:
        raise ValueError(f"{log.path}:1: not a trajectory of SWE-agent: {error}") from None
    model: Entry = {}
    with suppress(ValueError):
        config = decode(take_text(document.get("replay_config")))
        model = take_object(take_object(config.get("agent")).get("model"))
    name = take_text(model.get("name"))
    yield LoggedConversation(
        agent=_AGENT,
        name=log.path.stem,
        project=None,
        host=find_host(name, model.get("api_base")),
        wire=CHAT,
        requests=partial(_find_requests, document, find_model(name), log),
    )


def _find_requests(document: Entry, model: str | None, log: LogFile) -> Iterator[LoggedRequest]:
    """Yield what was sent with each request; a message that is sent again is the same object."""
    known: dict[str, Mapping[str, object]] = {}
    for messages in _list_sent(document):
        items = [_clean(message) for message in messages]
        yield LoggedRequest(
            items=[known.setdefault(write_json(item), item) for item in items],
            when=log.changed,
            model=model,
            usage=None,
        )


def _list_sent(document: Entry) -> Iterator[Sequence[Entry]]:
    """Yield the messages of each request."""
    steps = take_objects(document.get("trajectory"))
    if any("query" in step or "messages" in step for step in steps):
        for step in steps:
            if query := take_objects(step.get("query")):
                yield query
            elif messages := take_objects(step.get("messages")):
                answers = [at for at, each in enumerate(messages) if _is_answer(each)]
                yield messages[: answers[-1] if answers else None]
        return
    history = take_objects(document.get("history"))
    for at, message in enumerate(history):
        if _is_answer(message) and at:
            yield history[:at]


def _is_answer(message: Entry) -> bool:
    """Whether a model said it: a demonstration shows what another one did."""
    return message.get("role") == "assistant" and not message.get("is_demo")


def _clean(message: Entry) -> Entry:
    sent = {key: message[key] for key in _SENT if message.get(key) is not None}
    calls, thoughts = message.get("tool_call_ids"), take_objects(message.get("thinking_blocks"))
    if message.get("role") == "tool" and isinstance(calls, list) and calls:
        sent["tool_call_id"] = calls[0]
    if reasoning := "".join(take_text(each.get("thinking")) for each in thoughts):
        sent["reasoning_content"] = reasoning
    return sent


SWE_AGENT = LogKind(_AGENT, _find, _read, has_homes=False)
"""The trajectories of SWE-agent."""

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
from functools import partial
from pathlib import Path

from addon.replay.logs.entries import (
    Entry,
    decode,
    read_document,
    read_head,
    take_object,
    take_objects,
    take_text,
    write_json,
)
from addon.replay.logs.litellm import find_host, find_model
from addon.replay.logs.log import LogFile, LoggedConversation, LoggedRequest, LogKind
from masking.wire import CHAT

_SUFFIX = ".traj"
_SIGN = re.compile(rb'\A\s*\{\s*"(?:trajectory|history|environment|info|replay_config)"\s*:')

_SENT = ("role", "content", "tool_calls")


def _is_log(path: Path) -> bool:
    return path.name.endswith(_SUFFIX) and bool(_SIGN.match(read_head(path, 64)))


def _read(log: LogFile) -> Iterator[LoggedConversation]:
    document = read_document(log.path, "a trajectory of SWE-agent")
    model: Entry = {}
    with suppress(ValueError):
        config = decode(take_text(document.get("replay_config")))
        model = take_object(take_object(config.get("agent")).get("model"))
    name = take_text(model.get("name"))
    yield LoggedConversation(
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


SWE_AGENT = LogKind("swe-agent", _read, (_SUFFIX,), _is_log, has_homes=False)
"""The trajectories of SWE-agent."""

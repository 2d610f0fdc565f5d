"""mini-swe-agent: `*.traj.json`, one session a file, and the last one in the settings' folder.

A trajectory has the messages as they are sent, each with an `extra` that no request has. There, an
answer has what LiteLLM or a provider returned, usage included. An answer without a call that can be
read is in no message: the complaint about it, which is sent in its place, has it in its `extra`. An
answer of the Responses API is a message whose `output` is sent. What is sent is in
src/minisweagent/models of github.com/SWE-agent/mini-swe-agent.

A trajectory without usage is left to be read as a conversation of a file.
"""

import re
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from pathlib import Path

from addon.replay.disk import read_bounded
from addon.replay.logs.entries import (
    Entry,
    last_name,
    read_document,
    read_head,
    read_time,
    take_object,
    take_objects,
    take_text,
)
from addon.replay.logs.litellm import find_host, find_model
from addon.replay.logs.log import LogFile, LoggedConversation, LoggedRequest, LogKind
from addon.replay.logs.turns import PROVIDERS
from masking.wire import CHAT, RESPONSES, find_usage

_HEAD = re.compile(rb'\A\s*\{\s*"info"\s*:')
_FORMAT = re.compile(rb'"trajectory_format"\s*:\s*"mini-swe-agent')
_USAGE = re.compile(rb'"usage"\s*:\s*\{')

_CLASSES = {name: PROVIDERS[name].host for name in ("openrouter", "portkey", "requesty")}
"""Where models are reached that are not spoken to by LiteLLM, by the name of their class's file."""

_NOT_SENT = frozenset(("extra", "timestamp", "provider_specific_fields"))
"""What a message has beside what is sent; older versions kept its time beside the content."""


def _is_log(path: Path) -> bool:
    try:
        data = read_bounded(path) if _HEAD.match(read_head(path, 64)) else b""
    except OSError:
        return False
    return bool(_FORMAT.search(data) and _USAGE.search(data))  # the format stands at the end


def _read(log: LogFile) -> Iterator[LoggedConversation]:
    document = read_document(log.path, "a trajectory of mini-swe-agent")
    messages = take_objects(document.get("messages"))
    config = take_object(take_object(document.get("info")).get("config"))
    own = take_object(config.get("model"))
    name = take_text(own.get("model_name"))
    # "minisweagent.models.openrouter_model.OpenRouterModel"
    family = take_text(config.get("model_type")).rpartition("models.")[2].partition("_")[0]
    base = take_object(own.get("model_kwargs")).get("api_base")
    yield LoggedConversation(
        name=log.path.name.removesuffix(".json").removesuffix(".traj"),
        project=last_name(take_object(config.get("environment")).get("cwd")),
        host=_CLASSES.get(family) or find_host(name, base),
        wire=RESPONSES if any(_is_response(each) for each in messages) else CHAT,
        requests=partial(
            _find_requests, messages, name if family in _CLASSES else find_model(name), log
        ),
    )


def _is_response(message: Entry) -> bool:
    return message.get("object") == "response"


def _find_requests(
    messages: list[Entry], model: str | None, log: LogFile
) -> Iterator[LoggedRequest]:
    """Yield a request for each answer, also for those that became no message."""
    items: list[Entry] = []
    when: datetime | None = None
    for message in messages:
        extra = take_object(message.get("extra"))
        given = message if _is_response(message) else take_object(extra.get("response"))
        written = read_time(extra.get("timestamp")) or read_time(message.get("timestamp"))
        usage = find_usage({"usage": given.get("usage")})
        if usage is not None:
            began = when or written or read_time(given.get("created")) or log.changed
            yield LoggedRequest(
                items=tuple(items),
                when=began,
                model=model or take_text(given.get("model")) or None,
                usage=usage,
                key=take_text(given.get("id")) or None,
            )
        when = written or when
        if _is_response(message):
            items += map(_clean, take_objects(message.get("output")))
        elif message.get("role") != "exit":
            items.append(_clean(message))


def _clean(message: Entry) -> Entry:
    """Return a message as LiteLLM sends it, which leaves out what is null."""
    return {
        key: value for key, value in message.items() if key not in _NOT_SENT and value is not None
    }


MINI_SWE_AGENT = LogKind("mini-swe-agent", _read, (".json",), _is_log)
"""The logs of mini-swe-agent."""

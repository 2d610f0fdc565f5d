"""mini-swe-agent: `*.traj.json`, and the last run's in `~/.config/mini-swe-agent`.

A trajectory has the messages as they go to LiteLLM, which writes them in the provider's format.
Each answer has the provider's response with it, and so has the complaint that takes the place of
an answer that the agent could not read. A trajectory without usage is read as conversations of
other agents are (`files.py`), and not as a log.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from addon.replay.logs.entries import (
    Entry,
    decode,
    last_name,
    read_time,
    take_object,
    take_objects,
    take_text,
    write_json,
)
from addon.replay.logs.log import LogFile, LoggedConversation, LoggedRequest, LogKind
from addon.replay.logs.turns import PATHS, Provider, TurnWriter, find_seller, read_chat
from masking.wire import CHAT, Usage, read_usage

_AGENT = "mini-swe-agent"
_NAME = ".traj.json"
_SIGNS = b'"mini_version"', b'"messages"', b'"usage"'


def _find_homes(home: Path, environment: Mapping[str, str]) -> tuple[Path, ...]:
    config = Path(environment.get("XDG_CONFIG_HOME") or home / ".config") / "mini-swe-agent"
    return (Path(environment.get("MSWEA_GLOBAL_CONFIG_DIR") or config),)


def _find(path: Path) -> Iterator[LogFile]:
    found = [path] if path.is_file() else _walk(path)
    for status, each in sorted(((f.stat(), f) for f in found), key=lambda p: -p[0].st_mtime):
        data = each.read_bytes() if each.name.endswith(_NAME) else b""
        if all(sign in data for sign in _SIGNS):
            changed = datetime.fromtimestamp(status.st_mtime, UTC)
            yield LogFile(_AGENT, each, status.st_size, changed)


def _walk(folder: Path) -> list[Path]:
    return [
        Path(parent, name)
        for parent, _, names in os.walk(folder)
        for name in names
        if name.endswith(_NAME)
    ]


def _read(log: LogFile) -> Iterator[LoggedConversation]:
    try:
        document = decode(log.path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{log.path}:1: not a trajectory of mini-swe-agent: {error}") from None
    config = take_object(take_object(document.get("info")).get("config"))
    model = take_text(take_object(config.get("model")).get("model_name"))
    provider = find_seller(model)
    yield LoggedConversation(
        agent=_AGENT,
        name=take_text(document.get("instance_id")) or log.path.name.removesuffix(_NAME),
        project=last_name(take_object(config.get("environment")).get("cwd")),
        host=provider.host,
        wire=provider.wire,
        requests=partial(_find_requests, take_objects(document.get("messages")), provider, model),
        path=PATHS[provider.wire],
    )


def _find_requests(
    messages: Sequence[Entry], provider: Provider, model: str
) -> Iterator[LoggedRequest]:
    """Yield a request for each message that a response came with: it had the messages before."""
    is_chat, writer = provider.wire is CHAT, TurnWriter(provider.wire)
    sent = [_strip(message) for message in messages]
    turns = [read_chat(message) for message in sent]
    when = datetime.fromtimestamp(0, UTC)
    for at, message in enumerate(messages):
        extra = take_object(message.get("extra"))
        answered = read_time(extra.get("timestamp"))
        if response := take_object(extra.get("response")):
            known = [turn for turn in turns[:at] if turn is not None]
            yield LoggedRequest(
                items=tuple(sent[:at]) if is_chat else writer.write(known),
                when=when if when.timestamp() else (answered or when),
                model=take_text(response.get("model")) or model.rpartition("/")[2] or None,
                usage=_read_usage(response),
            )
        when = answered or when


def _strip(message: Entry) -> Entry:
    """Return a message as it is sent."""
    return {name: value for name, value in message.items() if name != "extra" and value is not None}


def _read_usage(response: Entry) -> Usage | None:
    return read_usage(write_json({"usage": response.get("usage")}).encode())


MINI_SWE_AGENT = LogKind(agent=_AGENT, homes=_find_homes, find=_find, read=_read)
"""The trajectories of mini-swe-agent."""

"""Answers of MCP servers for the fuzzer, and what the contract's section 5 says of cutting them."""

import json
import re
from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple

from addon.proxy.mcp import EventStream
from masking.errors import WireError
from masking.mcp import MaskedPayload, McpSettings, Methods, mask_payload_bytes
from tests.support.payloads import mask_payload
from tests.tools.fuzz.json_nodes import Difference, Where, find_changes
from tests.tools.fuzz.mutations import mutate
from tests.tools.fuzz.talks import spell

_KEPT = ("id", "taskId", "nextCursor", "next_cursor", "uri", "url", "uriTemplate", "cursor", "ids")
"""Keys whose texts are ids, cursors and addresses, for which a part is worth nothing."""

_OPAQUE = ("_meta", "requestState", "inputRequests")
"""Keys of what a client passes on unread."""

_CUT = ("text", "value", "void", "grid", "valid", "data", "blob", "description", "error", "id_of")
_TEXTS = ("A line.\n" * 40, 'é 😀 " \\ ' * 30, "lone \ud83d " * 30, "short", "", "x" * 2_100)
_MARKER = "\n... [KIMI_PROXY_OBSERVATION_MASKED original_chars={} head={} tail={}] ...\n"
_URI = re.compile(r"(?:data:[^\s,]*,|[A-Za-z][A-Za-z0-9+.-]*://)\S*")


class Answered(NamedTuple):
    """An answer of a server, the settings, and what was asked for. It may be `damaged`."""

    body: bytes
    policy: McpSettings
    methods: Methods
    damaged: bool


def answer(random: Random) -> Answered:
    """Return an answer: a response, or a batch of messages."""
    policy = McpSettings(
        enabled=random.random() < 0.95,
        max_chars=random.choice((20, 200, 400, 4_000, 0)),
        head_chars=random.choice((0, 10, 100, -1)),
        tail_chars=random.choice((0, 10, 100, 2_000)),
    )
    messages = [_answer_one(random, number) for number in range(random.choice((1, 1, 1, 2, 4)))]
    document: object = messages if len(messages) > 1 or random.random() < 0.1 else messages[0]
    methods: Methods = {
        n: random.choice(("tools/call", "tools/list")) for n in range(random.randrange(5))
    }
    body = spell(document, random, odd=random.random() < 0.4)
    damaged = random.random() < 0.15
    return Answered(mutate(body, random) if damaged else body, policy, methods, damaged)


def _answer_one(random: Random, number: int) -> dict[str, Any]:
    message: dict[str, Any] = {"jsonrpc": random.choice(("2.0", "2.0", "2.0", "1.0")), "id": number}
    if random.random() < 0.1:
        return message | {"method": "sampling/createMessage", "params": _build(random, 2)}
    if random.random() < 0.15:
        tools = [{"name": "a", "inputSchema": {}, "description": random.choice(_TEXTS)}]
        return message | {"result": {"tools": tools}}
    if random.random() < 0.25:
        text = random.choice(_TEXTS)
        return message | {"error": {"code": -1, "message": text, "data": _build(random, 3)}}
    return message | {"result": _build(random, 4)}


def _build(random: Random, depth: int) -> Any:  # noqa: ANN401 - JSON
    """Return a value of any kind; objects have keys of which some are never cut."""
    chance = random.random()
    if depth == 0 or chance < 0.4:
        text = random.choice(_TEXTS)
        return text if random.random() < 0.95 else f"https://example.com/{'a' * 300}"
    if chance < 0.5:
        return random.choice((None, True, 7, -0.0, 1e300))
    if chance < 0.65:
        return [_build(random, depth - 1) for _ in range(random.randrange(4))]
    keys = random.choices((*_KEPT, *_OPAQUE, *_CUT, *_CUT), k=random.randrange(1, 5))
    found = {key: _build(random, depth - 1) for key in keys}
    return found | ({"mimeType": "image/png"} if random.random() < 0.2 else {})


def find_fault(given: Answered, random: Random) -> str | None:
    """Return what is wrong with what becomes of an answer, whole or as an event; None: nothing."""
    try:
        cut = mask_payload_bytes(given.body, given.policy, given.methods)
        wrong = _judge(given, cut)
    except WireError as error:
        return None if given.damaged or "UTF-8" in str(error) else f"refused: {error}"
    except (RecursionError, UnicodeDecodeError):  # too deep, or not cut and no UTF-8
        return None
    return wrong or _judge_stream(given, cut.body, random)


def _judge(given: Answered, cut: MaskedPayload) -> str | None:
    policy, body = given.policy, given.body
    if not cut.cuts and cut.body is not body:
        return "an answer without a cut is another object"
    if mask_payload_bytes(cut.body, policy, given.methods).body is not cut.body:
        return "cut a second time"
    if given.damaged and not cut.cuts:
        return None
    try:
        changed = [*find_changes(body.decode(), cut.body.decode())]
    except Difference as difference:
        return f"changed: {difference}"
    document = json.loads(body.decode().removeprefix("\ufeff"))
    wanted = {} if not _cuts(policy) else dict(_expect(document, given))
    if not given.damaged and {*changed} != {*wanted}:
        return f"cut {sorted(map(str, {*changed} ^ {*wanted}))}, against the contract"
    after = json.loads(cut.body.decode().removeprefix("\ufeff"))
    for at in changed:
        if _follow(after, at) != _cut_text(_follow(document, at), policy):
            return f"cut in other words: {at}"
    masked = mask_payload(document, policy, given.methods)
    return None if repr(masked) == repr(after) else "the value and the bytes are cut differently"


def _cuts(policy: McpSettings) -> bool:
    return policy.enabled and policy.max_chars > 0


def _expect(document: Any, given: Answered) -> Iterator[tuple[Where, str]]:  # noqa: ANN401 - JSON
    """Yield where the contract has a text cut."""
    batch = isinstance(document, list)
    for place, message in enumerate(document if batch else [document]):
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0" or "method" in message:
            continue
        method, result = given.methods.get(_name(message.get("id"))), message.get("result")
        lists = isinstance(result, dict) and "inputSchema" in str(result.get("tools"))
        if method == "tools/list" or (method is None and lists):
            continue
        path: Where = (place,) if batch else ()
        if result is not None:
            yield from _expect_in((*path, "result"), result, given.policy)
        elif isinstance(error := message.get("error"), dict):
            yield from _expect_in((*path, "error", "data"), error.get("data"), given.policy)


def _name(asked_by: object) -> str | int:
    return asked_by if isinstance(asked_by, (str, int)) else ""


def _expect_in(at: Where, value: Any, policy: McpSettings) -> Iterator[tuple[Where, str]]:  # noqa: ANN401 - JSON
    if isinstance(value, str):
        if _cut_text(value, policy) != value and not _URI.fullmatch(value):
            yield at, value
        return
    is_object = isinstance(value, dict)
    for key, inner in (
        value.items() if is_object else enumerate(value if isinstance(value, list) else ())
    ):
        is_flat = isinstance(inner, str) or (
            isinstance(inner, list) and not any(isinstance(each, (dict, list)) for each in inner)
        )
        if is_object and (key in _OPAQUE or (key in _KEPT and is_flat)):
            continue
        beside = {"data": ("mimeType",), "blob": ("mimeType", "uri")}.get(str(key), ())
        if is_object and any(other in value for other in beside):
            continue
        if is_object and key == "text" and str(value.get("uri")).startswith("ui://"):
            continue
        yield from _expect_in((*at, key), inner, policy)


def _cut_text(text: str, policy: McpSettings) -> str:
    head, tail = max(0, policy.head_chars), max(0, policy.tail_chars)
    marker = _MARKER.format(len(text), head, tail)
    if len(text) <= policy.max_chars or head + len(marker) + tail >= len(text):
        return text
    made = re.escape(_MARKER.format("@", head, tail)).replace("@", "[0-9]+")
    if re.match(made, text[head : len(text) - tail]) and text[head:].index("...\n") >= 0:
        inside = text[head : len(text) - tail]
        if re.fullmatch(made, inside):
            return text
    return text[:head] + marker + text[len(text) - tail :]


def _follow(value: Any, at: Where) -> Any:  # noqa: ANN401 - JSON
    for key in at:
        value = value[key]
    return value


def _judge_stream(given: Answered, cut: bytes, random: Random) -> str | None:
    """Say if an answer as an event, in chunks of any size, comes to something else."""
    if b"\n" in given.body or b"\r" in given.body:
        return None
    before, after = random.choice(_AROUND), b"\n\n: done\n\n"
    stream = EventStream(lambda data: mask_payload_bytes(data, given.policy, given.methods).body)
    whole = before + given.body + after
    sent = b""
    at = 0
    while at < len(whole):
        end = at + random.choice((1, 7, 300, 9_000))
        sent += stream.feed(whole[at:end])
        at = end
    sent += stream.end()
    return None if sent == before + cut + after else "an event stream comes to something else"


_AROUND = (
    b"data: ",
    b"event: message\nid: 1\ndata: ",
    b": ping\n\nretry: 9\ndata:",
    b"\xef\xbb\xbfdata: ",
)

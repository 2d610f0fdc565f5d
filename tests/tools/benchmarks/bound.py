"""What each road saves where reasoning is bound to old results, on accounts of both kinds.

`python -m tests.tools.benchmarks.bound FILES`: conversations of Anthropic Messages from files, each
answer with a thought before it, marked as claude-code marks them, behind 10,000 tokens of system
prompt and tool schemas. Each request goes through the engine as through a proxy, with the shipped
configuration and its memory, to the strict provider: what that refuses is sent again as the engine
says; what it would refuse as the client wrote it is taken. The provider clears as Anthropic
documents it, errors and short results included. It signs each thought for what it was sent, and
drops those that no longer fit from a request that lets it; any other it refuses. Bills are those of
`tests.tools.provider.vendor_caches`, in o200k tokens. It prints the bill relative to sending
everything, the worst request of any conversation, and the refusals, hidden and seen by a client; it
exits with 1 if a client saw one, or if a request exceeds `1 + max_loss` by more than a percentage
point.
"""

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from addon.commands.workers import open_processes
from addon.config import CONFIG_NAME, ConfigFile
from addon.config_commands import dump_toml
from addon.engine import Engine
from addon.places import shipped
from addon.replay.replay import Session
from addon.request import HeaderFields, PlainMessage, find_wire_format
from addon.stages import Received as Arrived
from masking.model import Decision
from masking.prices import PriceSettings, find_pricing
from masking.rewrite import Rewrite
from masking.roads import ROADS
from masking.tokens import TokenCounter
from tests.support.kinds import make_text
from tests.support.marking import mark_as_claude_code
from tests.support.read_sessions import read_sessions
from tests.tools.benchmarks.assumed import read_shipped
from tests.tools.benchmarks.marked import (
    MARGIN,
    add_head,
    count_block,
    find_lifetime,
    find_prices,
    list_blocks,
    read_bodies,
)
from tests.tools.provider.messages import check, drops, edit, find_signatures, sign, sign_anew
from tests.tools.provider.script import Received
from tests.tools.provider.vendor_caches import AnthropicCache, Block, find_worst

HOST, PATH = "api.anthropic.com", "/v1/messages"
SECONDS = 20.0
"""Between two requests."""


class Case(NamedTuple):
    """Whose account it is, at which model, and what the user has set."""

    account: str
    model: str
    overrides: tuple[str, ...] = ()


_KINDS = (("new", "claude-opus-5-5"), ("any", "claude-fable-5-2"), ("new", "claude-sonnet-5-5"))
_SETTINGS = [
    tuple(f"{path}={dump_toml(value)}" for path, value in road.settings.items())
    for road in ROADS.values()
]
CASES = (
    Case("old", "claude-opus-5-5"),
    *(Case(account, model, chosen) for account, model in _KINDS for chosen in _SETTINGS),
)


class Outcome(NamedTuple):
    """The bills with everything sent and as it was sent, the worst request, the refusals."""

    everything: float = 0.0
    paid: float = 0.0
    worst: float = 1.0
    hidden: int = 0
    seen: int = 0

    def add(self, other: "Outcome") -> "Outcome":
        return Outcome(
            self.everything + other.everything,
            self.paid + other.paid,
            max(self.worst, other.worst),
            self.hidden + other.hidden,
            self.seen + other.seen,
        )


class _Request(PlainMessage):
    method, path, pretty_host = "POST", PATH, HOST


class _Carrier:
    """Carries a body, as a proxy does that can send another in its place."""

    betas: tuple[str, ...] | None = ()

    def __init__(self, body: bytes) -> None:
        self.wire_body: bytes | None = body
        self.named: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        return len(self.wire_body or b"")

    most_bytes = size

    def read(self) -> bytes:
        return self.wire_body or b""

    def encode(self, body: bytes) -> bytes:
        return body

    def mark(self, decisions: Sequence[Decision]) -> None: ...

    def replace(self, rewrite: Rewrite, received: Arrived) -> None:
        self.wire_body, self.named = rewrite.body, rewrite.betas


def converse(session: Session, case: Case) -> Outcome:
    """Return what a conversation comes to in a case."""
    folder = tempfile.mkdtemp()
    os.environ["XDG_STATE_HOME"] = folder
    return asyncio.run(_converse(session, case))


async def _converse(session: Session, case: Case) -> Outcome:
    engine = Engine()
    engine.use(ConfigFile(shipped(CONFIG_NAME), (*case.overrides, "memory.enabled=true")))
    pricing = find_pricing(PriceSettings(), HOST, case.model, is_marked=True, lifetime=None)
    whole_cache, paid_cache = (AnthropicCache(find_prices(pricing)) for _ in range(2))
    whole, paid = list[float](), list[float]()
    hidden = seen = 0
    headers = [("user-agent", "claude-cli/2.1"), ("x-api-key", case.account)]
    match = find_wire_format(_Request(headers=HeaderFields(headers)))
    assert match is not None
    signatures = dict[int, str]()
    for number, body in enumerate(_write_requests(session, case.model, signatures)):
        is_taken = check(_receive(_Carrier(_spell(body)), case)) is None
        exchange = engine.open(_Request(headers=HeaderFields(headers)), match)
        assert exchange is not None
        carrier = _Carrier(_spell(body))
        await exchange.mask(carrier)
        received = _receive(carrier, case)
        status = 400 if is_taken and check(received) else 200
        exchange.begin_answer(status)
        if exchange.may_resend(status, carrier.wire_body) and (second := exchange.begin_second()):
            hidden += 1
            carrier.wire_body, carrier.named = second.body, ()
            received = _receive(carrier, case)
            status = 400 if is_taken and check(received) else 200
            exchange.end_second(status, carrier)
        seen += status == 400
        exchange.finish(status, PlainMessage(_answer(received)))
        now = number * SECONDS
        whole.append(whole_cache.send(_read_blocks(body), now).cost)
        paid.append(paid_cache.send(_read_blocks(_drop(edit(received).request)), now).cost)
        signatures[len(body["messages"])] = sign(received.request, _THOUGHT)
    engine.close()
    return Outcome(sum(whole), sum(paid), find_worst(paid, whole) if paid else 1.0, hidden, seen)


def _write_requests(
    session: Session, model: str, signatures: Mapping[int, str]
) -> Iterator[dict[str, Any]]:
    """Yield the requests of a conversation as claude-code writes them, with signed thoughts.

    signatures: those of thoughts in answers that were given, by the position of the message.
    """
    for body in read_bodies(session):
        messages = [_think(message) for message in body["messages"]]
        request = mark_as_claude_code(add_head({**body, "messages": messages}))
        tools = [_declare(**tool["function"]) for tool in request["tools"]]
        request |= {"tools": tools, "model": model, "max_tokens": 32_000}
        sign_anew(request)
        for at, signature in signatures.items():
            message = request["messages"][at] if at < len(request["messages"]) else {}
            for block in message.get("content") or () if message.get("role") == "assistant" else ():
                if block["type"] == "thinking":
                    block["signature"] = signature
        yield request


def _drop(request: dict[str, Any]) -> dict[str, Any]:
    """Return a request without the thoughts that a provider drops from it."""
    if not drops(request):
        return request
    moved = {(each.message, each.position) for each in find_signatures(request) if each.problem}
    messages = [
        {
            **message,
            "content": [b for n, b in enumerate(message["content"]) if (at, n) not in moved],
        }
        for at, message in enumerate(request["messages"])
    ]
    return {**request, "messages": messages}


def _declare(name: str, description: str, parameters: object) -> dict[str, object]:
    return {"name": name, "description": description, "input_schema": parameters}


def _spell(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()


_THOUGHT = make_text("English prose", 40)


def _think(message: Mapping[str, Any]) -> dict[str, Any]:
    if message["role"] != "assistant":
        return {**message}
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    thought = {"type": "thinking", "thinking": _THOUGHT, "signature": ""}
    return {**message, "content": [thought, *blocks]}


def _receive(carrier: _Carrier, case: Case) -> Received:
    return Received(
        request=json.loads(carrier.read()),
        path=PATH,
        headers=tuple(("anthropic-beta", beta) for beta in carrier.named),
        old_account=case.account == "old",
    )


def _answer(received: Received) -> bytes:
    """Return an answer of which the engine learns whether anything was cleared."""
    usage = {"input_tokens": 1, "output_tokens": 1}
    managed = {"applied_edits": edit(received).applied or []}
    return json.dumps({"usage": usage, "context_management": managed}).encode()


def _read_blocks(body: Mapping[str, Any]) -> list[Block]:
    return [_read_block(json.dumps(block)) for block in list_blocks(body)]


_COUNTER = TokenCounter()


@cache
def _read_block(spelled: str) -> Block:
    block = json.loads(spelled)
    mark = block.pop("cache_control", None)
    lifetime = find_lifetime(mark) if mark else 0.0
    return Block(json.dumps(block), count_block(block, _COUNTER), lifetime)


def main() -> int:
    sessions = [*read_sessions([Path(argument) for argument in sys.argv[1:]])]
    limit = 1 + read_shipped().policy.max_loss + MARGIN
    print(f"{len(sessions)} conversations, marked as claude-code marks them, o200k tokens")
    print("| account | model | set | of everything | worst request | refused | seen |")
    print("|---|---|---|--:|--:|--:|--:|")
    is_wrong = False
    for case in CASES:
        with open_processes() as executor:
            found = list(executor.map(partial(converse, case=case), sessions))
        total = Outcome()
        for outcome in found:
            total = total.add(outcome)
        share = total.paid / total.everything
        what = ", ".join(case.overrides)
        print(
            f"| {case.account} | {case.model} | {what} | {share:.3f} | {total.worst:.3f} "
            f"| {total.hidden} | {total.seen} |"
        )
        is_wrong |= total.seen > 0 or total.worst > limit
    return int(is_wrong)


if __name__ == "__main__":
    sys.exit(main())

"""Whole sessions of scripted clients through a real proxy, before a strict provider."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import httpx

from tests.live.harness import Live, encoded
from tests.tools.provider.script import Reply, ScriptedReplies, call

TURNS = 26
WINDOW = 2
"""As in the harness's configuration."""

ANSWER = "All of it is done now, and nothing is left to do."
Item = dict[str, Any]


def calls_of(turn: int) -> list[str]:
    """The commands of a turn; every third has two."""
    return [f"first {turn}", f"second {turn}"] if turn % 3 == 0 else [f"only {turn}"]


def output_of(command: str) -> str:
    return f"{command}\n" + "a line of output é, and nothing went wrong\n" * 40


SCRIPT = ScriptedReplies(
    (
        *(
            Reply(
                thinking=f"I should look at number {turn} next.",
                content="Let me look, then." if turn % 2 else None,
                calls=tuple(
                    call(f"call_{n}", "shell", command=command)
                    for n, command in enumerate(calls_of(turn))
                ),
            )
            for turn in range(TURNS)
        ),
        Reply(thinking="That was all.", content=ANSWER),
    )
)


@dataclass
class Step:
    """An answer as a client reads it: what it sends back, the calls in it, and what it says."""

    items: list[Item]
    calls: list[tuple[str, str]]
    """The id and the command of each."""
    text: str


class Client(NamedTuple):
    """A client of a format: what it asks, how it reads the answer, how it gives results."""

    name: str
    path: str
    first: Item
    ask: Callable[[list[Item]], Item]
    read: Callable[[httpx.Response], Step]
    answer: Callable[[Sequence[tuple[str, str]]], list[Item]]
    http2: bool = False


class Session(NamedTuple):
    """What a client sent, what of it arrived, and what the model said at the end."""

    sent: list[bytes]
    arrived: list[bytes]
    calls: list[list[tuple[str, str]]]
    end: str


def play(live: Live, asking: Client, *, directly: bool = False) -> Session:
    """Play a session through a proxy, or `directly` with the provider behind it."""
    provider = live.upstream.provider
    url = f"https://localhost:{provider.port}{asking.path}"
    start, items = len(provider.requests), [asking.first]
    sent: list[bytes] = []
    calls: list[list[tuple[str, str]]] = []
    with live.client(proxy=None if directly else "", http2=asking.http2) as client:
        while True:
            sent.append(encoded(asking.ask(items)))
            response = client.post(url, content=sent[-1])
            assert 200 == response.status_code, response.text
            step = asking.read(response)
            if not step.calls:
                break
            calls.append(step.calls)
            items += [*step.items, *asking.answer(step.calls)]
    arrived = [received.body for received in provider.requests[start:]]
    return Session(sent, arrived, calls, step.text)


def check_session(on: Live, plain: Session, asking: Client) -> None:
    """A session ends as a plain one does, and only old results arrive otherwise."""
    masked = play(on, asking)
    assert [] == on.upstream.provider.refusals
    assert ANSWER == masked.end == plain.end
    assert TURNS == len(masked.calls)
    assert [*map(without_signatures, masked.sent)] == [*map(without_signatures, plain.sent)]
    assert plain.sent == plain.arrived
    expected = [mask_by_hand(body, masked.calls[:n]) for n, body in enumerate(masked.sent)]
    assert expected == masked.arrived
    assert len(masked.arrived[-1]) < len(masked.sent[-1]) / 2


def without_signatures(body: bytes) -> bytes:
    """Those of Anthropic's thinking are bound to what arrived."""
    return re.sub(rb'"signature": "\w+"', b"", body)


def mask_by_hand(body: bytes, calls: Sequence[Sequence[tuple[str, str]]]) -> bytes:
    """Return a request with the results of all but the last turns replaced, and nothing else."""
    for call_id, command in (each for turn in calls[:-WINDOW] for each in turn):
        text = output_of(command)
        placeholder = f"<{call_id} shell {len(text)}>"
        assert 1 == body.count(spell(text))
        body = body.replace(spell(text), spell(placeholder))
    return body


def spell(text: str) -> bytes:
    return json.dumps(text, ensure_ascii=False).encode()

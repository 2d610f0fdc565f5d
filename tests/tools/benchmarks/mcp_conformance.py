"""MCP's conformance suite through a real proxy: `python -m tests.tools.benchmarks.mcp_conformance`.

The suite asks a server (`mcp_server.py`) through a proxy, and plays the server for a client
(`mcp_client.py`) behind one. The proxies are a mitmdump that lets streams pass and does nothing
else, ours that masks MCP payloads at the shipped lengths, and ours that cuts every string of more
than 64 characters. The suite's checks must come to the same. Prints a line for each scenario, and
exits with 1 if one differs. A scenario that differs is played up to twice again, since some checks
measure time.

It takes Linux, `mcp`, and in the current folder
`npm install --no-save @modelcontextprotocol/conformance@0.1.16 node@22`.
"""

import argparse
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from addon.proxy.server import ADDON, HOST, Proxy, running_proxy
from tests.live.harness import environment, eventually, read_records
from tests.support.ports import hold_port
from tests.tools.benchmarks.beside_plain import STREAMING

NODE = Path("node_modules/node/bin/node")
SUITE = Path("node_modules/@modelcontextprotocol/conformance/dist/index.js")
CLIENT = f"{sys.executable} -m tests.tools.benchmarks.mcp_client"
TRIES = 3

_SECONDS = 300.0
_SHIPPED = """[observation_masking.mcp]
enabled = true
"""
CONFIGS = {
    "plain": None,
    "ours": _SHIPPED,
    "cut": f"{_SHIPPED}max_chars = 64\nhead_chars = 8\ntail_chars = 8\n",
}
"""The proxies: without the addon, and with it under these settings."""

Checks = tuple[tuple[str, str], ...]
"""What the suite checked, by name, and how that went."""


def list_scenarios(kind: str) -> list[str]:
    """Return the names of the suite's scenarios for a `server` or a `client`."""
    return re.findall(r"^  - (\S+)", run_suite("list", f"--{kind}"), re.MULTILINE)


def run_suite(*arguments: str, **variables: str) -> str:
    """Run the suite; what it prints. It ends with 1 if a check fails, which is no error here."""
    command = [str(NODE.resolve()), str(SUITE.resolve()), *arguments]
    env = {**os.environ, **variables}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=_SECONDS)
    return done.stdout


def check(kind: str, scenario: str, proxy: Proxy) -> Checks:
    """Play a scenario through a proxy. Raises ValueError if the suite wrote no checks."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = [kind, "--scenario", scenario, "-o", folder]
        if kind == "server":
            run_suite(*arguments, "--url", f"http://localhost:{proxy.port}/mcp")
        else:
            arguments += ["--command", CLIENT, "--timeout", str(int(_SECONDS * 500))]
            names = ("HTTP_PROXY", "http_proxy")
            run_suite(*arguments, **dict.fromkeys(names, proxy.url), NO_PROXY="", no_proxy="")
        (found,) = Path(folder).rglob("checks.json")
        checks = json.loads(found.read_bytes())
    return tuple(sorted((c["id"], c["status"]) for c in checks if c["status"] != "INFO"))


@contextmanager
def running_server() -> Iterator[int]:
    """Run the server that the suite asks for; yield its port."""
    port = hold_port()
    command = [sys.executable, "-m", "tests.tools.benchmarks.mcp_server", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        eventually(lambda: is_listening(port) or None)
        yield port
    finally:
        process.terminate()
        process.wait()


def is_listening(port: int) -> bool:
    with suppress(OSError), socket.create_connection((HOST, port)):
        return True
    return False


@contextmanager
def running_side(name: str, *options: str) -> Iterator[tuple[Proxy, Path]]:
    """Run one of the proxies; yield it and its folder."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        script, config = ADDON, CONFIGS[name]
        if config is None:  # mitmdump alone holds a stream back until its end
            script = STREAMING
        else:
            (folder / "config.toml").write_text(config)
            options = (*options, "--set", f"mask_config={folder / 'config.toml'}")
        env = environment(folder)
        with running_proxy(folder, *options, script=script, env=env) as proxy:
            yield proxy, folder


def count_answers(folder: Path) -> tuple[int, int]:
    """Return how many answers of MCP servers a proxy has looked into, and the strings it cut."""
    cuts = [each["cut_strings"] for each in read_records(folder) if "cut_strings" in each]
    return len(cuts), sum(cuts)


def play_all(kind: str, only: str, *options: str) -> Iterator[bool]:
    """Play the scenarios of a kind; yield whether each comes to the same everywhere."""
    with ExitStack() as stack:
        sides = {n: stack.enter_context(running_side(n, *options)) for n in CONFIGS}
        proxies = {name: proxy for name, (proxy, _) in sides.items()}
        for scenario in list_scenarios(kind):
            if only in scenario:
                yield compare(kind, scenario, proxies)
        for name, (proxy, folder) in sides.items():
            if CONFIGS[name]:
                answers, strings = count_answers(folder)
                print(f"{kind}, {name}: {answers} answers of servers, {strings} strings cut")
            if "Traceback" in proxy.log:
                raise RuntimeError(f"a traceback in the log:\n{proxy.log}")


def compare(kind: str, scenario: str, proxies: Mapping[str, Proxy]) -> bool:
    """Play a scenario through each proxy, and print how that went; whether it is the same."""
    for tries in range(1, TRIES + 1):
        found = {name: check(kind, scenario, proxy) for name, proxy in proxies.items()}
        is_same = len({*found.values()}) == 1
        if is_same or tries == TRIES:
            break
    statuses = Counter(status.lower() for _, status in found["plain"])
    counts = ", ".join(f"{count} {name}" for name, count in sorted(statuses.items()))
    told = "the same" if is_same else f"DIFFERS: {found}"
    again = f", at try {tries}" if tries > 1 else ""
    print(f"{kind} {scenario:45} {counts:30} {told}{again}", flush=True)
    return is_same


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="a part of the name of a scenario")
    only = parser.parse_args().only
    with running_server() as port:
        mode = ("--mode", f"reverse:http://localhost:{port}", "--set", "keep_host_header=true")
        outcomes = [*play_all("server", only, *mode), *play_all("client", only)]
    print(f"{len(outcomes)} scenarios, {outcomes.count(False)} differ")
    return int(not outcomes or False in outcomes)


if __name__ == "__main__":
    sys.exit(main())

"""What the addon adds to mitmdump: `python -m tests.tools.benchmarks.footprint` (Linux).

Starts mitmdump alone and with the addon and the shipped settings, in turn, 12 times each. It reads
the CPU time and the resident memory once the process is at rest: after the start, and after ten
requests of 200 kB. It prints medians, and the ratios of each pair: median, least and greatest.
"""

import http.client
import json
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

from addon.commands.demo import write_config
from addon.proxy.server import ADDON, HOST, Proxy, running_proxy
from tests.tools.benchmarks.memory import Provider, resident_mb
from tests.tools.benchmarks.rewrite import build_body

PAIRS = 12
REQUESTS = 10
MESSAGES = 81
"""Of the benchmark's conversation of 1 MB: about 200 kB."""

_ENV = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""To compile the modules at each start is not what is measured here."""

_REST_SECONDS = 0.5
_REST_CPU = 0.002


class Footprint(NamedTuple):
    """CPU time in seconds and resident memory in MB: after the start, and after requests."""

    start_seconds: float
    start_mb: float
    seconds: float
    mb: float


def measure(folder: Path, script: Path, provider: int, bodies: Sequence[bytes]) -> Footprint:
    """Start mitmdump with a script, in front of the provider at a port, and send it requests."""
    config = write_config(folder)
    options = ["--mode", f"reverse:http://{HOST}:{provider}"]
    options += ["--set", f"mask_config={config}"] if script == ADDON else []
    confdir = folder.parent / "ca"
    with running_proxy(folder, *options, script=script, env=_ENV, confdir=confdir) as proxy:
        start_seconds, start_mb = _await_rest(proxy), resident_mb(proxy)
        client = http.client.HTTPConnection(HOST, proxy.port)
        for body in bodies:
            client.request("POST", "/v1/chat/completions", body)
            client.getresponse().read()
        return Footprint(start_seconds, start_mb, _await_rest(proxy), resident_mb(proxy))


def _await_rest(proxy: Proxy) -> float:
    """Return the CPU time that the process has taken, as soon as it takes no more."""
    before, taken = -1.0, _read_cpu(proxy)
    while taken - before > _REST_CPU:  # its watch of the configuration never rests
        time.sleep(_REST_SECONDS)
        before, taken = taken, _read_cpu(proxy)
    return taken


def _read_cpu(proxy: Proxy) -> float:
    """Return the seconds of CPU that the threads of the process have taken."""
    threads = Path(f"/proc/{proxy.pid}/task").glob("*/schedstat")
    return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9


def _build_bodies() -> Iterator[bytes]:
    """Yield the requests of a conversation that grows by two messages each."""
    request = json.loads(build_body())
    for more in range(REQUESTS):
        messages = request["messages"][: MESSAGES + 2 * more]
        yield json.dumps({**request, "messages": messages, "stream": False}).encode()


def _render(name: str, alone: Sequence[float], addon: Sequence[float]) -> str:
    ratios = [ours / theirs for theirs, ours in zip(alone, addon, strict=True)]
    return (
        f"{name:28} {statistics.median(alone):8.2f} {statistics.median(addon):8.2f} "
        f"{statistics.median(ratios):7.2f}  {min(ratios):.2f} to {max(ratios):.2f}"
    )


def main() -> None:
    server = ThreadingHTTPServer((HOST, 0), Provider)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    bodies = tuple(_build_bodies())
    found: list[tuple[Footprint, Footprint]] = []
    with tempfile.TemporaryDirectory() as name:
        empty = Path(name, "empty.py")
        empty.touch()
        for number in range(PAIRS + 1):
            pair = []
            for script in (empty, ADDON):
                folder = Path(name, f"{number}-{script.stem}")
                folder.mkdir()
                pair.append(measure(folder, script, server.server_port, bodies))
            found.append((pair[0], pair[1]))
    del found[0]  # which made the certificate authority, and read files that no cache held
    columns = [zip(*(pair[which] for pair in found), strict=True) for which in (0, 1)]
    names = ("start, s of CPU", "start, MB", f"{REQUESTS} requests later, s of CPU", "later, MB")
    print(f"{'':28} {'mitmdump':>8} {'addon':>8}   ratio  of {PAIRS} pairs")
    for label, alone, addon in zip(names, *columns, strict=True):
        print(_render(label, alone, addon))


if __name__ == "__main__":
    main()

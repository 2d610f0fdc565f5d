"""Faults of providers, clients and the machine: `python -m tests.tools.benchmarks.faults` (Linux).

Each fault passes through a plain mitmdump and through one with the addon, over HTTP/1.1 or, both
ways, over HTTP/2. The client must get the same bytes from both, or see the same end; the proxy must
live, write no traceback, and leave a record file of which every line can be read. What happens to
the machine (a full disk, a folder that is gone, a configuration that is replaced all the time, a
clock that jumps, SIGTERM and SIGKILL at each phase) has no plain mitmdump beside it: there the
traffic must pass. Prints a line for each, and exits with 1 if one does not hold. `--only` takes
those with a word in their name. For the clock it takes Debian's `libfaketime`.
"""

import argparse
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from addon.proxy.server import HOST
from tests.tools.benchmarks import http2_faults
from tests.tools.benchmarks.fault_bench import (
    Bench,
    Connection,
    Provider,
    exchange,
    is_sound,
    read_errors,
    wait_for,
)
from tests.tools.benchmarks.fault_list import (
    ANSWERS,
    HALVES,
    PHASES,
    REQUESTS,
    STALL,
    WHOLE,
    answer,
)
from tests.tools.benchmarks.machine_faults import MACHINE, check_signal


def check_answer(bench: Bench, name: str) -> bool:
    bench.provider.actions = ANSWERS[name]
    plain = bench.streaming if name.startswith("stream:") else bench.plain
    return exchange(plain.port, [WHOLE]) == exchange(bench.ours.port, [WHOLE])


def check_request(bench: Bench, name: str) -> bool:
    """Whether both proxies serve the next client as well after a client's fault."""
    bench.provider.actions = [STALL, answer()]
    for proxy in (bench.plain, bench.ours):
        exchange(proxy.port, REQUESTS[name], leaves=True)
    bench.provider.actions = [answer()]
    return exchange(bench.plain.port, [WHOLE]) == exchange(bench.ours.port, [WHOLE])


def check_half(bench: Bench, name: str) -> bool:
    """Whether a client gets the same from both that has said that it sends no more."""
    bench.provider.actions = [STALL, answer()]
    seen = exchange(bench.plain.port, HALVES[name])
    return seen == exchange(bench.ours.port, HALVES[name])


def check_http2_answer(bench: Bench, name: str) -> bool:
    """Whether a client gets the same from both, and the record names who ended the answer."""
    bench.other.actions = http2_faults.ANSWERS[name]
    bench.other.early = name.startswith("early:")
    plain = bench.streaming_http2 if name.startswith("stream:") else bench.plain_http2
    seen = http2_faults.exchange(plain.port)
    folder = bench.folder / "ours-http2"
    before = len(read_errors(folder))
    is_same = seen == http2_faults.exchange(bench.ours_http2.port)
    wait_for(lambda: len(read_errors(folder)) > before)
    has_left = read_errors(folder)[before:] == ["client left"]
    return is_same and has_left == (name in http2_faults.LEFT)


def check_http2_request(bench: Bench, name: str) -> bool:
    """Whether both proxies serve the next client as well after a client's fault."""
    whole = http2_faults.ANSWERS["a whole answer"]
    bench.other.actions, bench.other.early = [http2_faults.STALL, *whole], False
    for proxy in (bench.plain_http2, bench.ours_http2):
        http2_faults.exchange(proxy.port, http2_faults.REQUESTS[name], leaves=True)
    bench.other.actions = whole
    seen = http2_faults.exchange(bench.plain_http2.port)
    return seen == http2_faults.exchange(bench.ours_http2.port) and seen.end == "whole"


def list_checks(bench: Bench) -> Iterator[tuple[str, Callable[[], bool]]]:
    """Yield each fault by its name, and what tells whether all is as it should be."""
    for name in ANSWERS:
        yield name, partial(check_answer, bench, name)
    for name in REQUESTS:
        yield name, partial(check_request, bench, name)
    for name in HALVES:
        yield name, partial(check_half, bench, name)
    yield "the proxy after all of these", partial(is_sound, bench.folder / "ours")
    for name in http2_faults.ANSWERS:
        yield f"HTTP/2: {name}", partial(check_http2_answer, bench, name)
    for name in http2_faults.REQUESTS:
        yield f"HTTP/2: {name}", partial(check_http2_request, bench, name)
    yield "HTTP/2: the proxy after these", partial(is_sound, bench.folder / "ours-http2")
    for name, check in MACHINE.items():
        yield name, partial(check, bench)
    for number in (signal.SIGTERM, signal.SIGKILL):
        for phase in PHASES:
            yield f"{number.name} {phase}", partial(check_signal, bench, number, phase)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="a part of the name of a fault")
    only = parser.parse_args().only
    failed = 0
    with (
        tempfile.TemporaryDirectory() as folder,
        Provider((HOST, 0), Connection) as provider,
        http2_faults.running_provider(Path(folder, "tls")) as other,
        ExitStack() as stack,
    ):
        threading.Thread(target=provider.serve_forever, args=(0.02,), daemon=True).start()
        bench = Bench(provider, other, Path(folder), stack)
        for name, check in list_checks(bench):
            if only not in name:
                continue
            holds = check()
            failed += not holds
            print(f"{name:60} {'holds' if holds else 'DOES NOT HOLD'}", flush=True)
        provider.shutdown()
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())

"""Replay at scale: `python -m tests.tools.benchmarks.replay_scale --requests 10000` (Linux).

Makes a folder of made-up conversations with so many requests in all, of sizes like those of real
ones, and replays it with one process, with two, and on a Dask cluster of two (`--ways`), in turn,
in each of `--rounds`; with `--command tune` it tunes it instead. It prints requests a second, CPU
time, and the most memory that the main process and its workers took, each with the least and the
most of the rounds. What it makes depends on nothing but the number of requests.
"""

import argparse
import contextlib
import importlib
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from tests.support.talks import work

SEED = 15
PER_FILE = 20
"""Conversations."""

TURNS = (3, 2.5, 0.7, 120)
CHARS = (100, 6.5, 1.2, 30_000)
"""Of a conversation, and of a tool result: least, mean and deviation of the logarithm, most."""

COMMANDS = {"replay": ("replay", "--total"), "tune": ("tune",)}

_KB = 1024
_PAUSE = 0.1


class Measured(NamedTuple):
    """One run: seconds, and MB at most; `cpu` is of all processes, but for a cluster's."""

    seconds: float
    cpu: float
    main_mb: float
    workers_mb: float
    output: str


def make_recordings(folder: Path, requests: int) -> int:
    """Write files of conversations with so many requests together; return how many bytes."""
    source = random.Random(SEED)
    left = requests
    number = 0
    while left:
        with (folder / f"{number:06}.jsonl").open("w", encoding="utf-8") as file:
            for _ in range(PER_FILE if left else 0):
                turns = min(left, draw(source, TURNS))
                left -= turns
                file.write(json.dumps(make_conversation(source, turns)) + "\n")
                if not left:
                    break
        number += 1
    return sum(file.stat().st_size for file in folder.iterdir())


def make_conversation(source: random.Random, turns: int) -> dict[str, object]:
    """Return a conversation with a tool call in each answer; each answer stands for a request."""
    messages = work(turns, chars=0)
    for message in messages:
        if message["role"] == "tool":
            message["content"] = make_text(source, draw(source, CHARS))
    task = {"role": "user", "content": make_text(source, 400)}
    return {"model": "gpt-4o", "messages": [messages[0], task, *messages[1:]]}


def make_text(source: random.Random, chars: int) -> str:
    """Return lines of made-up names and numbers, of about so many characters."""
    lines = []
    while chars > 0:
        name, number = source.randrange(10_000), source.randrange(1_000_000)
        lines.append(f"src/part_{name % 97}/module_{name}.py:{number % 900}: value = {number}")
        chars -= len(lines[-1]) + 1
    return "\n".join(lines)


def draw(source: random.Random, spread: tuple[int, float, float, int]) -> int:
    """Return a number of a distribution with a long tail, within bounds."""
    least, mean, deviation, most = spread
    return min(most, max(least, round(source.lognormvariate(mean, deviation))))


def measure(arguments: Sequence[str], workers: Sequence[int] = ()) -> Measured:
    """Run a command of ours in a process of its own; `workers` are those that it did not start."""
    command = [sys.executable, "-m", "addon.commands.main", *arguments]
    began = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as started:
        peaks = _Peaks(started.pid, workers)
        thread = threading.Thread(target=peaks.watch)
        thread.start()
        out = started.stdout.read() if started.stdout else ""
        peaks.stop()
        thread.join()
        _, status, usage = os.wait4(started.pid, 0)
        started.returncode = os.waitstatus_to_exitcode(status)
    if started.returncode:
        raise RuntimeError(f"it failed: {' '.join(command)}")
    cpu = usage.ru_utime + usage.ru_stime
    return Measured(time.monotonic() - began, cpu, peaks.main, peaks.workers, out)


class _Peaks:
    """The most resident memory of a process, and of its workers together, in MB."""

    def __init__(self, pid: int, workers: Sequence[int]) -> None:
        self.main = self.workers = 0.0
        self._pid, self._others = pid, workers
        self._ended = threading.Event()

    def watch(self) -> None:
        """Look now and then until it is stopped."""
        while not self._ended.wait(_PAUSE):
            self.main = max(self.main, read_mb(self._pid))
            workers = self._others or find_children(self._pid)
            self.workers = max(self.workers, sum(map(read_mb, workers)))

    def stop(self) -> None:
        """End the watch."""
        self._ended.set()


def find_children(pid: int) -> list[int]:
    """Return the processes that a process has started, and those that they have."""
    found = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (task / "children").read_text().split()):
                found += [child, *find_children(child)]
    return found


def read_mb(pid: int) -> float:
    """Return the resident memory of a process; 0 if it has ended."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / _KB
    return 0.0


@contextlib.contextmanager
def _cluster() -> Iterator[tuple[str, list[int]]]:
    """Give the address of a Dask cluster of two processes, and these."""
    distributed = importlib.import_module("distributed")
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster:
        yield cluster.scheduler_address, find_children(os.getpid())


def measure_way(way: str, command: Sequence[str]) -> Measured:
    """Run a command in so many processes, or on a `cluster`."""
    if way != "cluster":
        return measure([*command, "--processes", way])
    with _cluster() as (address, workers):
        return measure([*command, "--scheduler", address], workers)


def show(way: str, requests: int, rounds: Sequence[Measured]) -> str:
    """Return a way's line."""
    rates = [requests / found.seconds for found in rounds]
    return (
        f"{way:>8}: {spread(rates)} requests/s, {spread([found.seconds for found in rounds])} s, "
        f"CPU {spread([found.cpu for found in rounds])} s, "
        f"main process {spread([found.main_mb for found in rounds])} MB, "
        f"workers {spread([found.workers_mb for found in rounds])} MB"
    )


def spread(values: Sequence[float]) -> str:
    """Return the least and the most of some values, or the one that both are."""
    ends = dict.fromkeys(f"{value:,.0f}" for value in (min(values), max(values)))
    return " to ".join(ends)


def main() -> int:
    """Make the recordings and print a line for each way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--command", choices=COMMANDS, default="replay")
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--ways", default="1,2,cluster")
    parser.add_argument("--rounds", type=int, default=1)
    given = parser.parse_args()
    ways = given.ways.split(",")
    if "cluster" in ways and find_spec("distributed") is None:
        parser.error("a cluster needs Dask: pip install -e '.[dask]', or --ways 1,2")
    with tempfile.TemporaryDirectory(prefix="obsmask-") as name:
        size = make_recordings(Path(name), given.requests)
        print(f"{given.requests:,} requests, {size / _KB**2:,.0f} MB of conversations", flush=True)
        command = [*COMMANDS[given.command], name]
        rounds = [{way: measure_way(way, command) for way in ways} for _ in range(given.rounds)]
    for way in ways:
        print(show(way, given.requests, [of_round[way] for of_round in rounds]))
    outputs = {found.output for of_round in rounds for found in of_round.values()}
    print("all ways come to the same:" if len(outputs) == 1 else "THE WAYS DIFFER")
    print(*outputs, sep="\n")
    return len(outputs) - 1


if __name__ == "__main__":
    sys.exit(main())

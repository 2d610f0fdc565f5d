"""Looks for requests that are rewritten wrongly.

Run it by `python -m tests.tools.benchmarks.fuzz --bodies N`.

Conversations in all wire formats, made up and recorded, grow, branch and are spelled anew, under
settings of every kind; some bodies are damaged on their way. Each goes through a process that
remembers what it has read and one that does not, which must agree, and an oracle checks what is
sent (`tests.tools.fuzz`). Every sixteenth play is of answers of MCP servers. A finding is written
to a folder, with the seed and the number that play it again. With `--progress` a run that is
stopped goes on later from where it was. Exits with 1 if there are any findings.
"""

import gc
import json
import subprocess
import sys
import time
from argparse import ArgumentParser, Namespace
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from addon.commands.workers import open_processes
from addon.version import VERSION
from tests.support.places import ROOT
from tests.tools.fuzz.findings import Finding, find, replay, write
from tests.tools.fuzz.play import REQUESTS

_SHARD = 20
"""How many plays are done at a time."""

_ABREAST = 4
"""How many times as many are asked for as there are processes, so that none of them waits."""


class Done(NamedTuple):
    """What a shard of plays came to: where it began, how many, and what was found."""

    first: int
    plays: int
    findings: list[Finding]


def main(arguments: Sequence[str] | None = None) -> int:
    given = _parse(arguments)
    if given.replay:
        return _replay(given.replay)
    first, found = (given.only, 0) if given.only is not None else _read_progress(given)
    last = first + 1 if given.only is not None else max(1, given.bodies // REQUESTS)
    began, plays = time.monotonic(), first
    for done in _run(given.seed, given.shards, first, last):
        for finding in done.findings:
            found += 1
            print(f"play {finding.play}: {finding.says}", flush=True)
            write(given.into, given.seed, finding)
        plays = done.first + done.plays
        if given.progress:
            state = {"seed": given.seed, "plays": plays, "findings": found}
            given.progress.write_text(json.dumps(state))
        if not plays % (25 * _SHARD):
            print(f"{plays * REQUESTS:,} bodies, {found} findings", file=sys.stderr, flush=True)
    rate = (plays - first) * REQUESTS / (time.monotonic() - began)
    bodies = plays * REQUESTS if given.only is None else REQUESTS
    told = f"seed {given.seed}, version {_find_version()}"
    print(f"{bodies:,} bodies ({told}), {found} findings, {rate:.0f} bodies/s")
    return int(found > 0)


def _run(seed: int, shards: int, first: int, last: int) -> Iterator[Done]:
    """Yield shards in order, as they are done."""
    starts = iter(range(first, last, _SHARD))
    with open_processes(shards) as pool:
        tasks: deque[Future[Done]] = deque()
        for start in starts:
            tasks.append(pool.submit(_find, seed, start, min(_SHARD, last - start)))
            if len(tasks) >= _ABREAST * shards:
                yield tasks.popleft().result()
        while tasks:
            yield tasks.popleft().result()


def _find(seed: int, first: int, plays: int) -> Done:
    """Do a shard of plays. Python's collector rests: there is little garbage for it in them."""
    gc.disable()
    found = [*islice(find(seed, range(first, first + plays)), 5)]
    gc.enable()
    gc.collect()
    return Done(first, plays, found)


def _replay(files: Sequence[Path]) -> int:
    told = [(file, replay(file)) for file in files]
    for file, wrong in told:
        print(f"{file}: {wrong or 'right'}")
    return int(any(wrong for _, wrong in told))


def _read_progress(given: Namespace) -> tuple[int, int]:
    """Return the play to go on with, and how much was found; the first, if the seed is another."""
    if given.progress is None or not given.progress.exists():
        return 0, 0
    told = json.loads(given.progress.read_text())
    return (told["plays"], told["findings"]) if told["seed"] == given.seed else (0, 0)


def _find_version() -> str:
    """Return the version of what was tried: the commit, in a checkout."""
    command = ("git", "-C", str(ROOT), "describe", "--always", "--dirty")
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return VERSION
    return done.stdout.strip()


def _parse(arguments: Sequence[str] | None) -> Namespace:
    parser = ArgumentParser(description="Look for requests that are rewritten wrongly.")
    parser.add_argument("--bodies", type=int, default=24_000, help="how many are sent in all")
    parser.add_argument("--seed", type=int, default=1, help="another one has other plays")
    parser.add_argument("--shards", type=int, default=1, help="how many processes do the work")
    parser.add_argument("--only", type=int, help="the number of the one play to do")
    parser.add_argument("--progress", type=Path, help="a file that says what was done")
    parser.add_argument("--into", type=Path, default=Path("fuzz-findings"), help="a folder")
    parser.add_argument("--replay", type=Path, nargs="+", help="files of findings to try again")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())

"""Looks for requests that are rewritten wrongly: `python -m tests.benchmarks.fuzz --bodies N`.

Conversations in all wire formats grow, branch and are spelled anew, under settings of every kind;
some bodies are damaged on their way. Each goes through a process that remembers what it has read
and one that does not, which must agree, and an oracle checks what is sent (`tests.fuzz`). A finding
is written to a folder, with the seed and the number that play it again. Exits with 1 if there are
any.
"""

import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from masking.replay.processes import open_processes
from tests.fuzz.play import REQUESTS, Finding, find

_SHARD = 20
"""How many plays are done at a time."""


def main(arguments: Sequence[str] | None = None) -> int:
    given = _parse(arguments)
    first = given.only if given.only is not None else 0
    plays = 1 if given.only is not None else max(1, given.bodies // REQUESTS)
    numbers = [
        range(at, min(at + _SHARD, first + plays)) for at in range(first, first + plays, _SHARD)
    ]
    began, found, done = time.monotonic(), 0, 0
    with open_processes(given.shards) as pool:
        tasks = [pool.submit(_find, given.seed, each) for each in numbers]
        for each, task in zip(numbers, tasks, strict=True):
            for finding in task.result():
                found += 1
                print(f"play {finding.play}: {finding.says}", flush=True)
                _write(given.into, given.seed, finding)
            done += len(each)
            if not done % (25 * _SHARD):
                print(f"{done * REQUESTS:,} bodies, {found} findings", file=sys.stderr, flush=True)
    bodies = plays * REQUESTS
    rate = bodies / (time.monotonic() - began)
    print(f"{bodies:,} bodies of {plays:,} plays, {found} findings, {rate:.0f} bodies/s")
    return int(found > 0)


def _find(seed: int, numbers: Sequence[int]) -> list[Finding]:
    return [*islice(find(seed, numbers), 5)]


def _write(folder: Path, seed: int, finding: Finding) -> None:
    """Write the last body of a finding, and beside it how to play it again."""
    folder.mkdir(parents=True, exist_ok=True)
    name = folder / f"{seed}-{finding.play}"
    name.with_suffix(".body").write_bytes(finding.body)
    again = f"python -m tests.benchmarks.fuzz --seed {seed} --only {finding.play}"
    told = (again, finding.says, f"request {finding.requests}, {finding.writer}")
    name.with_suffix(".txt").write_text("\n".join((*told, f"{finding.strategies}\n")))


def _parse(arguments: Sequence[str] | None) -> Namespace:
    parser = ArgumentParser(description="Look for requests that are rewritten wrongly.")
    parser.add_argument("--bodies", type=int, default=24_000, help="how many are sent")
    parser.add_argument("--seed", type=int, default=1, help="another one has other plays")
    parser.add_argument("--shards", type=int, default=1, help="how many processes do the work")
    parser.add_argument("--only", type=int, help="the number of the one play to do")
    parser.add_argument("--into", type=Path, default=Path("fuzz-findings"), help="a folder")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())

"""`obsmask replay` over logs: `python -m tests.benchmarks.replay_logs --sessions 340` (Linux).

Makes a home with so many made-up sessions of Claude Code in it, spread over 30 days, and replays it
as a new user would, `--rounds` times, each beside a `python -c pass`. It prints the seconds until
the first figure and until the answer, the CPU time, and the memory of the largest process.
"""

import argparse
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from tests.support.made_logs import MadeSession, write_claude_code

SEED = 30
TURNS = (5, 12, 25, 60, 150, 400)
FIRST = "So far"


class Measured(NamedTuple):
    """A run: seconds, those of the first figure beyond a bare start, and MB of a process."""

    first: float
    total: float
    cpu: float
    most_mb: float


def make_home(home: Path, sessions: int) -> int:
    """Write sessions where Claude Code keeps them; return how many bytes they take."""
    rng, now, size = random.Random(SEED), datetime.now(UTC), 0
    for number in range(sessions):
        began = now - timedelta(days=29 * number / sessions, hours=6)
        made = MadeSession(turns=rng.choice(TURNS), began=began, seed=number)
        path = write_claude_code(home / ".claude" / "projects", made)
        ended = (began + timedelta(seconds=made.turns * (made.pause + 1))).timestamp()
        os.utime(path, (ended, ended))
        size += path.stat().st_size
    return size


def run(home: Path) -> Measured:
    """Replay a home once."""
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    bare = time.monotonic() - began
    before, began, first = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic(), 0.0
    with subprocess.Popen(
        [sys.executable, "-m", "addon.commands.main", "replay"],
        env={**os.environ, "HOME": str(home)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if FIRST in line and not first:
                first = time.monotonic() - began - bare
    if process.returncode:
        raise SystemExit(f"replay failed: {process.returncode}")
    total, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Measured(first or total, total, cpu, after.ru_maxrss / 1024)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print a line for each round."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--sessions", type=int, default=340)
    parser.add_argument("--rounds", type=int, default=1)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        size = make_home(Path(folder), given.sessions)
        print(f"{given.sessions} sessions, {size / 1e6:,.0f} MB")
        print("first figure s, answer s, CPU s, largest process MB")
        for _ in range(given.rounds):
            found = run(Path(folder))
            print(f"{found.first:.1f}, {found.total:.1f}, {found.cpu:.1f}, {found.most_mb:.0f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""How long an agent waits: `python -m tests.tools.benchmarks.start [--runs 20]`.

Runs `obsmask run -- true` and `mitmdump --version` in turn, in a home of their own, and prints the
median of each in seconds, and the median of the ratios of the pairs. Wall time is what a user
waits, on a machine that has nothing else to do; two processes load beside each other there. CPU
time, of all processes, hardly depends on what else runs.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

from tests.live.harness import environment

RUN = (sys.executable, "-m", "addon.commands.main", "run", "--", "true")
PLAIN = (sys.executable, "-c", "from mitmproxy.tools.main import mitmdump; mitmdump()", "--version")


class Cost(NamedTuple):
    """The seconds of a run, and those of the CPU in it."""

    wall: float
    cpu: float


def measure(command: tuple[str, ...], home: Path) -> Cost:
    """Return what a command costs, with all processes that it has waited for."""
    # Compiled modules have to be there, as they are where it is installed.
    given = {**environment(home), "PYTHONDONTWRITEBYTECODE": ""}
    before, began = os.times(), time.perf_counter()
    subprocess.run(command, env=given, check=True, stdout=subprocess.DEVNULL)
    wall, after = time.perf_counter() - began, os.times()
    user = after.children_user - before.children_user
    return Cost(wall, user + after.children_system - before.children_system)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as name:
        for command in (RUN, PLAIN):
            measure(command, Path(name))  # which makes the authority, and compiles
        pairs = [(measure(RUN, Path(name)), measure(PLAIN, Path(name))) for _ in range(runs)]
    for kind in Cost._fields:
        ours = [getattr(run, kind) for run, _ in pairs]
        plain = [getattr(version, kind) for _, version in pairs]
        ratio = median(a / b for a, b in zip(ours, plain, strict=True))
        print(
            f"{kind:<4}  obsmask run -- true {median(ours):.2f} s  "
            f"mitmdump --version {median(plain):.2f} s  {ratio:.2f} times"
        )


if __name__ == "__main__":
    main()

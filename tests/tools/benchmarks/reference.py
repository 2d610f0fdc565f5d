"""Holds the fast road equal to the reference: `python -m tests.tools.benchmarks.reference`.

Makes up conversations in every format, under settings and prices of every kind, and prints in which
of them a reason, or a byte, is another one than `tests/spec/reference.py` says. Exits with 1 if
there are any. 20,000 conversations take two and a half minutes.
"""

import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from random import Random

from tests.spec.compared import FORMATS, compare, compare_messages


def main(arguments: Sequence[str] | None = None) -> int:
    parser = ArgumentParser(description="Hold the fast road equal to the reference.")
    parser.add_argument("--conversations", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1, help="another one has other conversations")
    given = parser.parse_args(arguments)
    found = 0
    for number in range(given.conversations):
        writer, seed = FORMATS[number % len(FORMATS)], f"{given.seed}.{number}"
        wrong = compare(writer, Random(seed))
        if wrong is None and writer is FORMATS[0]:
            wrong = compare_messages(Random(seed))
        if wrong is not None:
            found += 1
            print(f"conversation {number} ({writer.name}): {wrong}")
    print(f"{given.conversations:,} conversations (seed {given.seed}), {found} differences")
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())

"""JSONTestSuite through a real proxy: `python -m tests.tools.benchmarks.json_suite` (Linux).

Each file as a whole request body, and in seven places of a conversation in each wire format, passes
through a plain mitmdump and through one with the addon. The plain one must let it pass as it was
sent; ours, too, but where the body is JSON every result before the window is masked. Headers and
answers must be the same. Prints what became of the files of each kind in each place, and exits with
1 if anything differs.
"""

import argparse
import http.client
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from addon.proxy.server import HOST, Proxy
from tests.support.json_suite import (
    ARCHIVE,
    FORMATS,
    TEMPLATE,
    WINDOW,
    Case,
    build_cases,
    read_files,
)
from tests.tools.benchmarks.beside_plain import Answers, running_provider, running_side

CONFIG = f"""[observation_masking.schema1]
enabled = true
window_turns = {WINDOW}
keep_errors = false
placeholder_template = "{TEMPLATE}"
skip_if_not_shorter = false
mask_text_parts = true
cache_pricing = "none"

[observation_masking.memory]
enabled = false
"""
KINDS = {"y": "JSON", "n": "not JSON", "i": "either"}


class Passed(NamedTuple):
    """What reached the provider, without the length that it was said to have, and its answer."""

    headers: list[tuple[str, str]]
    body: bytes
    answer: tuple[int, bytes]


class Side:
    """A proxy, and the provider behind it, which keeps what reaches it."""

    def __init__(self, name: str, stack: ExitStack, *options: str) -> None:
        arrived: list[tuple[list[tuple[str, str]], bytes]] = []

        class Provider(Answers):
            def take(self, request: bytes) -> None:
                arrived.append((self.headers.items(), request))

        port = stack.enter_context(running_provider(Provider))
        self.proxy: Proxy = stack.enter_context(running_side(name, port, *options))
        self._port, self._arrived = port, arrived
        self._client = http.client.HTTPConnection(HOST, self.proxy.port, timeout=600)

    def send(self, case: Case) -> Passed:
        """Send a body. Raises ValueError if it does not reach the provider, or more than once."""
        self._arrived.clear()
        self._client.request("POST", case.path, case.body, {"content-type": "application/json"})
        answer = self._client.getresponse()
        told = answer.status, answer.read()
        ((headers, body),) = self._arrived
        here, there = str(self._port), "PORT"
        kept = [(n, v.replace(here, there)) for n, v in headers if n.lower() != "content-length"]
        return Passed(kept, body, told)


def judge(case: Case, plain: Passed, ours: Passed) -> str:
    """Return what became of a body: `masked`, `untouched`, or what is wrong."""
    if plain.body != case.body:
        return "CHANGED BY PLAIN MITMDUMP"
    if (plain.headers, plain.answer) != (ours.headers, ours.answer):
        return "OTHER HEADERS OR ANSWER"
    if ours.body not in case.expected:
        return "DIFFERS"
    return "untouched" if ours.body == case.body else "masked"


def pass_all(archive: Path, only: str) -> Iterator[tuple[str, str, Case, str]]:
    """Yield each file's kind and name, each case of it, and what became of that."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        config = Path(folder, "config.toml")
        config.write_text(CONFIG)
        plain = Side("plain", stack)
        ours = Side("ours", stack, "--set", f"mask_config={config}")
        for file in read_files(archive):
            for writer in FORMATS:
                for case in build_cases(file, writer):
                    name = f"{file.name}, {writer.name}"
                    if only in name:
                        outcome = judge(case, plain.send(case), ours.send(case))
                        yield file.name[0], name, case, outcome
        if "Traceback" in ours.proxy.log:
            raise RuntimeError(f"a traceback in the log:\n{ours.proxy.log}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--archive", type=Path, default=ARCHIVE, help="another copy of the suite")
    parser.add_argument("--only", default="", help="a part of the name of a file or a format")
    options = parser.parse_args()
    outcomes: Counter[tuple[str, str, str]] = Counter()
    wrong = 0
    for kind, name, case, outcome in pass_all(options.archive, options.only):
        outcomes[case.name, kind, outcome] += 1
        if outcome not in ("masked", "untouched"):
            wrong += 1
            print(f"{name}, {case.name}: {outcome}", flush=True)
    print(f"{'place':22} {'file':9} {'masked':>7} {'untouched':>10}")
    for place, kind in sorted({key[:2] for key in outcomes}):
        masked, untouched = (outcomes[place, kind, each] for each in ("masked", "untouched"))
        print(f"{place:22} {KINDS[kind]:9} {masked:7,} {untouched:10,}")
    print(f"{outcomes.total():,} bodies, {wrong} wrong")
    return int(wrong > 0 or not outcomes)


if __name__ == "__main__":
    sys.exit(main())

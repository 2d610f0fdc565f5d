"""The vendors' own clients through a real proxy: `python -m tests.tools.benchmarks.sdks` (Linux).

Programs on the clients of OpenAI, Anthropic and Google, in Python also on the asynchronous ones
(`sdk_programs`), play the same cases through mitmdump alone, which is told to let streams pass
where there are any, and through one with the addon, each before a strict scripted provider:
sessions of tool calls, with images, with long results, many at once, answers that are compressed
or break off, and errors that pass or stay.

What a client returns or raises must be the same, event by event, but for the usage where requests
were masked. What arrives must be the same, too, with exactly the old results masked. Prints a line
for each program, and exits with 1 if anything differs or a client is missing.

    python3 -m venv sdks && sdks/bin/pip install openai anthropic google-genai
    npm install --no-save openai @anthropic-ai/sdk @google/genai
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from masking.conversation import read_conversation
from masking.wire import find_format
from tests.live.harness import ON, environment, policy_of
from tests.support.differences import compare, list_slots
from tests.support.images import png
from tests.support.places import ROOT
from tests.support.priced import rewrite_request
from tests.tools.benchmarks.beside_plain import running_side
from tests.tools.provider.provider import Provider
from tests.tools.provider.script import Received, Reply, call

PROGRAMS = Path(__file__).with_name("sdk_programs")
CLIENTS = {
    "openai_program.py": "openai",
    "anthropic_program.py": "anthropic",
    "google_program.py": "google-genai",
    "openai_program.mjs": "openai",
    "anthropic_program.mjs": "@anthropic-ai/sdk",
    "google_program.mjs": "@google/genai",
}
"""Each program, and the client that it takes."""

ANSWER = "All of it is done now, and nothing is left to do."
TURNS = {"session": 10, "images": 5, "long": 5, "gzip": 3, "many": 3}
"""How many turns of tool calls come before the answer, by kind of case; none if it is not here."""

KINDS = (
    *("session", "images", "long", "gzip", *(f"many {n}" for n in range(8))),
    *("fail 400 9", "fail 401 9", "fail 429 1", "fail 429 9", "fail 500 2", "fail 500 9"),
    *("fail 529 1", "dies 0", "dies 3"),
)
SIDES = {"plain": (False,), "streaming": (True,), "ours": (False, True)}
"""The proxies, and whether what they are given streams."""

_USAGE = ("usage", "usage_metadata", "usageMetadata")
_SECONDS = 1800.0
_CASE = re.compile(rb"case: (\w+ (\w+)(?: (\d+))?(?: (\d+))?(?: stream)?)\.")

Played = dict[str, Any]
"""What a client returned or raised in each case, by its name."""


def list_cases(side: str) -> Iterator[dict[str, Any]]:
    for kind in KINDS:
        for stream in SIDES[side]:
            case: dict[str, Any] = {"name": kind, "stream": stream}
            case["chars"] = 200_000 if kind == "long" else 900
            yield case | ({"image": png()} if kind == "images" else {})


class Replies:
    """What the provider answers: a case is told by its name, which is in every request of it."""

    def __init__(self) -> None:
        self._tries: Counter[str] = Counter()

    def __call__(self, received: Received) -> Reply:
        name, kind, *numbers = read_case(received)
        self._tries[name] += 1
        if kind == "fail" and self._tries[name] <= int(numbers[1]):
            return Reply(status=int(numbers[0]))
        if kind == "dies":
            return Reply(content=ANSWER, dies_after=int(numbers[0]))
        place = sum(bool(said.tools) for said in received.said)
        if place == TURNS.get(kind, 0):
            return Reply(content=ANSWER, gzip=kind == "gzip")
        calls = (call(f"call_{place}_{n}", "shell", number=n) for n in range(1 + place % 2))
        return Reply(content="Let me look.", calls=tuple(calls), gzip=kind == "gzip")


def read_case(received: Received) -> tuple[str, ...]:
    """Return the name of a request's case, its kind, and its numbers."""
    found = _CASE.search(received.body)
    if found is None:
        raise ValueError("the request of no case")
    return tuple((each or b"").decode() for each in found.groups())


class Seen(NamedTuple):
    """What a program printed, and what reached the provider, by case; what the provider refused."""

    played: Played
    requests: Mapping[str, list[Received]]
    refusals: list[str]


def play(command: Sequence[str], only: str, side: str) -> Seen:
    """Run a program through a proxy, whose URL it is given. Raises RuntimeError if it fails."""
    cases = "\n".join(json.dumps(case) for case in list_cases(side) if only in case["name"])
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        config = Path(folder, "config.toml")
        config.write_bytes(ON)
        options = ("--set", f"mask_config={config}") if side == "ours" else ()
        provider = stack.enter_context(Provider(Replies(), strict=True))
        proxy = stack.enter_context(running_side(side, provider.port, *options))
        done = subprocess.run(
            [*command, proxy.url],
            input=cases,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            env=environment(Path(folder), PYTHONPATH=str(ROOT)),
        )
        if done.returncode or "Traceback" in proxy.log:
            raise RuntimeError(f"{command} failed:\n{done.stderr}\n{proxy.log}")
    lines = (json.loads(line) for line in done.stdout.splitlines())
    requests = defaultdict(list)
    for received in provider.requests:
        requests[read_case(received)[0]].append(received)
    return Seen({each["case"]: each["returned"] for each in lines}, requests, provider.refusals)


class Outcome(NamedTuple):
    """A program's figures, and what differs."""

    cases: int
    requests: int
    masked: int
    faults: list[str]


def judge(plain: Seen, streaming: Seen, ours: Seen) -> Outcome:
    """Compare what came of the cases with the addon and without it."""
    played = plain.played | streaming.played
    requests = {**plain.requests, **streaming.requests}
    faults = [f"refused: {each}" for side in (plain, streaming, ours) for each in side.refusals]
    if played.keys() != ours.played.keys():
        faults.append("other cases")
    masked = 0
    for name in played.keys() & ours.played.keys():
        pairs = zip(requests.get(name, ()), ours.requests.get(name, ()), strict=True)
        try:
            changed = sum(count_masked(before, after) for before, after in pairs)
        except (AssertionError, ValueError) as error:
            faults.append(f"{name}: what arrives differs ({error})")
            continue
        masked += changed
        left_out = _USAGE if changed else ()
        wanted, got = (without(each[name], left_out) for each in (played, ours.played))
        if wanted != got:
            faults.append(f"{name}: without the addon {wanted}, with it {got}")
    return Outcome(len(played), sum(map(len, ours.requests.values())), masked, faults)


def count_masked(before: Received, after: Received) -> int:
    """Return how many texts are masked. Raises AssertionError if anything else differs."""
    assert (before.path, before.query) == (after.path, after.query)
    assert list_headers(before) == list_headers(after)
    found = find_format("POST", before.path)
    if found is None:
        assert before.body == after.body
        return 0
    expected = rewrite_request(before.body, policy_of(ON), found.wire, before.path)
    assert expected.body == after.body
    conversation = read_conversation(json.loads(before.body), found.wire, before.path)
    places = {*list_slots(conversation)}
    changed = [*compare(before.body, after.body)]
    assert {*changed} <= places
    return len(changed)


def list_headers(received: Received) -> list[tuple[str, str]]:
    """Return all but what differs from run to run, or with the body."""
    return [each for each in received.headers if each[0].lower() not in _VARIES]


_VARIES = ("content-length", "host")


def without(value: Any, names: tuple[str, ...]) -> Any:  # noqa: ANN401 - any JSON
    """Return a JSON value without the fields of these names, however deep."""
    if isinstance(value, dict):
        return {key: without(item, names) for key, item in value.items() if key not in names}
    return [without(item, names) for item in value] if isinstance(value, list) else value


def find_command(program: str, python: str, npm: Path) -> tuple[list[str], str] | None:
    """Return what a program is run by, and its client's version; None if that is not installed."""
    client = CLIENTS[program]
    if program.endswith(".mjs"):
        package = npm / "node_modules" / client / "package.json"
        if not package.is_file():
            return None
        command = ["node", str(PROGRAMS / program), str(npm.resolve())]
        return command, json.loads(package.read_bytes())["version"]
    ask = f"import importlib.metadata as m; print(m.version({client!r}))"
    told = subprocess.run([python, "-c", ask], capture_output=True, text=True)
    module = f"{__package__}.{PROGRAMS.name}.{program.removesuffix('.py')}"
    return None if told.returncode else ([python, "-m", module], told.stdout.strip())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default="sdks/bin/python", help="with the Python clients")
    parser.add_argument("--npm", type=Path, default=Path(), help="the folder of node_modules")
    parser.add_argument("--program", default="", help="a part of the name of a program")
    parser.add_argument("--only", default="", help="a part of the name of a case")
    options = parser.parse_args()
    wrong = 0
    for program, client in CLIENTS.items():
        if options.program not in program:
            continue
        found = find_command(program, options.python, options.npm)
        if found is None:
            print(f"{client} ({program}) is not installed")
            wrong += 1
            continue
        command, version = found
        with ThreadPoolExecutor(len(SIDES)) as threads:
            seen = threads.map(partial(play, command, options.only), SIDES)
            outcome = judge(*seen)
        wrong += len(outcome.faults)
        for fault in outcome.faults:
            print(f"DIFFERS: {fault[:2000]}")
        print(
            f"{client} {version} ({program}): {outcome.cases} cases, {outcome.requests:,} requests,"
            f" {outcome.masked:,} texts masked, {len(outcome.faults)} differences",
            flush=True,
        )
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())

"""Ours beside other proxies that make requests smaller.

Run it by `python -m tests.tools.benchmarks.peers` (Linux).

    python -m tests.tools.benchmarks.peers [--rounds N] [--only NAME] [--write PAGE] [PATHS]

Installs the peers on first use, each into an environment of its own. Then the conversations of
PATHS, Chat Completions and Anthropic Messages, are sent to one strict scripted provider through all
sides, each request through one side after the other, in plain HTTP on loopback. Every round starts
all sides anew.

The bill, and the calls that refer to what was not sent, are computed from the bytes that reached
the provider. CPU is that of all processes of a side; latency is what a request took more than the
same one without a proxy. `--write` puts the tables into a page, between their marks.
"""

import argparse
import contextlib
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from addon.replay.replay import RecordedRequest
from masking.tokens import TokenCounter
from masking.wire.messages import MESSAGES
from tests.support.pages import fill_tables
from tests.support.places import RECORDINGS
from tests.support.read_sessions import read_sessions
from tests.tools.benchmarks.assumed import TRUE_PRICES
from tests.tools.benchmarks.peers.harm import find_references
from tests.tools.benchmarks.peers.processes import Target
from tests.tools.benchmarks.peers.recorder import Recorder
from tests.tools.benchmarks.peers.sides import DIRECT, PRICED, SIDES, Place
from tests.tools.benchmarks.peers.tables import show_bills, show_requests
from tests.tools.benchmarks.peers.tally import Tally, find_bodies
from tests.tools.benchmarks.peers.traffic import play, warm_up
from tests.tools.benchmarks.peers.versions import find_version
from tests.tools.provider.messages import sign_anew
from tests.tools.studio.installation import install_packages

CLIENTS = ("opencode-anthropic-long", "pi-anthropic-long")
SHIPPED = (RECORDINGS, *(RECORDINGS / "clients" / f"{name}.flow.xz" for name in CLIENTS))
ASSUMED = (0.1, 1.25)
"""The prices that ours is told while its time is taken."""

Conversations = Mapping[str, Sequence[tuple[str, Sequence[RecordedRequest]]]]
Tallies = Mapping[str, dict[str, Tally]]


def read_conversations(paths: Sequence[Path]) -> Conversations:
    """Return the conversations of these files by wire format, each with its name."""
    found: dict[str, list[tuple[str, Sequence[RecordedRequest]]]] = {"chat": [], "messages": []}
    for session in read_sessions(paths):
        requests = [complete(each) for each in session.requests() if each.passed_over is None]
        for wire, conversations in found.items():
            if taken := [each for each in requests if each.wire.name == wire]:
                conversations.append((session.name, taken))
    return found


def complete(recorded: RecordedRequest) -> RecordedRequest:
    """Return a request of a file of conversations as the scripted provider takes it.

    Messages requires `max_tokens`, which such a file leaves out, and the provider takes no
    signatures of others.
    """
    request = json.loads(recorded.body)
    if recorded.wire is not MESSAGES or "max_tokens" in request:
        return recorded
    sign_anew(request)
    return replace(recorded, body=json.dumps({**request, "max_tokens": 1}).encode())


@contextlib.contextmanager
def running_sides(
    places: Mapping[str, tuple[str, Place]],
) -> Iterator[Mapping[str, Target]]:
    """Run sides, all started at once, by a name: which side it is, and its place.

    Those that do not start are left out, with a word.
    """
    running = {name: SIDES[side].start(place) for name, (side, place) in places.items()}
    with ThreadPoolExecutor(len(running)) as threads, contextlib.ExitStack() as stack:
        started = {name: threads.submit(side.__enter__) for name, side in running.items()}
        targets = {}
        for name, future in started.items():
            try:
                targets[name] = future.result()
            except RuntimeError as error:
                print(f"{name}: {error}", file=sys.stderr)
            else:
                stack.push(running[name])
        yield targets


@contextlib.contextmanager
def making_places(
    sides: Mapping[str, tuple[str, tuple[float, float]]],
    packages: Mapping[str, Path],
    provider: Recorder,
) -> Iterator[Mapping[str, tuple[str, Place]]]:
    """Make a new home for each of these sides, which are told prices."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        places = {}
        for name, (side, prices) in sides.items():
            folder = Path(home, name)
            folder.mkdir()
            places[name] = side, Place(folder, packages.get(side), provider.port, prices)
        yield places


def run_round(
    conversations: Conversations,
    targets: Mapping[str, Target],
    provider: Recorder,
    tallies: Tallies,
    counter: TokenCounter | None,
) -> Iterator[str]:
    """Send everything through all sides once; yield the name of each conversation that is done.

    With a counter, what arrived is billed and compared.
    """
    for wire, sessions in conversations.items():
        names = [name for name in targets if wire in SIDES[name].formats]
        for name in names:
            tallies[wire].setdefault(name, Tally())
        asked = {name: targets[name] for name in names}
        warm_up(asked, provider, wire)
        for session, requests in sessions:
            played = play(requests, asked, provider)
            references = () if counter is None else find_references(requests)
            for name, one in played.items():
                tally = tallies[wire][name]
                tally.add_times(one, played[DIRECT])
                if counter is not None:
                    reference = SIDES[name].reference
                    held = find_bodies(played[reference].outcomes) if reference in played else None
                    tally.add_outcomes(one, held or [each.body for each in requests])
                    tally.add_bill(session, requests, one, counter)
                    tally.add_harm(references, one)
            yield session


def bill_ours(
    side: str,
    conversations: Conversations,
    provider: Recorder,
    tallies: Tallies,
    counter: TokenCounter,
) -> None:
    """Bill one of ours at each pair of prices as if told them; the times stay as they are."""
    others = {
        f"{price.read:g}, {price.write:g}": at
        for at, price in enumerate(TRUE_PRICES)
        if price.ratios != ASSUMED
    }
    sides = {name: (side, TRUE_PRICES[at].ratios) for name, at in others.items()}
    with making_places(sides, {}, provider) as places, running_sides(places) as targets:
        for wire, sessions in conversations.items():
            told = {name: Tally() for name in targets}
            for session, requests in sessions:
                references = find_references(requests)
                for name, played in play(requests, targets, provider).items():
                    told[name].add_bill(session, requests, played, counter)
                    told[name].add_harm(references, played)
            if (ours := tallies[wire].get(side)) is not None:
                untold = f"{side}, told {ASSUMED[0]:g}, {ASSUMED[1]:g}"
                tallies[wire][untold] = Tally(costs=[*ours.costs], harms=[*ours.harms])
                for name, tally in told.items():
                    at = others[name]
                    ours.costs[at], ours.harms[at] = tally.costs[at], tally.harms[at]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=_Raw)
    parser.add_argument("paths", nargs="*", type=Path, default=SHIPPED, metavar="PATHS")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", action="append", choices=[*SIDES], help="besides sending all")
    parser.add_argument("--write", type=Path, metavar="PAGE")
    given = parser.parse_args()
    conversations, counter = read_conversations(given.paths), TokenCounter()
    names = [name for name in SIDES if name == DIRECT or name in (given.only or SIDES)]
    packages = dict(install(names))
    tallies: Tallies = {wire: {} for wire in conversations}
    with Recorder() as provider:
        for number in range(given.rounds):
            sides = {name: (name, ASSUMED) for name in names}
            first = counter if number == 0 else None
            with (
                making_places(sides, packages, provider) as places,
                running_sides(places) as targets,
            ):
                for session in run_round(conversations, targets, provider, tallies, first):
                    print(session, file=sys.stderr, flush=True)
                    write_tables(given.write, tallies, names, packages)
        for side in PRICED:
            if side in names:
                bill_ours(side, conversations, provider, tallies, counter)
    for name, lines in write_tables(given.write, tallies, names, packages).items():
        print(f"\n{name}", *lines, sep="\n")


def write_tables(
    page: Path | None, tallies: Tallies, names: Sequence[str], packages: Mapping[str, Path]
) -> Mapping[str, Sequence[str]]:
    """Return the tables of what was found so far, and put them into a page, if there is one."""
    tables = {"versions": list(show_versions(names, packages))}
    for wire, found in tallies.items():
        if found:
            tables[f"{wire} bills"] = list(show_bills(found))
            tables[f"{wire} requests"] = list(show_requests(found))
    if page is not None:
        text = fill_tables(page.read_text(encoding="utf-8"), "peers", tables)
        page.write_text(text, encoding="utf-8")
    return tables


def install(sides: Sequence[str]) -> Iterator[tuple[str, Path]]:
    """Yield each side with the folder of its packages; a peer that cannot be had is said so."""
    for name in sides:
        if (package := SIDES[name].package) is not None:
            try:
                names = *package.before, package.name
                yield name, install_packages(package.registry, names)
            except RuntimeError as error:
                print(f"{name}: {error}", file=sys.stderr)


def show_versions(names: Sequence[str], packages: Mapping[str, Path]) -> Iterator[str]:
    """Yield what each side is: its package, its version, and what is not its default."""
    yield "| side | package | version | settings |"
    yield "|---|---|---|---|"
    for name in names:
        package, changed = SIDES[name].package, SIDES[name].changed
        if package is None:
            cells = ["", ""]
        else:
            folder = packages.get(name)
            cells = [f"`{package.name}`", find_version(package, folder) if folder else "not had"]
        yield f"| {' | '.join((name, *cells, changed or 'its default'))} |"


class _Raw(argparse.RawDescriptionHelpFormatter):
    """Keeps the lines of the description."""


if __name__ == "__main__":
    main()

"""The vendors' clients that are installed get the same with the addon; a command plays all cases.

`python -m tests.tools.benchmarks.sdks` takes the newest of each, and many more cases.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.tools.benchmarks.sdks import CLIENTS, SIDES, Seen, find_command, judge, play

pytestmark = pytest.mark.thorough

FOUND = {name: find_command(name, sys.executable, Path("nowhere")) for name in CLIENTS}
INSTALLED = [name for name, found in FOUND.items() if found]


def play_all(program: str) -> list[Seen]:
    found = FOUND[program]
    assert found is not None
    return [play(found[0], "gzip", side) for side in SIDES]


@pytest.mark.parametrize("program", INSTALLED)
def test_a_client_gets_the_same_and_old_results_are_masked(program: str) -> None:
    plain, streaming, ours = play_all(program)
    outcome = judge(plain, streaming, ours)
    assert ([], len(ours.played)) == (outcome.faults, outcome.cases)
    assert outcome.masked > 0 < outcome.cases

    name, (received, *others) = next(iter(ours.requests.items()))
    body = json.dumps(received.request).encode()
    spelled_anew = {**ours.requests, name: [replace(received, body=body), *others]}
    answered_anew = {**ours.played, name: []}
    assert 1 == len(judge(plain, streaming, ours._replace(requests=spelled_anew)).faults)
    assert 1 == len(judge(plain, streaming, ours._replace(played=answered_anew)).faults)
    assert 1 == len(judge(plain, streaming, ours._replace(refusals=["no"])).faults)

"""No test needs what another one has left behind."""

import subprocess
import sys

import pytest

from tests.support.places import ROOT

ROOMS = ("addon", "records", "page", "proxy", "gateways")
"""Of the rooms, those whose tests share a process's logger, threads, and variables."""


@pytest.mark.thorough
def test_tests_pass_in_reverse_order() -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-n", "0", "-q", "--tb=short", "--reverse"),
            *(f"tests/{room}" for room in ROOMS),
        ],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3000:]

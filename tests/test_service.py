"""The systemd unit of the documentation."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.places import ROOT

PROGRAM = shutil.which("systemd-analyze")


@pytest.mark.skipif(PROGRAM is None, reason="no systemd-analyze: apt-get install systemd")
def test_systemd_finds_no_mistake_in_the_unit(tmp_path: Path) -> None:
    assert PROGRAM is not None
    written = (ROOT / "docs" / "observation-masking.service").read_text(encoding="utf-8")
    command = "/opt/observation-masking/.venv/bin/obsmask"
    assert 1 == written.count(command)
    unit = tmp_path / "observation-masking.service"
    unit.write_text(written.replace(command, sys.executable), encoding="utf-8")
    done = subprocess.run(
        [PROGRAM, "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False
    )
    assert (0, "") == (done.returncode, done.stderr)

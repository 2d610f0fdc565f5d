"""Which installations there are."""

import stat
from pathlib import Path

import pytest

from addon.commands.diagnosis.versions import check_installations
from tests.findings import levels, says


@pytest.mark.parametrize(
    ("printed", "expected"),
    [("0.0.9", ["note"]), ("nothing", ["note"])],
    ids=["another version", "no version"],
)
def test_another_installation_on_the_search_path_is_told(
    home: Path, printed: str, expected: list[str]
) -> None:
    program = home / "obsmask"
    program.write_text(f"#!/bin/sh\necho {printed}\n")
    program.chmod(0o755 | stat.S_IXUSR)
    found = list(check_installations({"PATH": f"{home}:{home}/none"}))
    assert expected == levels(found)
    assert str(program) in says(found)


def test_a_folder_of_the_search_path_that_is_closed_is_passed_over(home: Path) -> None:
    (home / "work").chmod(0)
    assert [] == [*check_installations({"PATH": f"{home}/work/closed:{home}/none::"})]

"""Which configuration holds, what it sets, and its mistakes."""

from pathlib import Path

import pytest

from addon.commands.doctor.configuration import check_configuration, check_local, read_configuration
from addon.commands.doctor.report import note
from tests.live.harness import OFF, ON


def test_the_configuration_that_holds_is_named(home: Path) -> None:
    file = home / "mine.toml"
    file.write_bytes(ON)
    (found,) = check_configuration(read_configuration(str(file)))
    assert f"{file} is used: --config names it" == found.says


def test_without_one_of_ones_own_the_shipped_one_holds() -> None:
    (found,) = check_configuration(read_configuration(""))
    assert found.says.endswith("is used: it is the default one, because you have none of your own")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"[observation_masking.schema1]\nwindow_turn = 2", "observation_masking.schema1.window_"),
        (b"[observation_masking", "not TOML"),
        (b"[other]", "no [observation_masking] table"),
        (None, "cannot read the configuration"),
    ],
    ids=["an unknown key", "no TOML", "none of our tables", "no file"],
)
def test_a_mistake_in_the_configuration_is_broken_and_has_its_place(
    home: Path, content: bytes | None, problem: str
) -> None:
    file = home / "mine.toml"
    if content is not None:
        file.write_bytes(content)
    (found,) = check_configuration(read_configuration(str(file)))
    assert found.level == "broken"
    assert problem in found.says
    assert str(file) in found.says
    assert found.fix == f"obsmask config check {file}"


def test_the_home_of_no_user_is_a_mistake() -> None:
    (found,) = check_configuration(read_configuration("~nobody-here/mine.toml"))
    assert found.level == "broken"


def test_that_masking_is_off_is_told(home: Path) -> None:
    (home / "mine.toml").write_bytes(OFF)
    found = list(check_configuration(read_configuration(str(home / "mine.toml"))))
    fix = f"obsmask config set --config {home / 'mine.toml'} schema1.enabled=true"
    assert note("Masking is off", fix) == found[-1]
    (home / "mine.toml").write_bytes(b'[observation_masking]\nmode = "off"\n')
    found = list(check_configuration(read_configuration(str(home / "mine.toml"))))
    fix = f"obsmask config set --config {home / 'mine.toml'} mode=on"
    assert note("Masking is off", fix) == found[-1]


@pytest.mark.parametrize(
    ("setting", "level", "says"),
    [
        ('mode = "observe"', "note", "Dry run: no request is changed"),
        ("holdout_percent = 12.5", "ok", "12.5% of the conversations are observed only"),
    ],
    ids=["all", "a share"],
)
def test_that_masking_is_only_observed_is_told(
    home: Path, setting: str, level: str, says: str
) -> None:
    (home / "mine.toml").write_text(f"[observation_masking]\n{setting}\n")
    found = list(check_configuration(read_configuration(str(home / "mine.toml"))))
    assert (level, says) == found[-1][:2]


@pytest.mark.parametrize(
    ("mode", "rules", "expected"),
    [
        pytest.param("on", "[{ model = 'a' }, { model = 'b' }]", None, id="rules of their own"),
        pytest.param("on", "[{}, { model = 'b' }]",
                     "rules[1] never applies: rules[0] matches all its requests first",
                     id="behind one for all"),
        pytest.param("observe", "[{ model = 'a' }]",
                     "Dry run: no request is changed", id="all is observed"),
        pytest.param("observe", "[{ mode = 'on' }]", None, id="all but a rule's"),
        pytest.param("on", "[{ schema1 = { enabled = false } }]", None, id="off by a rule"),
    ],
)  # fmt: skip
def test_what_is_to_be_said_of_rules(
    home: Path, mode: str, rules: str, expected: str | None
) -> None:
    text = f'[observation_masking]\nmode = "{mode}"\nrules = {rules}\n'
    (home / "mine.toml").write_text(text)
    found = check_configuration(read_configuration(str(home / "mine.toml")))
    notes = [each.says for each in found if each.level == "note"]
    assert ([] if expected is None else [expected]) == notes


BY_MITMDUMP = "config.toml in this folder is used only when mitmdump loads the addon/mask.py in it"
BY_NOBODY = "config.toml in this folder is not used: it may be part of somebody else's project"


@pytest.mark.parametrize(
    ("content", "folder", "used", "expected"),
    [
        pytest.param(ON, "project", "mine.toml", [BY_NOBODY], id="ours, in a project"),
        pytest.param(ON, "addon", "mine.toml", [BY_MITMDUMP], id="ours, in a checkout"),
        pytest.param(ON, "project", "config.toml", [], id="ours, and named"),
        pytest.param(b"[tool]", "project", "mine.toml", [], id="another program's"),
        pytest.param(b"[observation_masking", "project", "mine.toml", [], id="broken"),
        pytest.param(None, "project", "mine.toml", [], id="none"),
    ],
)
def test_who_reads_a_file_in_the_working_directory_is_said(
    content: bytes | None, folder: str, used: str, expected: list[str]
) -> None:
    Path(folder).mkdir()
    Path(folder, "mask.py").touch()
    if content is not None:
        Path("config.toml").write_bytes(content)
    assert expected == [each.says for each in check_local(Path.cwd() / used)]

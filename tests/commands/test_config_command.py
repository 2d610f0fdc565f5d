"""`obsmask config`: what holds and why, a file of one's own, and what a file says."""

import functools
import itertools
import json
import re
import shlex
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from addon.commands.config import Edit, edit_config, read_edit
from addon.commands.main import main
from addon.config import user_config
from addon.config_commands import render_toml
from addon.places import shipped
from masking.config import COMMON, Settings, list_values, parse_settings
from masking.errors import ConfigError
from tests.live.harness import ON

Screen = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A home with nothing in it, and an empty folder to work in."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "own"))
    monkeypatch.delenv("OBSMASK_CONFIG", raising=False)
    monkeypatch.delenv("STREAM_REDACTION_ENABLED", raising=False)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text("[observation_masking.schema1]\nwindow_turns = 4\nkeep_errors = true\n")
    return path


def run(capsys: Screen, *arguments: str | Path) -> list[str]:
    """Return what the command prints, line by line, without space at its ends."""
    assert main(["config", *map(str, arguments)]) == 0
    return [line.strip() for line in capsys.readouterr().out.splitlines()]


def fail(capsys: Screen, *arguments: str | Path) -> tuple[int, str]:
    code = main(["config", *map(str, arguments)])
    return code, capsys.readouterr().err.strip()


# What holds


def test_it_says_which_file_holds_and_why(
    capsys: Screen, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [
        str(shipped("config.toml")),
        "(the default one; `obsmask config init` writes one of your own)",
    ] == run(capsys)[:2]
    user_config().parent.mkdir(parents=True)
    user_config().write_bytes(ON)
    assert [
        str(user_config()),
        "(your own; neither --config nor $OBSMASK_CONFIG names another)",
    ] == run(capsys)[:2]
    monkeypatch.setenv("OBSMASK_CONFIG", str(file))
    assert [str(file), "($OBSMASK_CONFIG names it)"] == run(capsys)[:2]
    assert [str(file), "(--config names it)"] == run(capsys, "--config", file)[:2]


def test_a_row_says_where_its_value_comes_from(
    capsys: Screen, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STREAM_REDACTION_ENABLED", "1")
    shown = run(capsys, "--config", file, "--set", "websocket.mode=http")
    rows = [line.split() for line in shown]
    assert ["schema1.window_turns", "4", "8", "file"] in rows
    assert ["websocket.mode", '"http"', '"auto"', "--set"] in rows
    assert ["redaction.enabled", "true", "false", "environment"] in rows
    assert "Set to their defaults: schema1.keep_errors" in shown
    assert "$STREAM_REDACTION_ENABLED comes before the file and --set." == shown[-1]


def test_what_differs_comes_first_and_all_fits_a_screen(capsys: Screen) -> None:
    shown = run(capsys)
    assert ["No setting differs from its default.", "", 'mode = "on"'] == shown[3:6]
    assert 24 > len(shown)
    changed = ["--set", "schema1.window_turns=12", "--set", "mcp.enabled=true"]
    shown = run(capsys, *changed)
    first, other = (shown.index(line) for line in shown if line.split()[-1:] == ["--set"])
    assert first < other < shown.index('mode = "on"')
    assert "schema1.window_turns = 8" not in shown
    assert 24 > len(shown)
    count = len(list_values(b"[observation_masking]")) - len(COMMON) - 1
    more = f"and {count} more, each at its default: obsmask config --all explains them"
    assert more == shown[-1]


def test_a_whole_file_of_defaults_fits_a_screen(capsys: Screen, file: Path) -> None:
    values = list_values(b"[observation_masking]")
    lines = [f"observation_masking.{name} = {render_toml(value)}" for name, value, *_ in values]
    file.write_text("\n".join(lines))
    shown = run(capsys, "--config", file)
    assert "No setting differs from its default." in shown
    assert shown[5].startswith("Set to their defaults: mode, holdout_percent, ")
    assert 24 > len(shown)


def test_every_setting_is_explained(capsys: Screen, file: Path) -> None:
    shown = run(capsys, "--all", "--config", file)
    values = list_values(b"[observation_masking]")
    assert [name for name, *_ in values] == [
        line.partition(" = ")[0]
        for before, line in itertools.pairwise(shown)
        if not before and line
    ]
    place = shown.index("schema1.window_turns = 4  (file; default: 8)")
    assert shown[place + 1].startswith("How many of the latest tool turns keep their results")
    assert "schema1.max_loss = 0.1  (default)" in shown


def test_a_narrow_screen_shows_everything(capsys: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    shown = run(capsys, "--all")
    assert 80 >= max(len(line) for line in shown if " = " not in line)
    assert 80 >= max(map(len, run(capsys, "--set", f"metrics.path={'x' * 200}")))
    words = " ".join(shown).split()
    names = [line.split()[0] for line in run(capsys, "--json") if line.startswith('"hosts')]
    expected = ["only", "uncached", "never", "never_more"]
    assert [f'"hosts.{name}":' for name in expected] == names
    for word in ("reduction.preserve_recent_raw_turns", '"*.githubusercontent.com",'):
        assert word in words


def test_json_has_everything(capsys: Screen, file: Path) -> None:
    shown = json.loads("".join(run(capsys, "--json", "--config", file)))
    assert [str(file), "option"] == [shown["file"], shown["named_by"]]
    expected = {"value": 4, "shipped": 8, "source": "file"}
    assert expected == shown["settings"]["schema1.window_turns"]


def test_a_file_in_the_working_directory_is_named_and_not_read(capsys: Screen) -> None:
    Path("config.toml").write_bytes(ON)
    first, _, note, *_ = run(capsys)
    assert str(shipped("config.toml")) == first
    assert (
        "(config.toml in this folder is not used: it may be part of somebody else's project)"
        == note
    )
    assert "in this folder" not in "".join(run(capsys, "--config", "config.toml"))
    Path("config.toml").write_bytes(b"nonsense")
    assert "is not read" not in "".join(run(capsys))


def test_a_file_that_holds_is_not_said_to_be_passed_over(
    capsys: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a checkout the shipped configuration lies in the working directory."""
    monkeypatch.chdir(shipped("config.toml").parent)
    assert "is not read" not in "".join(run(capsys))


def test_a_mistake_is_one_line(capsys: Screen, file: Path) -> None:
    expected = "obsmask: unknown key (did you mean 'schema1'?) in 'scheme1'"
    assert (1, expected) == fail(capsys, "--set", "scheme1.x=1")
    code, error = fail(capsys, "--json", "check", file)
    assert (2, True) == (code, error.endswith("Error: check takes none of these options"))


# A file of one's own


def test_init_writes_a_file_that_changes_nothing(capsys: Screen) -> None:
    first, _ = run(capsys, "init")
    assert f"Written: {user_config()}" == first
    assert 0o600 == stat.S_IMODE(user_config().stat().st_mode)
    assert Settings() == parse_settings(user_config().read_bytes())
    assert f"{user_config()}: no mistake, nothing changed" == run(capsys, "check", user_config())[0]
    assert str(user_config()) == run(capsys)[0]


def test_what_init_writes_is_the_shipped_file_with_each_setting_behind_a_sign(
    capsys: Screen,
) -> None:
    run(capsys, "init")
    written = user_config().read_text(encoding="utf-8").partition("#\n")[2]
    lines = [re.sub(r"^#(?=\S|   )", "", line) for line in written.splitlines()]
    shown = shipped("config.toml").read_text(encoding="utf-8")
    # The one that the shipped file leaves to clients, with a default for the others.
    assert shown.replace("\n#window_turns", "\nwindow_turns").splitlines() == lines


def test_init_says_so_where_another_file_holds(
    capsys: Screen, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OBSMASK_CONFIG", str(file))
    said = f"$OBSMASK_CONFIG names another file, which is used instead: {file}"
    assert said == run(capsys, "init")[-1]


def test_init_leaves_a_file_alone(capsys: Screen) -> None:
    user_config().parent.mkdir(parents=True)
    user_config().write_bytes(ON)
    told = f"obsmask: {user_config()} already exists: edit it, or change it with obsmask config set"
    assert (1, told) == fail(capsys, "init")
    assert ON == user_config().read_bytes()


def test_init_leaves_no_half_of_a_file() -> None:
    """On a disk that is full, as for a process that may write no more than 1,000 bytes a file."""
    code = (
        "import resource, signal, sys; from addon.commands.main import main\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, 1_000))\n"
        "sys.dont_write_bytecode = True; sys.exit(main(['config', 'init']))"
    )
    failed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (1, "obsmask: [Errno 27] File too large\n") == (failed.returncode, failed.stderr)
    assert not user_config().exists()


# Changing a file


COMMENTED = """\
# mine
[observation_masking.schema1]  # the window
window_turns = 4  # because

# a remark
keep_errors = true
[observation_masking.hosts]
uncached = [
    "a.example",  # a server of ours
]

[other]
kept = 1979-05-27
"""

CHANGED = """\
# mine
[observation_masking.schema1]  # the window
window_turns = 12  # because

# a remark
keep_errors = true
min_chars = 5
[observation_masking.hosts]
uncached = [
    "a.example",  # a server of ours
    "b.example",
]

[[observation_masking.prices]]
host = "b.example"
read = 0.1
write = 1.0
[other]
kept = 1979-05-27
"""


@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["Linux", "Windows"])
@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["plain", "a byte order mark"])
def test_a_change_leaves_all_else_as_it_is(
    capsys: Screen, file: Path, newline: str, mark: str
) -> None:
    file.write_bytes((mark + COMMENTED).replace("\n", newline).encode())
    file.chmod(0o640)
    window = "observation_masking.schema1.window_turns=12"
    assert [
        f"Written: {file}",
        "schema1.window_turns = 12  (was: 4)",
        "schema1.min_chars = 5  (was: 0)",
        f"To undo: obsmask config set --config {file} schema1.window_turns=4",
        f"To undo: obsmask config unset --config {file} schema1.min_chars",
    ] == run(capsys, "set", "--config", file, window, "schema1.min_chars=5")
    price = 'prices={ host = "b.example", read = 0.1, write = 1.0 }'
    added = ["hosts.uncached=b.example", "hosts.uncached=a.example", price]
    assert [
        f"Written: {file}",
        'hosts.uncached = ["a.example", "b.example"]  (was: ["a.example"])',
        'prices = [{ host = "b.example", model = "*", read = 0.1, write = 1.0 }]  (was: [])',
        f"To undo: obsmask config set --config {file} 'hosts.uncached=[\"a.example\"]'",
        f"To undo: obsmask config unset --config {file} prices",
    ] == run(capsys, "add", "--config", file, *added)
    assert (mark + CHANGED).replace("\n", newline).encode() == file.read_bytes()
    assert 0o640 == stat.S_IMODE(file.stat().st_mode)
    again = [f"Nothing to change: {file} already says so."]
    assert again == run(capsys, "add", "--config", file, *added)
    assert [] == [each for each in file.parent.iterdir() if each.name.startswith(".")]


def test_without_a_file_of_ones_own_a_change_writes_that_of_init(capsys: Screen) -> None:
    added = "hosts.never_more=build.example"
    run(capsys, "set", "schema1.window_turns=12", "mode=observe")
    run(capsys, "add", added)
    changed = user_config().read_text(encoding="utf-8")
    user_config().unlink()
    run(capsys, "init")
    expected = user_config().read_text(encoding="utf-8")
    for name, value in (
        ("window_turns = 8", "window_turns = 12"),
        ('mode = "on"', 'mode = "observe"'),
    ):
        expected = expected.replace(f"#{name}", value, 1)
    expected = expected.replace("#never_more = []", 'never_more = ["build.example"]')
    assert expected == changed


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["set", "schema1.window_turn=4"], "unknown key (did you mean 'window_turns'?) in 'obs"),
        (["set", "schema1.window_turns=x"], "expected a whole number, got a text in 'obs"),
        (["set", "schema1=4"], "expected a table, got a whole number in 'observation_masking.sch"),
        (["set", "schema1.window_turns.x=4"], "expected a whole number, got a table in 'obs"),
        (["add", "schema1.window_turns=4"], "not a list: `obsmask config set` sets it in 'schema1"),
        (["add", "prices={ read = 1 }"], "missing in 'observation_masking.prices[0].write'"),
        (["add", "hosts.unknown=x"], "unknown key (known: only, "),
        (["set", "schema1.window_turns=9", "mode=of"], 'expected "on", "observe" or "off" in'),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_mistake_changes_nothing(
    capsys: Screen, file: Path, arguments: list[str], problem: str
) -> None:
    before = file.read_bytes()
    verb, *changes = arguments
    code, error = fail(capsys, verb, "--config", file, *changes)
    assert (1, f"obsmask: {file} is unchanged: {problem}") == (
        code,
        error[: error.find(problem)] + problem,
    )
    assert before == file.read_bytes()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[observation_masking.scheme1]", "unknown key (did you mean 'schema1'?) in 'observation_"),
        ("x =", "not TOML: "),
        (
            "[[observation_masking.rules]]\n[observation_masking]\n[observation_masking.rules.schema1]\n",
            "the file is laid out in a way that this command cannot change: edit it by hand in",
        ),
    ],
    ids=["a mistake that was there", "no TOML", "a table in two places"],
)
def test_a_file_that_cannot_be_changed_stays_as_it_is(
    capsys: Screen, file: Path, text: str, problem: str
) -> None:
    file.write_text(text, encoding="utf-8")
    code, error = fail(capsys, "set", "--config", file, "mcp.enabled=true")
    assert (1, True) == (code, f"{file} is unchanged: {problem}" in error)
    assert text == file.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[other]\nx = 1",
        "observation_masking = { schema1 = { min_chars = 1 } }\n",
        "observation_masking.prices = [{ read = 1, write = 1 }]\n[other]\n",
        "observation_masking.schema1.min_chars = 1\nobservation_masking.hosts.only = []\n",
        "[observation_masking]\nschema1.min_chars = 1\nhosts.uncached = ['x']\n",
        "[observation_masking.hosts]\n[other]\n[observation_masking.schema1]\nmin_chars = 1\n",
        "[observation_masking]\nprices = [{ host = 'x', read = 1, write = 1 }]\n",
        "[[observation_masking.rules]]\n[observation_masking.rules.schema1]\nmin_chars = 1\n",
        "[[observation_masking.prices]]\nread = 1\nwrite = 1\n[observation_masking.hosts]\n",
    ],
)
def test_files_of_many_layouts_can_be_changed(capsys: Screen, file: Path, text: str) -> None:
    file.write_text(text, encoding="utf-8")
    before = tomllib.loads(text)
    run(capsys, "set", "--config", file, "schema1.window_turns=12", "mode=observe")
    run(capsys, "add", "--config", file, "hosts.uncached=h.example")
    ours = tomllib.loads(file.read_text(encoding="utf-8")).pop("observation_masking")
    assert (12, "observe") == (ours["schema1"]["window_turns"], ours["mode"])
    assert "h.example" in ours["hosts"]["uncached"]
    assert before.keys() <= tomllib.loads(file.read_text(encoding="utf-8")).keys()
    run(capsys, "add", "--config", file, "prices={ read = 0.1, write = 1.0 }")
    assert {"read": 0.1, "write": 1.0} in tomllib.loads(file.read_text())["observation_masking"][
        "prices"
    ]


PIECES = [
    *(
        "[observation_masking]\n",
        "[observation_masking.schema1]\n",
        "[observation_masking.hosts]\n",
    ),
    *("[[observation_masking.prices]]\nread = 1\nwrite = 1\n", "[other]\n", "[[other.y]]\n"),
    *("observation_masking.prices = [{ read = 1, write = 1 }]\n", "enabled = true  # why\n"),
    *("observation_masking.schema1.window_turns = 3\n", "uncached = [\n  'a',  # a server\n]\n"),
    *(
        "[[observation_masking.rules]]\n",
        "[observation_masking.rules.schema1]\n",
        "min_chars = 1\n",
    ),
    *("# a remark\n", "#window_turns = 8\n", "#uncached = []\n", "\n", "mode = 'on'\n", "x = 1\n"),
]
CHANGES = (
    *(Edit(("schema1", "window_turns"), 12), Edit(("mode",), "observe")),
    *(Edit(("hosts", "uncached"), "b", "add"), Edit(("mcp", "enabled"), True)),
    *(
        read_edit("prices={ read = 0.1, write = 1.0 }", "add"),
        Edit(("schema1", "keep_tools"), ["a"]),
    ),
    *(read_edit("rules={ model = 'k' }", "add"), Edit(("schema1", "min_chars"), None, "unset")),
    *(Edit((name,), None, "unset") for name in ("prices", "rules")),
    Edit(("hosts", "uncached"), None, "unset"),
)


@given(
    st.lists(st.sampled_from(PIECES)),
    st.lists(st.sampled_from(CHANGES), min_size=1, unique_by=lambda edit: edit.keys),
)
def test_a_change_is_made_as_it_was_asked_for_or_not_at_all(
    pieces: list[str], edits: list[Edit]
) -> None:
    text = "".join(pieces)
    try:
        parse_settings(text.encode())
    except ConfigError:
        assume(False)
    try:
        edited = edit_config(text.encode(), edits).decode()
    except ConfigError:  # it is laid out in a way that cannot be changed
        return
    before, after = tomllib.loads(text), tomllib.loads(edited)
    ours = {"observation_masking"}
    assert {name: after[name] for name in after.keys() - ours} == {
        name: before[name] for name in before.keys() - ours
    }
    for (*outer, key), value, verb in edits:
        table = functools.reduce(
            lambda table, key: table.get(key, {}), outer, after.get("observation_masking", {})
        )
        if verb == "unset":
            assert key not in table
        else:
            assert value in table[key] if verb == "add" else value == table[key]
    if any(edit.verb == "unset" for edit in edits):
        return  # a remark on what is gone goes, too
    for remark in ("# a remark", "# why", "# a server"):
        assert text.count(remark) == edited.count(remark)


def test_a_link_to_a_file_stays_one(capsys: Screen, file: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.toml"
    link.symlink_to(file)
    run(capsys, "set", "--config", link, "schema1.window_turns=12")
    assert link.is_symlink()
    assert b"window_turns = 12" in file.read_bytes()


def test_the_shipped_file_is_not_changed(capsys: Screen) -> None:
    before = shipped("config.toml").read_bytes()
    code, error = fail(capsys, "set", "--config", shipped("config.toml"), "mode=observe")
    assert (1, True) == (code, "came with the package" in error)
    assert before == shipped("config.toml").read_bytes()


def test_a_change_that_waits_for_the_next_start_says_so(capsys: Screen, file: Path) -> None:
    said = "A running proxy uses this after its next start."
    assert said in run(capsys, "set", "--config", file, "page.port=9464")
    assert said not in run(capsys, "set", "--config", file, "mcp.enabled=true")


# Taking a change back


def test_what_was_set_can_be_unset(capsys: Screen) -> None:
    nothing = ["Nothing to change: you have no configuration file, so every default applies."]
    assert nothing == run(capsys, "unset", "schema1.bound_reasoning")
    run(capsys, "init")
    before = user_config().read_bytes()
    run(capsys, "set", "schema1.bound_reasoning=drop", 'hosts.never=["a.example", "b"]', "mode=off")
    assert [
        f"Written: {user_config()}",
        'schema1.bound_reasoning = "try"  (was: "drop")',
        "To undo: obsmask config set schema1.bound_reasoning=drop",
    ] == run(capsys, "unset", "observation_masking.schema1.bound_reasoning")
    run(capsys, "unset", "mode", "hosts.never", "schema1.window_turns")
    after = user_config().read_bytes()
    assert [] == [each for each in list_values(after) if each.source == "file"]
    assert tomllib.loads(before.decode()) == tomllib.loads(after.decode())
    assert before.count(b"\n#bound_reasoning = ") == after.count(b"\n#bound_reasoning = ")
    already = [f"Nothing to change: {user_config()} sets none of that."]
    assert already == run(capsys, "unset", "mode")
    assert [
        f"Written: {user_config()}",
        "schema1.window_turns = 8  (the default as well)",
        "To undo: obsmask config unset schema1.window_turns",
    ] == run(capsys, "set", "schema1.window_turns=8")


def test_what_a_change_says_undoes_it(capsys: Screen, file: Path) -> None:
    before = tomllib.loads(file.read_text(encoding="utf-8"))
    price = 'prices={ model = "a b", read = 0.1, write = 1.0 }'
    for change in (
        ["set", "schema1.window_turns=12", "schema1.min_chars=5"],
        ["add", "hosts.uncached=b.example", price],
        ["unset", "schema1.window_turns"],
    ):
        lines = run(capsys, change[0], "--config", file, *change[1:])
        undo = [line.removeprefix("To undo: ") for line in lines if line.startswith("To undo: ")]
        assert undo
        for each in undo:
            run(capsys, *shlex.split(each)[2:])
        after = tomllib.loads(file.read_text(encoding="utf-8"))
        ours = after["observation_masking"]
        after["observation_masking"] = {name: each for name, each in ours.items() if each != {}}
        assert before == after


@pytest.mark.parametrize(
    "text",
    [
        "observation_masking = { schema1 = { min_chars = 1 } }\n",
        "observation_masking.schema1.min_chars = 1\n",
        "[observation_masking]\nschema1.min_chars = 1\nhosts.uncached = ['x']\n",
        "[observation_masking.hosts]\n[other]\n[observation_masking.schema1]\nmin_chars = 1\n",
        "[observation_masking.schema1]\n# why\nmin_chars = 1\n# how\nmax_loss = 0.1\n",
    ],
)
def test_a_setting_is_unset_in_files_of_many_layouts(capsys: Screen, file: Path, text: str) -> None:
    file.write_text(text, encoding="utf-8")
    run(capsys, "unset", "--config", file, "schema1.min_chars")
    after = file.read_bytes()
    assert parse_settings(after) is not None
    assert "schema1.min_chars" not in [
        each.name for each in list_values(after) if each.source == "file"
    ]
    assert ("other" in text, "uncached" in text) == (b"other" in after, b"uncached" in after)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        (
            "schema1.bound_reasonin",
            "schema1.bound_reasonin is no setting: did you mean schema1.bound_reasoning?",
        ),
        ("schema1", "schema1 is no setting"),
        ("mode=on", "mode=on is no setting"),
    ],
)
def test_what_is_no_setting_cannot_be_unset(capsys: Screen, name: str, problem: str) -> None:
    code, error = fail(capsys, "unset", name)
    assert (1, True, True) == (code, problem in error, name in error)


# What a file says


def test_check_says_what_a_file_changes(capsys: Screen, file: Path) -> None:
    assert [
        f"{file}: no mistake, 1 setting changed",
        "schema1.window_turns = 4  (default: 8)",
    ] == run(capsys, "check", file)


def test_check_without_a_file_checks_the_one_in_use(capsys: Screen) -> None:
    assert [f"{shipped('config.toml')}: no mistake, nothing changed"] == run(capsys, "check")
    run(capsys, "set", "schema1.window_turns=4")
    assert f"{user_config()}: no mistake, 1 setting changed" == run(capsys, "check")[0]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (
            b"[observation_masking.schema1]\nwindow_turn = 4\n",
            "unknown key (did you mean 'window_turns'?) in 'observation_masking.schema1.window_tu",
        ),
        (b"x =", "not TOML: "),
        (b"[other]", "no [observation_masking] table in "),
    ],
    ids=["a misspelt key", "no TOML", "no table of ours"],
)
def test_check_names_the_place_of_a_mistake(
    capsys: Screen, file: Path, data: bytes, problem: str
) -> None:
    file.write_bytes(data)
    code, error = fail(capsys, "check", file)
    assert (1, True, True) == (code, problem in error, str(file) in error)
    assert "\n" not in error


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, "true"),
        ('"ü\n\x1b\u202e', '"\\"ü\\n\\u001b\N{REPLACEMENT CHARACTER}"'),
        ([1, 0.5], "[1, 0.5]"),
        ({"host": "*", "dollars_per_million": None}, '{ host = "*" }'),
    ],
)
def test_a_value_is_spelled_as_in_toml(value: object, expected: str) -> None:
    assert expected == render_toml(value)

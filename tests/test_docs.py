"""The pages are true: tables are what their commands print, lists are what the code says."""

import dataclasses
import json
import re
import shlex
from importlib.util import find_spec
from pathlib import Path

import click
import pytest
from pydantic_core import to_json

from addon.commands.group import obsmask
from addon.commands.main import main
from masking.config.settings import RuleTable, Tables
from masking.prices import OwnPrice, OwnWindow
from tests.support.marks import as_one_test
from tests.support.pages import find_broken_links, find_pages
from tests.support.places import CONFIG, ROOT
from tests.tools.benchmarks import assumed, strategies
from tests.tools.make_docs import fill, write_config

README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = {path: path.read_text(encoding="utf-8") for path in find_pages(ROOT)}
TEXT = "\n".join(PAGES.values())


def name_page(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


COMMANDS = sorted(
    set(re.findall(r"^\.venv/bin/obsmask (replay recordings .*)$", TEXT, re.MULTILINE))
)


def read_table_before(command: str) -> list[list[str]]:
    """Return the cells of the table right before a command."""
    above = TEXT.partition(f"{command}\n")[0].rpartition("\n\n```sh")[0].rpartition("\n\n")[2]
    head, _, *rows = [line.strip("| ").split("|") for line in above.splitlines()]
    return [[cell.strip() for cell in row] for row in (head, *rows)]


@pytest.mark.thorough
@pytest.mark.parametrize("command", COMMANDS)
def test_a_table_is_what_its_command_prints(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    replay, recordings, *options = command.split()
    assert main([replay, str(ROOT / recordings), *options]) == 0
    shown = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    table = [" ".join(" ".join(row).split()) for row in read_table_before(command)]
    assert len(table) > 5
    assert table == [line for line in shown if line and "─" not in line and ";" not in line]


@pytest.mark.thorough
def test_what_a_wrong_assumption_costs_is_what_its_command_prints() -> None:
    rows = assumed.measure([ROOT / "recordings"])
    shown = [[f"{value:.3f}" for value in row] for row in rows]
    assert shown == [
        row[1:] for row in read_table_before("tests.tools.benchmarks.assumed recordings")[1:]
    ]


@pytest.mark.thorough
def test_the_strategies_are_compared_as_the_benchmark_prints_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    strategies.command([str(ROOT / "recordings")], standalone_mode=False)
    shown = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    table = TEXT.partition("| strategy | messages kept |")[2].partition("\n\n")[0]
    rows = [row.strip("| ").split(" | ") for row in table.splitlines()[2:]]
    assert len(rows) == 6
    assert [row for row in rows if " ".join(row) not in shown] == []


LISTS = ("prices", "windows", "rules")
"""The keys that are lists of tables."""

TABLES = {name: found for name, found in json.loads(to_json(Tables())).items() if name not in LISTS}
KEYS = [
    f"{table}.{name}" if isinstance(found, dict) else table
    for table, found in TABLES.items()
    for name in (found if isinstance(found, dict) else (table,))
]
REFERENCE = PAGES[ROOT / "docs" / "reference.md"]


def test_every_setting_is_described_once() -> None:
    settings = REFERENCE.partition("\n## Settings\n")[2].partition("\n### Telling")[0]
    described = re.findall(r"^- `([\w.]+)=", settings, re.MULTILINE)
    assert sorted(KEYS) == sorted(name for name in described if name not in LISTS)


def read_keys(name: str) -> list[str]:
    """Return the keys that the reference lists of a list of tables."""
    section = REFERENCE.partition(f"\n### {name}\n")[2].partition("\n#")[0]
    listed = re.findall(r"^- (`.*?`):", section, re.MULTILINE)
    return re.findall(r"`(\w+)[=`]", " ".join(listed))


@as_one_test
@pytest.mark.parametrize("page", PAGES, ids=name_page)
def test_its_lists_are_what_the_code_says(page: Path) -> None:
    """`python -m tests.tools.make_docs` writes them."""
    assert fill(PAGES[page]) == PAGES[page]


def test_the_shipped_configuration_is_what_the_code_says() -> None:
    """`python -m tests.tools.make_docs` writes it."""
    assert write_config() == CONFIG.read_text(encoding="utf-8")


def test_the_keys_of_the_lists_of_tables_are_described() -> None:
    assert [field.name for field in dataclasses.fields(OwnPrice)] == read_keys("prices")
    assert [field.name for field in dataclasses.fields(OwnWindow)] == read_keys("windows")
    assert [*RuleTable.model_fields] == read_keys("rules")


def read_harm(runs: str, window: int, windows: str = "") -> list[str]:
    """Return what harm.md says of some runs: their cells without ranges, from both tables."""
    cells = []
    for table in ("solved", "work"):
        mark = f"<!-- paired runs: {windows}{table} -->"
        lines = PAGES[ROOT / "docs/measured/harm.md"].partition(mark)[2].partition("<!-- end")[0]
        (row,) = re.findall(rf"^\| {runs} \| {window} \| (.*) \|$", lines, re.MULTILINE)
        cells += [re.sub(r" \(.*\)", "", cell) for cell in row.split(" | ")]
    return cells


def test_other_pages_say_of_paired_runs_what_their_page_says() -> None:
    pages = (README, PAGES[ROOT / "docs/measured/savings.md"])
    readme, savings = (" ".join(page.split()) for page in pages)
    pairs, raw, masked, won_lost, *_ = read_harm("SWE-agent, all five", 10)
    won, lost = won_lost.split(", ")
    assert raw == masked
    assert (
        f"In {pairs} pairs of runs that others published, SWE-agent solved as many tasks when it "
        "masked all but the latest 10 tool turns as with everything sent: "
        f"{won} won, {lost} lost."
    ) in readme
    assert "| 10 | SWE-agent, five models: as many." in savings

    openhands = "OpenHands, gemini 2.5 flash"
    tasks, raw, harmed, *_, turns, _, _, _, _ = read_harm(openhands, 5)
    _, _, spared, *_, more, stopped, _, _, _ = read_harm(openhands, 36)
    before, after = stopped.split(" to ")
    assert (
        f"OpenHands, masked beyond 5 turns, solved {harmed} instead of {raw}, in {turns} times the "
        f"turns; beyond 36, it solved {spared}, in {more} times the turns, and {after} of {tasks} "
        f"runs instead of {before} went on until they were stopped."
    ) in readme
    assert f"| 5 | OpenHands: {harmed} instead of {raw}, of {tasks} tasks |" in savings
    assert f"default | OpenHands: {spared} instead of {raw}, of {tasks} tasks |" in savings

    for window, says in {10: "OpenHands", 14: "14 | OpenHands", 25: "OpenHands, 25"}.items():
        tasks, raw, masked, *_ = read_harm(openhands, window, "windows, ")
        few, all_sent = masked.replace(".0%", "%"), raw.replace(".0%", "%")
        assert f"{says}: {few} instead of {all_sent}, of {tasks} |" in savings


def test_every_command_has_a_section() -> None:
    sections = re.findall(r"^### obsmask ([\w-]+)$", REFERENCE, re.MULTILINE)
    assert obsmask.list_commands(click.Context(obsmask)) == sections


WHAT_TO_TYPE = re.findall(r": `obsmask ([^`]+)` \|$", README, re.MULTILINE)
"""The commands in the README's first table."""

CALLS = {*re.findall(r"^\.venv/bin/obsmask (.*)$", TEXT, re.MULTILINE), *WHAT_TO_TYPE}


@as_one_test
@pytest.mark.parametrize("line", sorted(CALLS))
def test_every_call_of_the_program_can_be_read(line: str) -> None:
    name, *arguments = shlex.split(line)
    command = obsmask.get_command(click.Context(obsmask), name)
    assert command is not None
    assert command.make_context(name, arguments).command is command


def test_the_python_example_runs() -> None:
    code = re.findall(r"^```python\n(.*?)^```$", PAGES[ROOT / "docs" / "python.md"], re.M | re.S)
    assert len(code) == 4
    exec("".join(code), {})


def test_every_message_that_is_explained_is_one_of_the_program() -> None:
    quoted = re.findall(r'"([^"]+)"', PAGES[ROOT / "docs" / "troubleshooting.md"])
    phrases = [part.strip() for each in quoted for part in each.split("...")]
    files = [*(ROOT / "addon").rglob("*.py"), *(ROOT / "masking").rglob("*.py")]
    source = "".join(path.read_text(encoding="utf-8") for path in files)
    messages = re.sub(r'"\s*\n\s*f?"', "", source)
    assert len(phrases) > 8
    assert [each for each in phrases if each not in messages] == []


def test_every_module_that_is_named_exists() -> None:
    names = set(re.findall(r"python -m ([\w.]+)", TEXT))
    assert "tests.tools.benchmarks.assumed" in names
    assert [name for name in sorted(names) if find_spec(name) is None] == []


@as_one_test
@pytest.mark.parametrize("page", PAGES, ids=name_page)
def test_every_link_leads_somewhere(page: Path) -> None:
    assert find_broken_links(page) == []


@as_one_test
@pytest.mark.parametrize("page", PAGES, ids=name_page)
def test_every_file_that_is_named_exists(page: Path) -> None:
    names = re.findall(r"`((?:addon|masking|tests|recordings|packaging)/[a-z_/.]*)`", PAGES[page])
    assert [name for name in names if not (ROOT / name).exists()] == []


def test_the_readme_says_in_few_words_what_to_type() -> None:
    assert 900 >= len(README.split())
    first_screen = README.partition("## Try it")[0]
    assert len(WHAT_TO_TYPE) == 4  # "as above" is the fifth row
    assert all(f"`obsmask {call}`" in first_screen for call in WHAT_TO_TYPE)


def test_the_two_commands_stand_alone() -> None:
    commands = re.findall(r"^python3 -m venv .*$", README, re.MULTILINE)
    assert [command.rpartition("/")[2] for command in commands] == ["obsmask demo", "pytest"]

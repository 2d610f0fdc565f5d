"""Every advice to change the configuration can be taken over as it is printed.

That is so with a file that `obsmask config init` wrote, and without one. A new advice has to be put
into `PRINTED`: the tests at the end find those that are not there.
"""

import ast
import functools
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from addon.commands.doctor.configuration import check_configuration, read_configuration
from addon.commands.doctor.records import check_passed
from addon.commands.doctor.report import Finding
from addon.commands.doctor.storage import check_accounts, read_accounts
from addon.commands.main import main
from addon.commands.page import explain_no_page
from addon.commands.run import Ended, Remedies, render_end
from addon.config import ConfigFile, render_recall, user_config
from addon.config_commands import Advice
from addon.mask import render_recording
from addon.network import Address
from addon.page.server import render_no_page
from addon.proxy.health import Health
from addon.proxy.websocket import explain_closed, explain_passed
from addon.records.advice import Warnings, render_uncached
from addon.records.words import BOUND, CLEARABLE, PASSED, WhyUnmasked
from addon.skip_reasons import HELD, Held
from masking.config import PageSettings, Settings, list_keys, list_values, parse_settings
from masking.config.settings import Tables
from tests.support.findings import record
from tests.support.made_up_records import tally
from tests.support.marks import thorough
from tests.support.pages import find_pages
from tests.support.places import ROOT
from tests.support.remembered import learn
from tests.support.talks import work, write_body

Screen = pytest.CaptureFixture[str]
Printed = Callable[[Screen], str]
"""Returns what is printed where an advice is given; files are the user's own, or none."""

ADVICE = Advice()


def _run(*arguments: str) -> Printed:
    def run(capsys: Screen) -> str:
        assert main(arguments) == 0
        return capsys.readouterr().out

    return run


def _undo(capsys: Screen) -> str:
    assert main(["config", "set", "schema1.window_turns=12"]) == 0
    capsys.readouterr()
    assert main(["config", "set", "schema1.window_turns=4"]) == 0
    return capsys.readouterr().out.partition("To undo: ")[2]


def _tune(capsys: Screen) -> str:
    file = user_config().with_name("talk.json")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(write_body(work(18, chars=1_500)))
    assert main(["tune", "--processes", "1", str(file)]) == 0
    return capsys.readouterr().out


def _fix(find: Callable[[], Iterator[Finding]]) -> Printed:
    return lambda _: "\n".join(found.fix or "" for found in find())


def _diagnose(change: str) -> Printed:
    """Return what is advised where the user's own file has been changed so."""

    def diagnose(capsys: Screen) -> str:
        assert main(["config", "set", change]) == 0
        return "\n".join(f.fix or "" for f in check_configuration(read_configuration("")))

    return diagnose


def _check_refusal(_: Screen) -> str:
    learn("api.anthropic.com", "claude-opus-5-5", "refuses")
    return "".join(found.fix or "" for found in check_accounts(read_accounts(), ADVICE))


def _recalled() -> Settings:
    settings = parse_settings(b"[observation_masking.recall]\nenabled = true\nfolder = '/srv/kept'")
    assert settings is not None
    return settings


def _assume(host: str) -> Printed:
    prices = {"price_source": "assumed", "price_read_ratio": 0.1, "price_write_ratio": 1.25}
    return lambda _: "".join(Warnings().find(record(host=host, **prices), ADVICE))


RECORDED = SimpleNamespace(save_stream_file="out.flow", rfile=None)
MOVE_HELD = record(conversation=3, boundary_held=True, prompt_tokens=9, cached_tokens=0)
LOCAL, FOREIGN = "::1", "bücher.example"


def _explain_passed(why: Held, _: object) -> str:
    return explain_passed("chatgpt.com", "codex_exec", "gpt-5.6-sol", why, ADVICE) or ""


PRINTED: dict[str, list[Printed]] = {
    "addon.records.advice._say_held": [
        lambda _: "".join(Warnings().find(MOVE_HELD, ADVICE))
    ],
    "addon.records.advice._say_assumed": [_assume(LOCAL), _assume(FOREIGN)],
    "addon.records.advice.render_uncached": [
        lambda _: render_uncached("127.0.0.1", ADVICE),
        lambda _: render_uncached("true", ADVICE),
    ],
    "addon.records.advice._say_bound": [
        lambda _: "".join(
            Warnings().find(record(binding="drops", kept={"bound": 1}), ADVICE)
        ),
        lambda _: "".join(
            Warnings().find(
                record(binding="refuses", clearing="possible", kept={"bound": 1}), ADVICE
            )
        )
    ],
    "addon.records.words.WhyUnmasked.explain": [
        lambda _: "\n".join(
            map(WhyUnmasked.explain, (*PASSED.values(), *BOUND.values(), *CLEARABLE.values()))
        ),
        lambda _: render_end(
        tally({"binding": "drops", "kept": {"bound": 3}, "tool_results": 3}),
        Health(
            software_version="1", run="0", state="ON", is_masking=True, config=str(user_config()),
            records="/state/requests.jsonl", unopened={}, unserved=0,
        ),
        Remedies(), Ended(("agent",), 0, 60.0), deaths=0, log=None,
        ),
    ],
    "addon.config.render_recall": [lambda _: render_recall(_recalled(), ADVICE) or ""],
    "addon.page.server.render_no_page": [
        lambda _: render_no_page(PageSettings(port=80), OSError(13, "denied"), ADVICE)
    ],
    "addon.mask.render_recording": [
        lambda _: render_recording(Settings(), RECORDED, ADVICE) or ""  # type: ignore[arg-type]
    ],
    "addon.proxy.websocket.explain_closed": [
        lambda _: explain_closed("chatgpt.com", "codex_exec", ADVICE)
    ],
    "addon.proxy.websocket.explain_passed": [
        functools.partial(_explain_passed, "pass"),
        functools.partial(_explain_passed, "unknown"),
        functools.partial(_explain_passed, "bound"),
    ],
    "addon.commands.page.explain_no_page": [
        lambda _: explain_no_page(Address("127.0.0.1", 8080), user_config())
    ],
    "addon.commands.prices.render_host": [
        _run("prices", "localhost", "gpt-4o"),
        _run("prices", "llm.example.com"),
    ],
    "addon.commands.config._print_way_back": [_undo],
    "addon.commands.tune.run_tune": [_tune],
    "addon.commands.doctor.records.check_passed": [
        _fix(lambda: check_passed([record(passed_through=HELD["pass"])], ADVICE)),
        lambda _: "".join(
            found.says
            for found in check_passed(
                [record(passed_through=HELD["bound"], binding="drops")], ADVICE
            )
        ),
    ],
    "addon.commands.doctor.storage.check_accounts": [_check_refusal],
    "addon.commands.doctor.configuration.check_configuration": [
        _diagnose("schema1.enabled=false"),
        _diagnose("schema1.window_turns=0"),
        _diagnose("mode=observe"),
    ],
}  # fmt: skip
"""What is printed, by the function that has the advice."""

COMMAND = re.compile(r"obsmask config (?:set|add)(?: (?:'(?:[^']|'\"'\"')*'|[^\s';]*[^\s';,.]))+")
"""A command within a sentence: what follows, as ` changes that`, has no `=`."""


UNDO = re.compile(r" \(undo: (obsmask config unset [^)]*)\)")


def find_commands(text: str) -> list[list[str]]:
    """Return the commands in a text that change a configuration, as a shell reads them."""
    found = (shlex.split(each)[1:] for each in COMMAND.findall(UNDO.sub("", text)))
    return [[*each[:2], *(word for word in each[2:] if _is_argument(word))] for each in found]


def _is_argument(word: str) -> bool:
    return "=" in word or word.startswith("/") or word == "--config"


@pytest.fixture(params=["no file", "a file of config init"])
def own(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A home with no configuration, or with what `obsmask config init` writes."""
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.delenv("OBSMASK_CONFIG", raising=False)
    monkeypatch.delenv("STREAM_REDACTION_ENABLED", raising=False)
    if request.param != "no file":
        assert main(["config", "init"]) == 0
    return user_config()


OVER_A_FILE = pytest.mark.parametrize(
    "own", [thorough("no file"), "a file of config init"], indirect=True
)
"""More stands in the way there than where no file is, which others try."""


@pytest.mark.parametrize(
    "printed",
    [
        pytest.param(one, id=f"{place.removeprefix('addon.')} {number}")
        for place, each in PRINTED.items()
        for number, one in enumerate(each)
    ],
)
@OVER_A_FILE
def test_an_advice_can_be_taken_over_as_it_is_printed(
    printed: Printed, own: Path, capsys: Screen
) -> None:
    text = printed(capsys)
    commands = find_commands(text)
    assert commands
    for command in commands:
        assert main(command) == 0, capsys.readouterr().err
    assert main(["config", "check", str(own)]) == 0
    changed = list_names(own)
    names = {word.partition("=")[0] for command in commands for word in command if "=" in word}
    assert names <= changed
    for command in UNDO.findall(text):
        _, *arguments = shlex.split(command)
        assert main(arguments) == 0, capsys.readouterr().err
        assert set() == {*arguments} & list_names(own)


def list_names(file: Path) -> set[str]:
    return {value.name for value in list_values(file.read_bytes()) if value.source == "file"}


def test_a_command_in_a_sentence_comes_with_what_undoes_it() -> None:
    change = {"schema1.bound_reasoning": "drop", "websocket.mode": "auto", "page.port": 9}
    assert (
        "obsmask config set schema1.bound_reasoning=drop websocket.mode=auto page.port=9 "
        "(undo: obsmask config unset schema1.bound_reasoning page.port)"
    ) == ADVICE.change(change)
    assert "obsmask config set mode=on" == ADVICE.change({"mode": "on"})


def test_two_prices_can_be_taken_over_one_after_the_other(own: Path, capsys: Screen) -> None:
    for host in ("a.example", "b.example"):
        price = {"host": host, "model": "gpt-5", "read": 0.1, "write": 1.0}
        (command,) = find_commands(ADVICE.add("prices", price))
        assert main(command) == 0, capsys.readouterr().err
    hosts = [price.host for price in ConfigFile(own).settings.prices]
    assert ["a.example", "b.example"] == hosts


def test_what_is_advised_is_what_then_holds(own: Path, capsys: Screen) -> None:
    for command in find_commands(render_uncached("true", ADVICE) + "\n" + _bound()):
        assert main(command) == 0, capsys.readouterr().err
    settings = ConfigFile(own).settings
    assert (("true",), "drop") == (settings.hosts.uncached, settings.policy.bound_reasoning)


def _bound() -> str:
    return "".join(Warnings().find(record(binding="drops", kept={"bound": 1}), ADVICE))


def test_a_file_that_is_not_found_by_itself_is_named(tmp_path: Path, capsys: Screen) -> None:
    file = tmp_path / "of a team's.toml"
    file.write_text("[observation_masking]\n", encoding="utf-8")
    (command,) = find_commands(render_uncached("gpu.example", ConfigFile(file).advice))
    assert main(command) == 0, capsys.readouterr().err
    assert ("gpu.example",) == ConfigFile(file).settings.hosts.uncached


# The pages


PAGES = "\n".join(page.read_text(encoding="utf-8") for page in find_pages(ROOT))


@OVER_A_FILE
def test_the_commands_of_the_pages_can_be_taken_over(own: Path, capsys: Screen) -> None:
    blocks = "".join(re.findall(r"^```sh\n(.*?)^```", PAGES, re.MULTILINE | re.DOTALL))
    commands = dict.fromkeys(map(tuple, find_commands(blocks)))
    assert commands
    for command in commands:
        assert main(command) == 0, capsys.readouterr().err
    assert main(["config", "check", str(own)]) == 0


@pytest.mark.parametrize(
    "lines",
    [
        lines
        for lines in re.findall(r"^```toml\n(.*?)^```", PAGES, re.MULTILINE | re.DOTALL)
        if "observation_masking" in lines
    ],
    ids=lambda lines: lines.splitlines()[0],
)
def test_lines_of_the_pages_can_be_appended_to_a_file(
    lines: str, own: Path, capsys: Screen
) -> None:
    own.parent.mkdir(parents=True, exist_ok=True)
    before = own.read_text(encoding="utf-8") if own.exists() else ""
    own.write_text(f"{before}\n{lines}", encoding="utf-8")
    assert main(["config", "check", str(own)]) == 0, capsys.readouterr().err


# What is not in the table


@functools.cache
def read_modules() -> dict[str, str]:
    """Return the source of each module."""
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): path.read_text("utf-8")
        for top in ("addon", "masking")
        for path in sorted((ROOT / top).rglob("*.py"))
        if "studio" not in path.parts
    }


ADVICE_OF = re.compile(r"\b_?advi[cs]e(\(.*\))?$")


def find_advising(node: ast.AST, name: str) -> Iterator[str]:
    """Yield the functions in which a setting is set, or a value added, by an `Advice`."""
    for inner in ast.iter_child_nodes(node):
        is_scope = isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        yield from find_advising(inner, f"{name}.{inner.name}" if is_scope else name)  # type: ignore[attr-defined]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        is_change = node.func.attr in ("set", "change", "add")
        if is_change and ADVICE_OF.search(ast.unparse(node.func.value).lower()):
            yield name


def test_every_advice_is_taken_over_here() -> None:
    found = {
        each
        for name, source in read_modules().items()
        if "advi" in source.lower()
        for each in find_advising(ast.parse(source), name)
    }
    assert set(PRINTED) == found


KEYS = {
    *list_keys(Tables),
    *(value.name.split(".")[-1] for value in list_values(b"[observation_masking]")),
}

LINES = re.compile(
    r"obsmask config (set|add) \S*\w=|\[observation_masking|"
    rf"\b({'|'.join(sorted(KEYS))}) = [\w\"'\[{{]"
)
"""Lines of a configuration, or commands that change one, in a text."""

NO_ADVICE = {
    "addon.commands.config": [
        "\nTo change a setting, remove the # before it, or type: obsmask config set TABLE.KEY=VALUE"
    ],
    "addon.commands.doctor.client": ['websocket.mode = "http": ', 'websocket.mode = "auto": '],
    "addon.commands.prices": [
        'The window slides at every turn nevertheless: cache_pricing = "none"'
    ],
    "addon.skip_reasons": [HELD["pass"]],
}
"""Texts that only say what a setting is, by module."""


def find_texts(module: ast.Module) -> Iterator[str]:
    """Yield the texts of a module, but for its docstrings."""
    nodes = [*ast.walk(module)]
    docs = {
        id(node.value)
        for node in nodes
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.value


DESCRIBES = {
    *("addon.config_commands", "masking.config.settings"),
    *("masking.window.policy", "masking.arrival"),
}
"""What makes the commands, and what says of each setting what it does."""


def test_no_advice_is_written_out_by_hand() -> None:
    found = {
        name: [text for text in find_texts(ast.parse(source)) if LINES.search(text)]
        for name, source in read_modules().items()
        if name not in DESCRIBES
    }
    assert NO_ADVICE == {name: texts for name, texts in found.items() if texts}

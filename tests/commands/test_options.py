"""Options that change the configuration, as the overrides that a proxy is given."""

from pathlib import Path

import click
import pytest

from addon.commands.demo import RECORDING
from addon.commands.group import obsmask
from addon.commands.main import main
from addon.commands.options import policy_options, read_overrides, read_replay_settings
from addon.config import ConfigFile, user_config
from addon.places import shipped
from masking.config import RequestFacts, Settings, find_first
from tests.support.marks import as_one_test

SESSION = shipped("recordings") / RECORDING


def read(*arguments: str) -> Settings:
    """Return the shipped settings as a command with these options has them."""

    @click.command
    @policy_options
    def command(**given: object) -> list[str]:
        return read_overrides(given)

    overrides: list[str] = command.main(list(arguments), standalone_mode=False)
    return ConfigFile(shipped("config.toml"), overrides).settings


@as_one_test
@pytest.mark.parametrize(
    ("arguments", "key", "value"),
    [
        (("--window-turns", "4"), "window_turns", 4),
        (("--set", "schema1.window_turns=4"), "window_turns", 4),
        (("--set", "observation_masking.schema1.window_turns=4"), "window_turns", 4),
        (("--window-turns", "4", "--set", "schema1.window_turns=5"), "window_turns", 5),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_an_option_is_an_override(arguments: tuple[str, ...], key: str, value: object) -> None:
    assert value == getattr(read(*arguments).schema1, key)


@pytest.mark.parametrize("command", ["run", "proxy", "ext-proc", "replay", "tune"])
def test_an_option_of_old_says_how_its_setting_is_given_now(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for option, now in (
        ("--keep-errors", "keep_errors=true"),
        ("--no-keep-errors", "keep_errors=false"),
        ("--keep-tools=a,b", "keep_tools=VALUE"),
    ):
        assert 2 == main([command, option, "true"])
        name = option.partition("=")[0]
        assert f"{name} is now --set schema1.{now}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "option", "now"),
    [
        ("run", "--as-it-is", "--no-agent-setup"),
        ("run", "--client-changes", "--force-http"),
        ("env", "--as-it-is", "--no-agent-setup"),
    ],
)
def test_an_option_that_has_another_name_now_says_so(
    command: str, option: str, now: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert 2 == main([command, option])
    assert f"{option} is now {now}" in capsys.readouterr().err
    assert 2 == main([command, "--no-such-thing"])
    assert "--no-such-thing" in capsys.readouterr().err


def test_no_option_changes_nothing() -> None:
    assert Settings() == read()


def test_any_key_can_be_set_several_at_once() -> None:
    settings = read("--set", "websocket.mode=http", "--set", 'hosts.only=["a.example"]')
    assert ("http", ("a.example",)) == (settings.websocket.mode, settings.hosts.only)


READERS = [
    *("run", "doctor", "config", "proxy", "ext-proc", "replay", "tune", "status"),
    *("recall", "mcp", "prices"),
]
"""The commands that read the configuration."""


def test_every_command_that_reads_the_configuration_takes_changes_of_it() -> None:
    context = click.Context(obsmask)
    found = {name: obsmask.get_command(context, name) for name in obsmask.list_commands(context)}
    options = {name: {each.name for each in found.params} for name, found in found.items() if found}
    assert set(READERS) == {name for name, names in options.items() if "config" in names}
    assert set(READERS) == {name for name, names in options.items() if "changes" in names}


@pytest.mark.parametrize(
    "arguments",
    [
        ["config"],
        ["prices"],
        ["status"],
        ["recall", "--list"],
        ["replay", str(SESSION)],
        ["tune", str(SESSION)],
        ["run", "true"],
        ["proxy"],
        ["mcp"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_change_takes_effect_in_each_command(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A change that cannot be is refused, by the name that it was given."""
    command, *others = arguments
    assert main([command, "--set", "observation_masking.schema1.window_turn=4", *others]) == 1
    expected = "unknown key (did you mean 'window_turns'?) in 'schema1.window_turn'"
    assert f"obsmask: {expected}\n" == capsys.readouterr().err


@pytest.mark.parametrize("place", ["environment", "user"])
def test_a_mistake_in_a_file_that_holds_unnamed_says_how_to_do_without_it(
    place: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    path = user_config()
    path.parent.mkdir(parents=True)
    path.write_text("[observation_masking.scheme1]", encoding="utf-8")
    if place == "environment":
        monkeypatch.setenv("OBSMASK_CONFIG", str(path))
    assert main(["prices"]) == 1
    without = f"--config {shipped('config.toml')}"
    error = capsys.readouterr().err
    assert error.startswith(f"obsmask: {path}: unknown key (did you mean 'schema1'?) in ")
    assert error.endswith(f"'; to use the default settings instead: {without}\n")
    assert main(["prices", *without.split()]) == 0
    assert main(["prices", "--config", str(path)]) == 1
    assert without not in capsys.readouterr().err


@pytest.mark.parametrize(("options", "expected"), [((), 36), (("--window-turns", "5"), 5)])
def test_a_replay_gives_a_client_its_own_window_unless_an_option_does(
    options: tuple[str, ...], expected: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("OBSMASK_CONFIG", raising=False)
    command = obsmask.get_command(click.Context(obsmask), "replay")
    assert command is not None
    given = command.make_context("replay", [*options, "x.flow"]).params
    (settings,) = read_replay_settings(given)
    facts = RequestFacts("api.openai.com", "gpt-5", "/v1/chat/completions", "openhands")
    found = find_first(settings.rules, facts, None)
    window = settings.policy if found is None else found.strategies.schema1
    assert expected == window.window_turns

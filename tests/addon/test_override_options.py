"""Options that change the configuration, as the overrides that a proxy is given."""

import click
import pytest

from addon.commands.options import override_options, read_overrides
from addon.shared.config_file import ConfigFile
from addon.shared.shipped import shipped
from masking.config import Settings


def read(*arguments: str) -> Settings:
    """Return the shipped settings as a command with these options has them."""

    @click.command
    @override_options
    def command(**given: object) -> list[str]:
        return read_overrides(given)

    overrides: list[str] = command.main(list(arguments), standalone_mode=False)
    return ConfigFile(shipped("config.toml"), overrides).settings


@pytest.mark.parametrize(
    ("arguments", "key", "value"),
    [
        (("--window-turns", "4"), "window_turns", 4),
        (("--no-keep-errors",), "keep_errors", False),
        (("--max-loss", "0.5"), "max_loss", 0.5),
        (("--bound-reasoning", "drop"), "bound_reasoning", "drop"),
        (("--target-arguments", "file,a b"), "target_arguments", ("file", "a b")),
        (("--placeholder-template", 'a\n"é"\\{tool_name}'), "placeholder_template", None),
        (("--set", "schema1.window_turns=4"), "window_turns", 4),
        (("--window-turns", "4", "--set", "schema1.window_turns=5"), "window_turns", 5),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_an_option_is_an_override(arguments: tuple[str, ...], key: str, value: object) -> None:
    expected = arguments[1] if value is None else value
    assert expected == getattr(read(*arguments).schema1, key)


def test_no_option_changes_nothing() -> None:
    assert Settings() == read()


def test_any_key_can_be_set_several_at_once() -> None:
    settings = read("--set", "websocket.mode=http", "--set", 'hosts.only=["a.example"]')
    assert ("http", ("a.example",)) == (settings.websocket.mode, settings.hosts.only)

"""Chapter 18: the configuration is TOML, and a mistake in it is an error that names the key.

Which file is read, and when, takes folders and processes: `tests/addon/test_config_file.py`. The
same chapter of the contract says that a file which holds no records is never appended to:
`tests/addon/test_record_file.py`.
"""

import logging

import pytest

from masking import ConfigError
from masking.config import parse_settings
from tests.spec.conftest import CONFIG, Addon
from tests.spec.talk import CHAT, OUTPUT
from tests.support.marks import as_one_test
from tests.support.places import CONFIG as SHIPPED
from tests.support.wire_conversations import User, turn


def explain(config: str) -> str:
    """Return what is wrong with a configuration."""
    with pytest.raises(ConfigError) as raised:
        parse_settings(config.encode())
    return str(raised.value)


@as_one_test
@pytest.mark.parametrize(
    ("table", "line", "key"),
    [
        ("schema1", "window_turn = 8", "schema1.window_turn"),
        ("schema1", "x = 1", "schema1.x"),
        ("redaction", "tools = []", "redaction.tools"),
        ("nowhere", "x = 1", "nowhere"),
        ("schema1", 'enabled = "false"', "schema1.enabled"),
        ("schema1", "enabled = 0", "schema1.enabled"),
        ("schema1", 'window_turns = "8"', "schema1.window_turns"),
        ("schema1", "window_turns = 8.5", "schema1.window_turns"),
        ("schema1", "keep_tools = 3", "schema1.keep_tools"),
        ("schema1", 'placeholder_template = "{unknown}"', "schema1.placeholder_template"),
        ("schema1", "max_loss = -1.0", "schema1.max_loss"),
        ("schema1", 'cache_pricing = "sometimes"', "schema1.cache_pricing"),
        ("schema1", 'bound_reasoning = "perhaps"', "schema1.bound_reasoning"),
        ("hosts", 'never = ["https://example.org"]', "hosts.never"),
    ],
)
def test_an_unknown_key_or_a_wrong_type_is_an_error_that_names_it(
    table: str, line: str, key: str
) -> None:
    assert f"'observation_masking.{key}" in explain(f"[observation_masking.{table}]\n{line}")


def test_what_is_no_toml_is_an_error() -> None:
    assert "not TOML" in explain("window_turns 8")


def test_other_tables_of_the_file_are_none_of_our_business() -> None:
    other = '[tool.other]\nwindow_turns = "many"\n'
    assert None is parse_settings(other.encode())
    assert parse_settings(CONFIG.encode()) == parse_settings((other + CONFIG).encode())


def test_what_a_file_leaves_out_is_as_shipped() -> None:
    assert parse_settings(SHIPPED.read_bytes()) == parse_settings(b"[observation_masking]\n")


def test_what_is_shipped() -> None:
    settings = parse_settings(SHIPPED.read_bytes())
    assert settings is not None
    policy, strategies = settings.policy, settings.strategies
    assert {
        "enabled": True,
        "window_turns": 8,
        "keep_errors": True,
        "skip_if_not_shorter": True,
        "mask_text_parts": True,
        "error_words_max_chars": 2_000,
        "max_loss": 0.10,
    } == {
        name: getattr(policy, name)
        for name in (
            *("enabled", "window_turns", "keep_errors", "skip_if_not_shorter"),
            *("mask_text_parts", "error_words_max_chars", "max_loss"),
        )
    }
    assert (False, False, False) == (
        strategies.redaction.enabled,
        strategies.reduction.enabled,
        settings.mcp.enabled,
    )
    prices = settings.price_settings
    assert ("auto", (0.1, 1.25)) == (prices.cache_pricing, prices.assumed)
    assert ("on", 0) == (settings.mode, settings.holdout_percent)


def test_an_override_is_a_table_a_key_and_a_value() -> None:
    settings = parse_settings(CONFIG.encode(), ["schema1.window_turns=3"])
    assert settings is not None
    assert 3 == settings.policy.window_turns
    with pytest.raises(ConfigError, match="window_turn"):
        parse_settings(CONFIG.encode(), ["schema1.window_turn=3"])


def test_a_file_that_cannot_be_written_is_a_warning_and_no_reason_not_to_start(
    addon: Addon, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    nowhere = addon.folder / "config.toml" / "records.jsonl"  # in a file, as if that were a folder
    addon.start(f'{CONFIG}[observation_masking.metrics]\npath = "{nowhere}"\n')
    told = CHAT.tell(User(), *turn("a", OUTPUT), *turn("b", OUTPUT))
    assert b"<a shell 600>" in (addon.pass_on(told.body).raw_content or b"")
    addon.stop()
    assert f"no records in {nowhere}: Not a directory" in caplog.messages


def test_a_price_that_is_assumed_is_named_once_per_host_with_the_line_to_set(
    addon: Addon, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    addon.start()
    body = CHAT.tell(User(), *turn("a", OUTPUT)).body
    for host in ("one.example.org", "one.example.org", "other.example.org"):
        addon.pass_on(body, host=host)
    addon.stop()
    lines = [line for line in caplog.messages if "assumed" in line]
    assert [("one.example.org" in line, "obsmask config add" in line) for line in lines] == [
        (True, True),
        (False, True),
    ]

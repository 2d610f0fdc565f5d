"""Settings given beside a file: how they are spelled, where they go, what a mistake says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from addon.metrics.toml_values import dump_toml
from masking.config import apply_overrides, parse_settings, read_override
from masking.errors import ConfigError, OverrideError

FILE = b"[observation_masking.schema1]\nwindow_turns = 5\nkeep_errors = false\n"


@pytest.mark.parametrize(
    ("text", "keys", "value"),
    [
        pytest.param("schema1.window_turns=4", "schema1.window_turns", 4, id="a number"),
        pytest.param("schema1.max_loss=0.5", "schema1.max_loss", 0.5, id="a fraction"),
        pytest.param("mcp.enabled=true", "mcp.enabled", True, id="a boolean"),
        pytest.param("mcp.enabled=True", "mcp.enabled", "True", id="no boolean of TOML"),
        pytest.param('websocket.mode="http"', "websocket.mode", "http", id="a text"),
        pytest.param("websocket.mode=http", "websocket.mode", "http", id="a text without quotes"),
        pytest.param("metrics.path=", "metrics.path", "", id="nothing"),
        pytest.param("metrics.path=a=b", "metrics.path", "a=b", id="a second equals sign"),
        pytest.param('hosts.only=["a", "b"]', "hosts.only", ["a", "b"], id="a list"),
        pytest.param("hosts.only=[a]", "hosts.only", "[a]", id="no list of TOML"),
        pytest.param("prices=[{read = 0}]", "prices", [{"read": 0}], id="a list of tables"),
        pytest.param(" mcp.head = 1 # c", "mcp.head", 1, id="spaces and a comment"),
        pytest.param("mcp.head=1\nx = 2", "mcp.head", "1\nx = 2", id="a second line"),
        pytest.param(
            "hosts.only=['\udcc3\udcbc']", "hosts.only", ["ü"], id="bytes of another locale"
        ),
        pytest.param("mode=observe", "mode", "observe", id="a key without a table"),
        pytest.param(
            "observation_masking.schema1.min_chars=4", "schema1.min_chars", 4, id="the full name"
        ),
        pytest.param(
            "observation_masking.mode=observe",
            "mode",
            "observe",
            id="the same without a table",
        ),
        pytest.param(
            "reduction.observation_masking=false",
            "reduction.observation_masking",
            False,
            id="a key with the name of our table",
        ),
        pytest.param("a.b=" + "[" * 5000, "a.b", "[" * 5000, id="too deep"),
    ],
)
def test_an_override_is_a_line_of_toml(text: str, keys: str, value: object) -> None:
    assert (tuple(keys.split(".")), value) == read_override(text)


SIMPLE = st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text() | st.floats(allow_nan=False)


@given(SIMPLE | st.lists(SIMPLE) | st.lists(st.dictionaries(st.text(), SIMPLE), min_size=1))
def test_a_value_that_is_spelled_as_toml_comes_back(value: object) -> None:
    assert [value] == read_override(f"a.b={dump_toml([value])}").value


@pytest.mark.parametrize("text", ["", "=", "=4", "schema1", "a b=4", "a..b=4", ".a=4", "ä=4"])
def test_what_is_no_override(text: str) -> None:
    with pytest.raises(OverrideError, match=r"^expected TABLE.KEY=VALUE"):
        read_override(text)


def test_a_long_override_is_not_repeated() -> None:
    with pytest.raises(OverrideError) as raised:
        read_override("secret" * 100)
    assert "secret" * 10 == raised.value.path


def test_an_override_in_bytes_that_are_no_utf_8_is_a_mistake() -> None:
    with pytest.raises(OverrideError, match=r"not UTF-8 in 'metrics.path'"):
        read_override("metrics.path=\udcff")


def test_overrides_leave_what_they_do_not_name_as_it_was() -> None:
    table = {"a": {"x": 1, "y": 2}, "b": 3}
    expected = {"a": {"x": 1, "y": 5}, "b": {"z": 6}, "c": 7}
    assert expected == apply_overrides(table, ["a.y=4", "a.y=5", "b.z=6", "c=7"])
    assert {"a": {"x": 1, "y": 2}, "b": 3} == table


def test_an_override_comes_before_the_file() -> None:
    settings = parse_settings(FILE, ["schema1.window_turns=4", "websocket.mode=http"])
    assert settings is not None
    assert (4, False) == (settings.policy.window_turns, settings.policy.keep_errors)
    assert "http" == settings.websocket.mode


@pytest.mark.parametrize(
    ("override", "path", "problem"),
    [
        ("schema1.window_turn=4", "schema1.window_turn", "unknown key (did you mean 'window_t"),
        ("schema2.window_turns=4", "schema2", "unknown key (did you mean 'schema1'?)"),
        ("window_turns=4", "window_turns", "unknown key (did you mean 'schema1.window_turns'?)"),
        ("enabled=true", "enabled", "unknown key (known: mode, "),
        (
            "schema1.window_turns=four",
            "schema1.window_turns",
            "expected a whole number, got a text",
        ),
        (
            "schema1.window_turns.x=4",
            "schema1.window_turns",
            "expected a whole number, got a table",
        ),
        ("schema1=4", "schema1", "expected a table, got a whole number"),
        ("schema1.max_loss=-1", "schema1.max_loss", "must be a number from 0 up"),
        ('hosts.never=["a", "b:1"]', "hosts.never[1]", "expected a host name"),
        ("nonsense", "nonsense", "expected TABLE.KEY=VALUE"),
    ],
)
def test_a_mistake_in_an_override_names_its_key(override: str, path: str, problem: str) -> None:
    with pytest.raises(OverrideError) as raised:
        parse_settings(FILE, [override])
    assert path == raised.value.path
    assert problem in str(raised.value)


def test_a_mistake_of_the_file_is_the_files_even_where_an_override_comes_before_it() -> None:
    with pytest.raises(ConfigError) as raised:
        parse_settings(FILE.replace(b"= 5", b"= '5'"), ["schema1.window_turns=4"])
    assert "observation_masking.schema1.window_turns" == raised.value.path


def test_overrides_do_not_make_a_file_ours() -> None:
    assert parse_settings(b"x = 1", ["schema1.window_turns=4"]) is None

"""Every value of a configuration, and where it comes from."""

import json

import pytest
from pydantic_core import to_json

from masking.config import ConfigValue, Source, Tables, list_values
from tests.places import CONFIG

FILE = b"""
[observation_masking.schema1]
window_turns = 8
max_loss = 1
[observation_masking.hosts]
uncached = ["A.example."]
[[observation_masking.prices]]
read = 0.2
write = 1
"""


def find(name: str, *overrides: str, switch: str | None = None) -> ConfigValue:
    (found,) = (v for v in list_values(FILE, overrides, switch) if v.name == name)
    return found


@pytest.mark.parametrize(
    ("name", "value", "shipped", "source"),
    [
        pytest.param("schema1.keep_errors", True, True, "shipped", id="left out"),
        pytest.param("schema1.window_turns", 8, 8, "file", id="set to the shipped value"),
        pytest.param("schema1.max_loss", 1.0, 0.1, "file", id="set to another"),
        pytest.param("hosts.uncached", ["a.example"], [], "file", id="in the form compared"),
        pytest.param(
            "prices",
            [{"host": "*", "model": "*", "read": 0.2, "write": 1.0, "dollars_per_million": None}],
            [],
            "file",
            id="tables",
        ),
    ],
)
def test_a_value_is_the_files_or_the_shipped_one(
    name: str, value: object, shipped: object, source: Source
) -> None:
    assert ConfigValue(name, value, shipped, source) == find(name)


@pytest.mark.parametrize("override", ["schema1.window_turns=4", "schema1={window_turns = 4}"])
def test_an_override_comes_before_the_file(override: str) -> None:
    assert ConfigValue("schema1.window_turns", 4, 8, "override") == find(
        "schema1.window_turns", override
    )
    assert "file" == find("schema1.max_loss", "schema1.window_turns=4").source


@pytest.mark.parametrize(("switch", "expected"), [("1", True), ("F", False), ("what", True)])
def test_the_environment_comes_before_an_override(switch: str, expected: bool) -> None:
    name, override = "redaction.enabled", "redaction.enabled=false"
    assert ConfigValue(name, expected, False, "environment") == find(name, override, switch=switch)
    assert ConfigValue(name, False, False, "override") == find(name, override)


def test_rules_have_what_they_say_and_no_more() -> None:
    rules = """
[[observation_masking.rules]]
header = "X-Team"
label = "a"
schema1 = { window_turns = 2 }
"""
    (found,) = (v for v in list_values(rules.encode()) if v.name == "rules")
    expected = [{"header": {"x-team": "*"}, "label": "a", "schema1": {"window_turns": 2}}]
    assert ConfigValue("rules", expected, [], "file") == found


def test_every_key_has_its_place() -> None:
    tables = json.loads(to_json(Tables()))
    assert [[]] * 3 == [tables.pop(name) for name in ("prices", "windows", "rules")]
    keys = [
        f"{name}.{key}" if isinstance(found, dict) else name
        for name, found in tables.items()
        for key in (found if isinstance(found, dict) else [name])
    ]
    values = list_values(CONFIG.read_bytes())
    assert [*keys, "prices", "windows", "rules"] == [value.name for value in values]
    assert [value.shipped for value in values] == [value.value for value in values]


def test_a_file_without_our_table_has_no_values() -> None:
    assert [] == list_values(b"x = 1")

import dataclasses
import inspect

import pytest

from masking import ConfigError, MaskPolicy, ReductionOptions
from masking.arrival import ArrivalSettings
from masking.config import Settings, list_keys
from masking.mcp import McpSettings
from masking.redaction import RedactionSettings
from tests.support.builders import TEMPLATE, policy
from tests.support.marks import as_one_test


def test_the_tech_specs_five_fields_come_first_in_its_order() -> None:
    found = MaskPolicy(True, 5, False, 2, TEMPLATE)
    assert (
        found.enabled,
        found.window_turns,
        found.keep_errors,
        found.keep_last_k_per_tool,
        found.placeholder_template,
    ) == (True, 5, False, 2, TEMPLATE)


def test_every_added_field_has_a_default_that_leaves_the_tech_spec_unchanged() -> None:
    found = MaskPolicy(True, 5, False, None, TEMPLATE)
    assert (
        found.skip_if_not_shorter,
        found.mask_text_parts,
        found.error_words_max_chars,
    ) == (False, False, 2_000)


def test_added_fields_are_keyword_only() -> None:
    with pytest.raises(TypeError):
        MaskPolicy(True, 5, False, None, TEMPLATE, True)  # type: ignore[call-arg]


def test_defaults() -> None:
    expected = (False, 8, True, None)
    found = MaskPolicy()
    assert expected == (
        found.enabled,
        found.window_turns,
        found.keep_errors,
        found.keep_last_k_per_tool,
    )


def test_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        MaskPolicy().enabled = True  # type: ignore[misc]


@as_one_test
@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"placeholder_template": "{nope}"}, "placeholder_template"),
        ({"placeholder_template": " "}, "placeholder_template"),
        ({"error_words_max_chars": -1}, "error_words_max_chars"),
        ({"window_turns": "3"}, "window_turns"),
        ({"window_turns": 2.5}, "window_turns"),
        ({"window_turns": True}, "window_turns"),
    ],
)
def test_a_bad_value_is_a_configuration_error(changes: dict[str, object], path: str) -> None:
    with pytest.raises(ConfigError) as caught:
        policy(**changes)
    assert path == caught.value.path


@pytest.mark.parametrize(
    ("enabled", "window", "expected"),
    [(True, 1, True), (True, 0, False), (True, -1, False), (False, 8, False)],
)
def test_off_is_disabled_or_no_window(enabled: bool, window: int, expected: bool) -> None:
    assert expected == MaskPolicy(enabled, window).masks


# A setting is declared in the field of its policy, and nowhere else.


def test_a_file_has_the_settings_that_the_policies_declare() -> None:
    declared = {
        "schema1": MaskPolicy,
        "arrival": ArrivalSettings,
        "redaction": RedactionSettings,
        "reduction": ReductionOptions,
        "mcp": McpSettings,
    }
    for name, declaring in declared.items():
        table = list_keys(type(getattr(Settings(), name)))
        for field in dataclasses.fields(declaring):
            said, key = field.metadata, table[field.name]
            assert (said["shipped"], said["description"]) == (key.default, key.description)
    assert (False, True) == (MaskPolicy().enabled, Settings().policy.enabled)


def test_help_says_what_each_setting_does() -> None:
    shown = inspect.getdoc(MaskPolicy) or ""
    assert "\nkeep_errors: Keep results that look like errors, no matter how old.\n" in shown
    assert all(f"\n{field.name}: " in shown for field in dataclasses.fields(MaskPolicy))


def test_policies_are_compared_by_their_values() -> None:
    one, other = MaskPolicy(True, 5), MaskPolicy(True, 5, keep_tools=("a",))
    assert MaskPolicy(True, 5) == one != other
    assert 2 == len({one, other, MaskPolicy(True, 5)})


@pytest.mark.parametrize("name", ["keep_tools", "mask_tools", "keep_arguments", "target_arguments"])
def test_a_text_is_no_list_of_names(name: str) -> None:
    with pytest.raises(ConfigError, match=f"^expected a list of names, got a text in '{name}'$"):
        policy(**{name: "bash"})

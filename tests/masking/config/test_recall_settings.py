"""The settings of recall, and of the arguments in a placeholder."""

from dataclasses import astuple, replace
from typing import NamedTuple

import pytest

from masking import ConfigError, MaskPolicy
from masking.config import RecallSettings, Settings, parse_settings
from masking.redaction import RedactionPolicy
from tests.support.marks import as_one_test

ON = """
[observation_masking.schema1]
placeholder_template = "<{recall}>"
[observation_masking.recall]
enabled = true
"""


def parse(text: str, *overrides: str) -> Settings | None:
    return parse_settings(text.encode(), overrides)


def test_nothing_is_kept_unless_it_is_asked_for() -> None:
    assert RecallSettings() == Settings().recall
    assert (False, "", 200, 30) == astuple(RecallSettings())


@pytest.mark.parametrize("folder", ["", "/srv/recall", "~/recall", "~other/recall"])
def test_a_folder_is_a_full_path_or_begins_at_a_home(folder: str) -> None:
    settings = parse(ON, f"recall.folder='{folder}'")
    assert RecallSettings(enabled=True, folder=folder) == (settings and settings.recall)


class Mistake(NamedTuple):
    case: str
    override: str
    expected: str


MISTAKES = [
    Mistake("an id under which nothing is kept", "recall.enabled=false",
            "{recall} needs recall.enabled = true in 'schema1.placeholder_template'"),
    Mistake("a relative folder", "recall.folder='kept'",
            "must be a full path, or begin with ~ in 'recall.folder'"),
    Mistake("no size", "recall.max_megabytes=0", "must be at least 1 in 'recall.max_megabytes'"),
    Mistake("no time", "recall.max_days=0", "must be at least 1 in 'recall.max_days'"),
    Mistake("a switch of another type", "recall.enabled='auto'",
            "expected true or false, got a text in 'recall.enabled'"),
    Mistake("an unknown key", "recall.max_day=3",
            "unknown key (did you mean 'max_days'?) in 'recall.max_day'"),
    Mistake("redaction hides on purpose", "redaction.placeholder_template='{recall}'",
            "{recall}: what is redacted is not kept in 'redaction.placeholder_template'"),
    Mistake("a marker that does not fit", "arrival.max_chars=6000",
            "must be at least 6,076: head, tail and the longest marker in 'arrival.max_chars'"),
    Mistake("arguments of less than nothing", "schema1.placeholder_arguments_chars=-1",
            "must be from 0 to 1000 in 'schema1.placeholder_arguments_chars'"),
    Mistake("endless arguments", "schema1.placeholder_arguments_chars=1001",
            "must be from 0 to 1000 in 'schema1.placeholder_arguments_chars'"),
]  # fmt: skip


@as_one_test
@pytest.mark.parametrize("given", MISTAKES, ids=lambda given: given.case)
def test_a_mistake_is_named_with_its_key(given: Mistake) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(ON, given.override)
    assert given.expected == str(caught.value)


def test_a_marker_may_be_too_long_only_with_the_arguments_that_another_table_allows() -> None:
    marker = "arrival.marker_template='{arguments}'"
    most = "arrival.max_chars=6500"
    assert parse(ON, marker, most)
    with pytest.raises(ConfigError) as caught:
        parse(ON, marker, most, "schema1.placeholder_arguments_chars=1000")
    assert (
        "must be at least 7,000: head, tail and the longest marker in 'arrival.max_chars'"
        == str(caught.value)
    )


def test_a_marker_fits_if_its_arguments_are_as_short_as_another_table_says() -> None:
    marker = "arrival.marker_template='{arguments}'"
    most = "arrival.max_chars=6010"
    found = parse(ON, marker, most, "schema1.placeholder_arguments_chars=10")
    assert found is not None
    assert 6010 == found.strategies.arrival.max_chars


def test_a_mistake_in_the_file_has_its_full_path() -> None:
    with pytest.raises(ConfigError) as caught:
        parse(ON.replace("true", "false"))
    assert "observation_masking.schema1.placeholder_template" == caught.value.path


def test_arguments_are_shortened_alike_wherever_they_stand() -> None:
    settings = parse(ON, "schema1.placeholder_arguments_chars=9")
    assert settings is not None
    assert 9 == settings.policy.placeholder_arguments_chars
    assert 9 == settings.strategies.redaction.placeholder_arguments_chars


def test_in_python_a_placeholder_may_name_an_id() -> None:
    policy = MaskPolicy(placeholder_template="{recall}")
    assert policy.rendering.parsed.names_recall
    assert not replace(policy, placeholder_template="{arguments}").rendering.parsed.names_recall
    with pytest.raises(ConfigError):
        RedactionPolicy(placeholder_template="{recall}")

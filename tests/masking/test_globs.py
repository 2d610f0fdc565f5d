"""Globs: what they match, and that neither a hostile glob nor a long text takes long."""

from fnmatch import fnmatchcase

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from masking.errors import ConfigError
from masking.patterns import check_globs, matches


@pytest.mark.parametrize(
    ("glob", "text", "expected"),
    [
        ("read_*", "read_file", True),
        ("read_*", "read_", True),
        ("read_*", "unread_file", False),
        ("*/PLAN.md", "/work/PLAN.md", True),
        ("*/PLAN.md", "PLAN.md", False),
        ("*/PLAN.md", "/work/PLAN.md\n", False),
        ("*plan*", "two\nlines with a plan\nin them", True),
        ("PLAN.md", "plan.md", False),
        ("?at", "cat", True),
        ("?at", "at", False),
        ("[ab]1", "b1", True),
        ("[!ab]1", "b1", False),
        ("[", "[", True),
        ("a.c", "abc", False),
        ("(a|b)+$", "(a|b)+$", True),
        ("é*", "été", True),
        ("*\ud800", "a\ud800", True),
    ],
)
def test_what_a_glob_matches(glob: str, text: str, *, expected: bool) -> None:
    assert expected == matches(text, ("nothing", glob))


def test_no_glob_matches_nothing() -> None:
    assert not matches("", ())


@given(st.text("ab*?[]!-^\\.\n"), st.text("ab*?[]!-^\\.\n"))
@example("[[!a]", "[")
@example("[z-a]", "z")
def test_a_glob_is_what_fnmatch_takes_it_for(glob: str, text: str) -> None:
    assert fnmatchcase(text, glob) == matches(text, (glob,))


HOSTILE = ["*a" * 200 + "b", "*" * 5_000 + "b", "*a?" * 200 + "b", "*[a-z]" * 200 + "!", "a*" * 500]


@pytest.mark.parametrize("glob", HOSTILE, ids=lambda glob: glob[:8])
def test_a_hostile_glob_ends_on_a_long_text(glob: str) -> None:
    # With a regular expression that goes back behind each `*` none of these would end.
    assert (glob[0] == "a") == matches("a" * 100_000, (glob,))


@pytest.mark.parametrize("glob", ["", " ", "\t\n"])
def test_a_blank_is_refused_with_its_place(glob: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_globs(["read_*", glob], "keep_tools")
    assert "keep_tools[1]" == caught.value.path

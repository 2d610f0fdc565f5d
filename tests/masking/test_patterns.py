"""Patterns of names: globs, and the names of hosts."""

from fnmatch import fnmatchcase

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from masking.config import parse_settings
from masking.errors import ConfigError
from masking.patterns import check_globs, check_host, is_named, matches, normalize_host
from tests.support.marks import as_one_test

# Globs: what they match, and that neither a hostile glob nor a long text takes long.


@as_one_test
@pytest.mark.parametrize(
    ("glob", "text", "expected"),
    [
        ("read_*", "read_file", True),
        ("read_*", "read_", True),
        ("read_*", "unread_file", False),
        ("*/PLAN.md", "/repo/PLAN.md", True),
        ("*/PLAN.md", "PLAN.md", False),
        ("*/PLAN.md", "/repo/PLAN.md\n", False),
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


@as_one_test
@pytest.mark.parametrize("glob", HOSTILE, ids=lambda glob: glob[:8])
def test_a_hostile_glob_ends_on_a_long_text(glob: str) -> None:
    # With a regular expression that goes back behind each `*` none of these would end.
    assert (glob[0] == "a") == matches("a" * 100_000, (glob,))


@pytest.mark.parametrize("glob", ["", " ", "\t\n"])
def test_a_blank_is_refused_with_its_place(glob: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_globs(["read_*", glob], "keep_tools")
    assert "keep_tools[1]" == caught.value.path


# Host names and patterns of them, in whatever form they are written.


@as_one_test
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("API.Example.", "api.example"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("BÜCHER.example.", "xn--bcher-kva.example"),
        ("*.bücher.example", "*.xn--bcher-kva.example"),
        ("straße.de", "xn--strae-oqa.de"),
        ("日本語。\uff2a\uff30", "xn--wgv71a119e.jp"),
        ("XN--bcher-kva.example", "xn--bcher-kva.example"),
        ("a_b.ü", "a_b.xn--tda"),
        ("::1", "::1"),
        ("☕.Example.", "☕.example"),
        ("ü" * 300 + "A", "ü" * 300 + "a"),
    ],
)
def test_a_name_is_compared_as_it_is_looked_up(name: str, expected: str) -> None:
    assert expected == normalize_host(name)


@pytest.mark.parametrize(
    ("host", "pattern"),
    [
        pytest.param("xn--bcher-kva.example", "bücher.example", id="as TLS has it"),
        pytest.param("bücher.example", "xn--bcher-kva.example", id="as a browser shows it"),
        pytest.param("api.bücher.example", "*.xn--bcher-kva.example", id="a pattern"),
        pytest.param("xn--bcher-kva.example.", "BÜCHER.*", id="a label of any name"),
    ],
)
def test_a_host_is_the_same_in_either_form(host: str, pattern: str) -> None:
    check_host(pattern, "path")
    assert is_named(host, ("other.example", normalize_host(pattern)))
    assert not is_named(f"not-{host}", (normalize_host("bücher.example"),))


@as_one_test
@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("b*ü.example", "* cannot stand beside other letters than ASCII"),
        ("☕.example", "no host can have such a name"),
        ("ü" * 70, "no host can have such a name"),
        ("-ü.example", "no host can have such a name"),
        ("a b", "expected a host name"),
    ],
)
def test_what_no_host_can_have_is_a_mistake(pattern: str, problem: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_settings(f'[observation_masking.hosts]\nnever = ["a", "{pattern}"]'.encode())
    assert "observation_masking.hosts.never[1]" == raised.value.path
    assert problem in raised.value.problem


def test_a_host_of_the_configuration_is_kept_as_it_is_compared() -> None:
    settings = parse_settings('[observation_masking.hosts]\nonly = ["*.bücher.example"]'.encode())
    assert settings is not None
    assert ("*.xn--bcher-kva.example",) == settings.hosts.only

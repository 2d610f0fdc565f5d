"""Host names and patterns of them, in whatever form they are written."""

import pytest

from masking.config import parse_settings
from masking.errors import ConfigError
from masking.patterns import check_host, is_named, normalize_host


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

import pytest

from addon.dashboard.hosts import is_our_host


@pytest.mark.parametrize(
    ("header", "is_ours"),
    [
        ("127.0.0.1:8100", True),
        ("localhost:8100", True),
        ("LOCALHOST:8100", True),
        ("[::1]:8100", True),
        ("obsmask.test:8100", False),
        ("127.0.0.1", False),
        ("127.0.0.1:8101", False),
        ("[::1]", False),
        ("obsmask.test", False),
        ("evil.example:8100", False),
        ("127.0.0.1.evil.example:8100", False),
        ("evil.example", False),
        ("10.0.0.1:8100", False),
        (":8100", False),
        ("", False),
    ],
)
def test_on_loopback_only_its_own_names_with_the_port_are_answered(
    header: str, is_ours: bool
) -> None:
    assert is_ours == is_our_host(header, "127.0.0.1", 8100)


@pytest.mark.parametrize(
    ("header", "is_ours"),
    [
        ("10.0.0.1:8100", True),
        ("10.0.0.1", True),
        ("[fe80::1]:80", True),
        ("[fe80::1]", True),
        ("localhost:9", True),
        ("obsmask.test:8100", False),
        ("evil.example:8100", False),
        ("evil.example", False),
        ("", False),
    ],
)
def test_elsewhere_every_address_is_answered_and_no_strange_name(
    header: str, is_ours: bool
) -> None:
    assert is_ours == is_our_host(header, "0.0.0.0", 8100)

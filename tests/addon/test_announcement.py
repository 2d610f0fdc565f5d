"""The command that a proxy names for its clients."""

import pytest

from addon.proxy.announcement import render_call

CALLS = {
    "as shipped": (("127.0.0.1", 8080), 'eval "$(obsmask env)"'),
    "another port": (
        ("127.0.0.1", 8081),
        'eval "$(obsmask env --proxy http://127.0.0.1:8081)"',
    ),
    "another address": (("192.0.2.1", 8080), 'eval "$(obsmask env --proxy http://192.0.2.1:8080)"'),
    "IPv6": (("::1", 8080, 0, 0), 'eval "$(obsmask env --proxy http://[::1]:8080)"'),
    "every address": (("0.0.0.0", 8080), 'eval "$(obsmask env)"'),
    "every address of IPv6": (("::", 8080, 0, 0), 'eval "$(obsmask env)"'),
}


@pytest.mark.parametrize("case", CALLS.values(), ids=CALLS)
def test_the_command_leads_to_where_the_proxy_listens(
    case: tuple[tuple[object, ...], str],
) -> None:
    listening, expected = case
    assert expected == render_call(listening)

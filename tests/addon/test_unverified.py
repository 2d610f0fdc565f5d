"""For how long, and how many, servers without a certificate that can be verified pass."""

from addon.proxy import unverified
from addon.proxy.unverified import SECONDS, Unverified

PLACE = ("host.test", 443)


def test_a_server_passes_for_a_while_and_is_then_tried_again() -> None:
    now = 100.0
    servers = Unverified(lambda: now)
    assert not servers.passes(PLACE)
    assert [True, False] == [servers.note(PLACE), servers.note(PLACE)]
    assert [True, True] == [servers.passes(PLACE), servers.passes(PLACE)]
    assert not servers.passes(("host.test", 8443))
    now += SECONDS
    assert not servers.passes(PLACE)
    assert servers.note(PLACE)
    assert {"host.test": 2} == servers.passed


def test_the_oldest_of_many_servers_is_forgotten() -> None:
    servers = Unverified()
    for number in range(unverified._MAX_REMEMBERED + 1):
        servers.note((f"{number}.test", 443))
    assert [False, True] == [servers.passes((f"{number}.test", 443)) for number in (0, 1)]

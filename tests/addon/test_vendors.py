"""The table of vendors says what was said before."""

from addon.gateways import litellm as gateway
from addon.replay.logs import litellm
from addon.vendors import VENDORS


def test_it_says_what_was_said_before() -> None:
    in_litellm = {name: each for each in VENDORS for name in each.litellm}
    for name, host in gateway._HOSTS.items():
        assert host == in_litellm[name].host, name
    for name, host in litellm._HOSTS.items():
        assert (host, False) == (in_litellm[name].host, in_litellm[name].varies), name

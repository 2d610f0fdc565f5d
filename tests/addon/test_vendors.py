"""The table of vendors says what was said before."""

from addon.gateways import litellm as gateway
from addon.replay.logs import litellm, opencode, pi
from addon.replay.logs.claude_code import _SELLERS
from addon.replay.logs.turns import PROVIDERS
from addon.vendors import VENDORS


def test_it_says_what_was_said_before() -> None:
    assert {each.answers: each.host for each in VENDORS if each.answers} == _SELLERS
    named = {name: each for each in VENDORS for name in each.names}
    for name, provider in PROVIDERS.items():
        assert (provider.host, provider.wire) == (named[name].host, named[name].wire), name
    for name, host in pi._HOSTS.items():
        assert host == named[name].host, name
    for name, provider in opencode._PROVIDERS.items():
        if name in ("azure", "google-vertex-anthropic"):
            assert name not in named
        else:
            assert provider.host == named[name].host, name
            assert provider.wire == named[name].wire or name == "xai", name
    in_litellm = {name: each for each in VENDORS for name in each.litellm}
    for name, host in gateway._HOSTS.items():
        assert host == in_litellm[name].host, name
    for name, host in litellm._HOSTS.items():
        assert (host, False) == (in_litellm[name].host, in_litellm[name].varies), name

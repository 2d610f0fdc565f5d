"""A process that remembers a conversation sends the bytes of one that meets it for the first time.

One process gets every request of each conversation. Others are started anew, and get of each
conversation a single request, so that they have read nothing of it before.
"""

import http.client
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import pytest

from addon.places import shipped
from addon.proxy.server import HOST, Proxy
from tests.masking.test_request_cache import grow
from tests.support.made_up_format import MADE_UP
from tests.support.wire_conversations import WRITERS
from tests.tools.benchmarks.beside_plain import Answers, running_provider, running_side
from tests.tools.soak.talks import KINDS, Talk

RULES = {
    "shipped": "",
    "sliding": """
[observation_masking.rules.schema1]
window_turns = 2
cache_pricing = "none"
mask_images = true
keep_last_images = 0
""",
    "keeping": """
[observation_masking.rules.schema1]
window_turns = 2
cache_pricing = [0.5, 1.0]
keep_rereads = true
keep_latest_turns = 5
keep_last_k_per_tool = 1
""",
    "reducing": """
[observation_masking.rules.redaction]
enabled = true
tool_names = ["read"]
[observation_masking.rules.reduction]
enabled = true
max_input_chars = 3000
""",
}
"""The settings of a request, by the header that names them."""

CUTS = (1, 3, 2)
"""The processes that are started anew: of each conversation they get the last request, and that at
a third and a half of it."""


class Session(NamedTuple):
    """The requests of a conversation, and under which settings."""

    path: str
    settings: str
    bodies: list[bytes]


class Keeping(Answers):
    """A provider that keeps what it was sent last."""

    last = b""

    def take(self, request: bytes) -> None:
        Keeping.last = request


def list_sessions() -> Iterator[Session]:
    for writer in WRITERS:
        if writer.wire is not MADE_UP:
            for settings in RULES:
                bodies = [told.body for told in grow(writer)][1::2]
                yield Session(writer.path, settings, bodies)
    for number, kind in enumerate(KINDS):
        bodies = [*islice(Talk(number, 150).bodies(), 10, 30)]
        yield Session(kind.path, "shipped", bodies)


@contextmanager
def running_process(provider: int, config: Path) -> Iterator[Proxy]:
    """Run a proxy that has remembered nothing yet, and no conversation beyond its end."""
    settings = (f"mask_config={config}", "mask_set=memory.enabled=false")
    options = [word for setting in settings for word in ("--set", setting)]
    with running_side("ours", provider, *options) as proxy:
        yield proxy


def send_all(proxy: Proxy, session: Session, *numbers: int) -> Iterator[bytes]:
    """Yield what arrives of some requests of a session."""
    client = http.client.HTTPConnection(HOST, proxy.port, timeout=600)
    for number in numbers:
        headers = {"content-type": "application/json", "x-settings": session.settings}
        client.request("POST", session.path, session.bodies[number], headers)
        client.getresponse().read()
        yield Keeping.last
    client.close()


@pytest.mark.thorough
def test_what_a_process_remembers_changes_nothing_of_what_it_sends(tmp_path: Path) -> None:
    rule = '\n[[observation_masking.rules]]\nheader = {{ x-settings = "{}" }}\n{}'
    config = tmp_path / "rules.toml"
    rules = "".join(rule.format(name, text) for name, text in RULES.items() if text)
    config.write_text(shipped("config.toml").read_text() + rules)
    sessions = [*list_sessions()]
    with running_provider(Keeping) as provider:
        with running_process(provider, config) as proxy:
            warm = [
                [*send_all(proxy, session, *range(len(session.bodies)))] for session in sessions
            ]
        for cut in CUTS:
            with running_process(provider, config) as proxy:
                for session, sent in zip(sessions, warm, strict=True):
                    number = len(sent) // cut - 1
                    assert [sent[number]] == [*send_all(proxy, session, number)]
    changed = {
        session.settings
        for session, sent in zip(sessions, warm, strict=True)
        if sent[-1] != session.bodies[-1]
    }
    assert {*RULES} == changed

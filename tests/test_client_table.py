"""docs/clients.toml is whole, and agrees with the recordings and the formats of the code."""

import re
from collections import Counter
from pathlib import Path

import pytest

from addon.recordings.flows import name_of, read_flows
from masking.wire import FORMATS as WIRE_FORMATS
from tests.support.client_table import FORMATS, read_clients
from tests.support.marks import as_one_test
from tests.support.places import recordings
from tests.support.sessions import TALKS, each_of
from tests.tools.studio.clients import CLIENTS

DATA = read_clients()  # which fails where a row lacks a field
RECORDED = {name: version for each in DATA.clients for name, version in each.recordings.items()}

NAMELESS = {"pi", "mini-swe-agent", "Copilot CLI", "cline", "Continue CLI"}
"""Those whose user agent names no version of theirs."""


def test_a_client_speaks_what_is_masked() -> None:
    assert {*FORMATS} == {*(each.name for each in WIRE_FORMATS), "websocket"}
    assert {*FORMATS} == {name for each in DATA.clients for name in each.speaks}


def test_a_client_has_one_row() -> None:
    rows = Counter(each.label for each in DATA.clients)
    assert [label for label, count in rows.items() if count > 1] == []


def test_what_is_more_than_masked_is_explained() -> None:
    unexplained = [
        each.label
        for each in DATA.clients
        if not each.section and (each.note or each.outcome != "masked")
    ]
    assert unexplained == []


def test_every_recorded_session_has_its_client() -> None:
    assert sorted(map(name_of, TALKS)) == sorted(RECORDED)
    assert sum(len(each.recordings) for each in DATA.clients) == len(RECORDED)
    assert {*map(name_of, recordings())} - {*RECORDED} == {"mcp-files"}


@as_one_test
@pytest.mark.parametrize("path", TALKS, ids=name_of)
def test_the_version_of_a_recording_is_what_the_studio_installs(path: Path) -> None:
    agent, _, _ = name_of(path).rpartition("-")
    client = CLIENTS.get(name_of(path)) or CLIENTS[agent]
    pinned = re.search(r"(?:==|\w@)([\d.]+)$", client.packages[0])
    assert pinned is None or pinned[1] == RECORDED[name_of(path)]


@each_of("path", TALKS)
def test_the_version_of_a_recording_is_what_its_client_said(path: Path) -> None:
    named = {each.request.headers["user-agent"] for each in read_flows(path)}
    agent = next(each.name for each in DATA.clients if name_of(path) in each.recordings)
    version = RECORDED[name_of(path)]
    says_it = all(version in re.split("[/ +]", each) for each in named)
    assert says_it != (agent in NAMELESS)

"""The table of agents: it says what was said before, and agrees with the pages."""

from addon.agents import AGENTS
from addon.records.sessions import _FOLDER
from addon.replay.logs import LOGS
from masking.config.settings import _CLIENT_WINDOWS
from tests.support.client_table import read_clients


def test_it_says_what_was_said_before() -> None:
    folders = dict.fromkeys(agent.folder for agent in AGENTS if agent.folder)
    assert {*folders} == {*_FOLDER.pattern.partition("(?P")[0][3:-1].split("|")}


def test_the_logs_that_are_read_are_those_of_agents() -> None:
    assert {kind.agent for kind in LOGS} == {agent.name for agent in AGENTS if agent.logs.homes}


def test_agents_are_those_of_the_pages() -> None:
    on_pages = {client.name for client in read_clients().clients}
    for agent in AGENTS:
        assert (agent.title or agent.name) in on_pages


def test_a_client_with_a_window_of_its_own_is_an_agent() -> None:
    assert {*_CLIENT_WINDOWS} <= {agent.client for agent in AGENTS}

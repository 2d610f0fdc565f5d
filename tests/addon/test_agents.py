"""The table of agents: it says what was said before, and agrees with the pages."""

from pathlib import Path

from addon.agents import AGENTS, find_agent
from addon.records.sessions import _FOLDER
from addon.replay.logs import LOGS
from masking.config.settings import _CLIENT_WINDOWS
from tests.support.client_table import read_clients


def test_it_says_what_was_said_before() -> None:
    for kind in LOGS:
        agent = find_agent(kind.agent)
        assert agent.logs is not None
        variables = {home.variable for home in agent.logs.homes} | {agent.logs.variable}
        for environment in ({}, *({name: "/else"} for name in variables if name)):
            home = Path("/home/me")
            assert kind.homes(home, environment) == agent.logs.find(home, environment)
    folders = dict.fromkeys(agent.folder for agent in AGENTS if agent.folder)
    assert {*folders} == {*_FOLDER.pattern.partition("(?P")[0][3:-1].split("|")}


def test_agents_are_those_of_the_pages() -> None:
    on_pages = {client.name for client in read_clients().clients}
    for agent in AGENTS:
        assert (agent.title or agent.name) in on_pages


def test_a_client_with_a_window_of_its_own_is_an_agent() -> None:
    assert {*_CLIENT_WINDOWS} <= {agent.client for agent in AGENTS}

"""The table of agents agrees with what is said elsewhere."""

from addon.agents import AGENTS
from addon.replay.logs import LOGS
from masking.config import CLIENT_WINDOWS
from tests.support.client_table import read_clients


def test_the_logs_that_are_read_are_those_of_agents() -> None:
    own = {kind.agent for kind in LOGS if kind.has_homes}
    assert own == {agent.name for agent in AGENTS if agent.logs.homes}


def test_agents_are_those_of_the_pages() -> None:
    on_pages = {client.name for client in read_clients().clients}
    for agent in AGENTS:
        assert (agent.title or agent.name) in on_pages


def test_a_client_with_a_window_of_its_own_is_an_agent() -> None:
    assert {*CLIENT_WINDOWS} <= {agent.client for agent in AGENTS}

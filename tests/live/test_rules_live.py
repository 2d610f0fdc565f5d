"""Two teams behind one proxy, each with a window and a name of its own."""

from collections.abc import Iterator

import pytest

from tests.live.harness import (
    OFF,
    ON,
    Live,
    conversation,
    encoded,
    masked,
    running_addon,
    running_upstream,
)

BLUE = ON.replace(b"window_turns = 2", b"window_turns = 4")
RULES = b"""
[[observation_masking.rules]]
header = { x-team = "blue*" }
label = "blue"
schema1 = { window_turns = 4 }
[[observation_masking.rules]]
path = "/red/*"
label = "red"
schema1 = { enabled = false }
"""


def ask(user: str) -> bytes:
    """A conversation of its own: one that is remembered keeps what was masked in it."""
    request = conversation(9)
    request["messages"].insert(0, {"role": "user", "content": user})
    return encoded(request)


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with (
        running_upstream(tmp_path_factory.mktemp("upstream")) as upstream,
        running_addon(tmp_path_factory.mktemp("rules"), upstream, config=ON + RULES) as running,
    ):
        yield running


@pytest.mark.parametrize(
    ("path", "headers", "label", "config"),
    [
        pytest.param("/none", {}, None, ON, id="no team"),
        pytest.param("/one", {"X-Team": "blue 7"}, "blue", BLUE, id="the blue team"),
        pytest.param("/two", {"x-team": "green"}, None, ON, id="another team"),
        pytest.param("/red", {}, "red", OFF, id="the red team"),
        pytest.param("/red/two", {"x-team": "blue"}, "blue", BLUE, id="both"),
    ],
)
def test_each_team_has_its_window_and_its_label(
    live: Live, path: str, headers: dict[str, str], label: str | None, config: bytes
) -> None:
    path = f"{path}/v1/chat/completions"
    body = ask(path)
    assert masked(body, config) == live.send(path, body, **headers).body
    assert label == live.record(path)["label"]


def test_the_windows_differ() -> None:
    body = ask("Go on.")
    assert 3 == len({masked(body, config) for config in (ON, BLUE, OFF)})

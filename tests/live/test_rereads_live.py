"""A call that repeats one whose result was masked, behind a real mitmdump: counted and kept."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.live.harness import (
    ON,
    Live,
    answer,
    encoded,
    eventually,
    running_addon,
    running_upstream,
)

CHAT = "/v1/chat/completions"
KEEPING = ON + b"keep_rereads = true\n"
"""The window has two turns; what is older is masked at once."""

FILES = ["a.py", "b.py", "c.py", "d.py", "a.py", "e.py", "f.py", "g.py", "b.py"]
"""The files that are read, turn by turn: the first again at the fifth, the second at the last."""


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    folder = tmp_path_factory.mktemp("proxy")
    with (
        running_upstream(tmp_path_factory.mktemp("upstream")) as upstream,
        running_addon(folder, upstream, config=KEEPING) as proxy,
    ):
        yield proxy


def read(turns: int, task: str) -> dict[str, Any]:
    """Return a request after so many files were read."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": task}]
    for turn, path in enumerate(FILES[:turns]):
        function = {"name": "read", "arguments": json.dumps({"path": path})}
        call = {"id": f"call_{turn}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        text = f"{path} at {turn}\n" * 60
        messages.append({"role": "tool", "tool_call_id": f"call_{turn}", "content": text})
    return {"model": "gpt-4o", "messages": messages}


def send(live: Live, turns: int, task: str, status: int = 200) -> tuple[list[str], dict[str, Any]]:
    """Send a request; the results that arrived, and its record."""
    before = len(live.records())
    live.sink.answers[CHAT] = answer(status=status)
    heard = live.send(CHAT, encoded(read(turns, task)))
    record = eventually(lambda: live.records()[before] if len(live.records()) > before else None)
    messages = json.loads(heard.body)["messages"]
    return [each["content"] for each in messages if each["role"] == "tool"], record


def test_a_reread_is_counted_once_and_kept(live: Live) -> None:
    found = [send(live, turns, "Read it all.") for turns in range(len(FILES) + 1)]
    assert [0, 0, 0, 0, 0, 1, 0, 0, 0, 1] == [record["rereads"] for _, record in found]
    arrived, record = found[-1]
    whole = [number for number, text in enumerate(arrived) if " at " in text]
    assert [4, 7, 8] == whole
    assert {"in_window": 2, "reread": 1} == record["kept"]


def test_one_that_is_sent_again_is_counted_where_the_provider_takes_it(live: Live) -> None:
    send(live, 4, "Try.")
    tried = [send(live, 5, "Try.", status)[1]["rereads"] for status in (429, 200, 200)]
    assert [0, 1, 0] == tried


def test_what_would_have_been_masked_is_counted_where_masking_is_only_observed(
    live: Live,
) -> None:
    live.configure(b'[observation_masking]\nmode = "observe"\n' + ON)
    found = [send(live, turns, "Look.")[1] for turns in range(6)]
    assert [0, 0, 0, 0, 0, 1] == [record["rereads"] for record in found]

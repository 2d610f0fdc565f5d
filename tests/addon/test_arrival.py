"""Results that are shortened at arrival, from request to record, where reasoning is bound to them.

The provider refuses reasoning that was made after other results, as Claude's does.
"""

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from addon.attempts import may_go_unmasked
from addon.memory import open_memory
from masking.rewrite import Strategies, read_request
from masking.wire.messages import MESSAGES
from tests.addon.test_accounts import OUTPUT, Session, Step
from tests.support.arrivals import OFF, SHORTENS, Remembering, write_lines
from tests.support.builders import examples
from tests.support.record_lines import read_lines
from tests.support.wire_conversations import WRITERS, Ask, Give, Model, Tools, User
from tests.support.wire_conversations import Step as Told_

ARRIVAL = """
[observation_masking.schema1]
window_turns = {window}
cache_pricing = "none"
bound_reasoning = "{bound}"

[observation_masking.arrival]
enabled = {enabled}
max_chars = 1_000
head_chars = {head}
tail_chars = 200

[observation_masking.recall]
enabled = true
"""
THINKS = Step(True)


class Shortened(Session):
    """A session whose results are shortened; `sent` has their lengths in each request sent."""

    def __init__(self, folder: Path, window: int = 0, *, is_old: bool = False) -> None:
        self.window, self.enabled, self.bound, self.head = window, "true", "try", 300
        self.sent: list[list[int]] = []
        super().__init__(folder, is_old=is_old, prices='"none"', clearing="applied")

    def configure(self, setting: str) -> None:
        match setting:
            case "true" | "false":
                self.enabled = setting
            case "longer":
                self.head = 400
            case "keep" | "try":
                self.bound = setting
        text = ARRIVAL.format(
            window=self.window, enabled=self.enabled, bound=self.bound, head=self.head
        )
        (self._folder / "config.toml").write_text(text)

    def lose_memory(self) -> None:
        self.engine.close()
        shutil.rmtree(self._folder / "observation-masking")
        self.engine = self._start()

    def read_records(self) -> list[dict[str, Any]]:
        self.engine.close()
        return read_lines(self._folder / "observation-masking" / "requests.jsonl")

    def _answer(self, sent: bytes) -> int:
        messages = json.loads(sent)["messages"][1:]
        blocks = (block for message in messages for block in message["content"])
        results = (block for block in blocks if block["type"] == "tool_result")
        self.sent.append([len(each["content"]) for each in results])
        return super()._answer(sent)


@pytest.fixture(params=[0, 50], ids=["without a window", "with one"])
def session(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Shortened]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    made = Shortened(tmp_path, request.param)
    yield made
    made.close()


WHOLE = len(f"1 {OUTPUT}")


def are_short(lengths: list[int]) -> list[bool]:
    return [length < 700 for length in lengths]


def test_nothing_is_refused_and_a_restart_changes_nothing(session: Shortened) -> None:
    for step in (THINKS, THINKS, THINKS, Step(True, before="restart"), THINKS):
        session.take(step)
    assert 0 == session.refused
    assert [True] * 4 == are_short(session.sent[-1])
    assert [len(each) for each in session.sent] == [0, 1, 2, 3, 4]


def test_what_was_sent_before_it_was_on_stays_whole(session: Shortened) -> None:
    for step in (Step(True, before="false"), THINKS, THINKS, Step(True, before="true"), THINKS):
        session.take(step)
    assert 0 == session.refused
    assert [False, False, True, True] == are_short(session.sent[-1])
    assert len(session.sent) == 5


def test_switched_off_what_was_shortened_stays_so(session: Shortened) -> None:
    for step in (THINKS, THINKS, Step(True, before="false"), THINKS):
        session.take(step)
    assert 0 == session.refused
    assert [True, False, False] == are_short(session.sent[-1])


def test_a_lost_memory_costs_one_refusal_that_no_agent_sees(session: Shortened) -> None:
    """What was most likely sent before is sent in its place, and remembered once it is taken."""
    for _ in range(4):
        session.take(THINKS)
    session.lose_memory()
    session.take(THINKS)
    assert (1, 0) == (session.refused, session.seen)
    first, second = map(are_short, session.sent[-2:])
    # The newest result is shortened either way: no reasoning has seen it yet.
    assert ([False, False, False, True], [True] * 4) == (first, second)
    for step in (THINKS, Step(True, before="restart"), THINKS):
        session.take(step)
    assert (1, 0) == (session.refused, session.seen)
    assert [True] * 7 == are_short(session.sent[-1])
    record = session.read_records()[0]
    assert ("accepted", 4) == (record["resent"], record["shortened"])


def test_a_lost_memory_without_reasoning_costs_no_refusal(session: Shortened) -> None:
    for _ in range(4):
        session.take(Step(False))
    session.lose_memory()
    session.take(Step(False))
    assert 0 == session.refused
    assert [False, False, False, True] == are_short(session.sent[-1])


def test_it_is_tried_once(session: Shortened) -> None:
    """With settings that were others, that cannot be found out."""
    for _ in range(4):
        session.take(THINKS)
    session.configure("longer")
    session.lose_memory()
    for _ in range(3):
        session._send(THINKS)
    lengths = session.sent[4:]
    assert 3 == session.seen
    assert (4, 4) == (len(lengths), session.refused)


def test_an_account_that_takes_changes_is_sent_no_second_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    session = Shortened(tmp_path, 2, is_old=True)
    for _ in range(6):
        session.take(THINKS)
    session.close()
    with closing(open_memory(lambda: tmp_path / "observation-masking")) as store:
        store.write(lambda database: database.execute("DELETE FROM conversations"))
    session.engine = session._start()
    count = len(session.sent)
    session.take(THINKS)
    assert (0, 1) == (session.refused, len(session.sent) - count)
    record = session.read_records()[-1]
    assert ("takes", None) == (record["account"], record["resent"])


def test_what_was_shortened_is_kept_for_recall_and_recorded(session: Shortened) -> None:
    session.take(THINKS)
    session.take(THINKS)
    session.engine.close()
    folder = session._folder / "observation-masking" / "recall"
    kept = [path.read_text() for path in folder.rglob("*") if path.is_file()]
    assert f"1 {OUTPUT}" in kept
    record = session.read_records()[-1]
    assert (1, WHOLE) == (record["shortened"], record["tool_chars_before"])
    assert 0 < record["tool_chars_after"] < WHOLE
    assert record["left_out_tokens"] > 0
    assert record["arrival_saved_tokens"] > 0


@pytest.mark.parametrize(
    ("thinks", "model", "expected"),
    [
        pytest.param((False, True), "claude-opus-5-5", False, id="bound to what was shortened"),
        pytest.param((True, False), "claude-opus-5-5", True, id="before it"),
        pytest.param((False, True), "claude-opus-5", True, id="bound to nothing"),
    ],
)
def test_a_refused_request_goes_whole_where_no_reasoning_has_seen_it_short(
    thinks: tuple[bool, bool], model: str, expected: bool
) -> None:
    proxy, said = Remembering(), list[Told_]([User()])
    for number, each in enumerate((*thinks, False)):
        document = WRITERS[1].tell(*said).document | {"model": model}
        conversation = read_request(json.dumps(document).encode(), MESSAGES)
        rewrite = proxy.send(conversation, Strategies(arrival=SHORTENS, schema1=OFF))
        call = Ask(f"c{number}", "shell", {"n": number})
        given_text = write_lines(f"{number}", 5 if number == 1 else 40)
        said += (
            Model((call,), thought="Hm." if each else ""),
            Tools((Give(f"c{number}", given_text),)),
        )
    assert [0] == [each.place for each in rewrite.arrived.shortened]
    assert expected == may_go_unmasked(rewrite, None)
    assert not may_go_unmasked(rewrite, 10)


steps = st.builds(
    Step,
    st.booleans(),
    st.sampled_from([None] * 4 + ["restart", "true", "false", "longer", "keep", "try"]),
    st.sampled_from([None] * 6 + ["killed"]),
)


@examples(0.5)
@given(st.lists(steps, min_size=5, max_size=14), st.booleans(), st.sampled_from([0, 2, 50]))
def test_no_agent_sees_a_refusal_whatever_is_set_and_the_proxy_is_killed(
    given_steps: list[Step], is_old: bool, window: int
) -> None:
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", name)
        session = Shortened(Path(name), window, is_old=is_old)
        for step in given_steps:
            session.take(step)
        session.close()
    assert 0 == session.seen
    # One that finds out whether the account takes a changed text.
    assert session.refused <= (0 if is_old or window != 2 else 1)


@pytest.mark.parametrize("window", [0, 2])
def test_who_observes_sends_nothing_shortened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, window: int
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    session = Shortened(tmp_path, window)
    config = (tmp_path / "config.toml").read_text()
    observing = f'[observation_masking]\nmode = "observe"\n{config}'
    (tmp_path / "config.toml").write_text(observing)
    session.restart()
    for _ in range(4):
        session.take(THINKS)
    assert all(not any(are_short(each)) for each in session.sent)
    assert 3 == session.read_records()[-1]["shortened"]
    # Then it is not observed any more: all that was sent so far stays whole.
    (tmp_path / "config.toml").write_text(config)
    session.engine = session._start()
    session.take(THINKS)
    session.take(THINKS)
    session.close()
    # The window has found out, once, that its masking is refused.
    assert session.refused == (window == 2)
    assert [False] * 3 + [True] * 2 == are_short(session.sent[-1])

"""Long results that are new in a request of which the provider holds the history."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from addon.config import ConfigFile
from addon.engine import Engine, Exchange
from addon.request import HeaderFields, PlainMessage, find_wire_format
from masking.model import Call, Element
from masking.server_history import KnownConversation, PendingAnswer, ServerHistories
from masking.wire import AnsweredCalls, ServerHistory
from tests.addon.test_engine import end
from tests.live.harness import ON, encoded
from tests.support.arrivals import write_lines
from tests.support.made_up_requests import Carrier

SHORTENS = b"""[observation_masking.arrival]
enabled = true
max_chars = 1000
head_chars = 300
tail_chars = 200

[observation_masking.recall]
enabled = true
"""
CONFIG = ON.replace(b"window_turns = 2", b"window_turns = 0") + SHORTENS
MARKER = "characters left out ...]"
Item = dict[str, Any]


class Request(PlainMessage):
    method, path = "POST", "/v1/responses"

    def __init__(self) -> None:
        super().__init__(headers=HeaderFields([("user-agent", "agent/1.0")]))
        self.pretty_host = "llm.example.org"


def start(folder: Path, config: bytes = CONFIG) -> Engine:
    (folder / "config.toml").write_bytes(config)
    engine = Engine()
    engine.use(ConfigFile(folder / "config.toml"))
    return engine


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    engine = start(tmp_path)
    yield engine
    engine.close()


USER: Item = {"role": "user", "content": "Look at all of it."}
DEVELOPER: Item = {"role": "developer", "content": "You are an agent."}


def call(number: int) -> Item:
    arguments = json.dumps({"command": f"make {number}"})
    return {
        "type": "function_call",
        "call_id": f"call_{number:08}",
        "name": "bash",
        "arguments": arguments,
    }


def result(number: int) -> Item:
    output = write_lines(f"number {number}")
    return {"type": "function_call_output", "call_id": f"call_{number:08}", "output": output}


class Talk:
    """A client that names the last response, and what its requests became."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.last, self.count = engine, "", 0

    def send(self, *items: Item, **fields: object) -> list[Item]:
        """Send what is new; the answer makes the next call. Return the items that arrived."""
        named = {"previous_response_id": self.last} if self.last else {}
        exchange, carrier = self.begin({"input": [*items], **named, **fields})
        self.count += 1
        self.last = f"resp_{self.count}"
        exchange.finish(200, PlainMessage(encoded({"id": self.last, "output": [call(self.count)]})))
        arrived: list[Item] = json.loads(carrier.body)["input"]
        return arrived

    def begin(self, document: Item) -> tuple[Exchange, Carrier]:
        match = find_wire_format(Request())
        assert match is not None
        exchange = self.engine.open(Request(), match)
        assert exchange is not None
        carrier = Carrier(encoded({"model": "gpt-5.5", **document}))
        asyncio.run(exchange.mask(carrier))
        return exchange, carrier


def test_what_is_new_is_shortened_and_stays_so_when_all_is_sent(
    engine: Engine, tmp_path: Path
) -> None:
    talk = Talk(engine)
    assert [DEVELOPER] == talk.send(DEVELOPER)
    assert [USER] == talk.send(USER)  # the answer to the first had a call that nobody answers
    sent = [talk.send(result(number))[0] for number in (2, 3, 4)]
    assert all(MARKER in each["output"] for each in sent)

    # After a break the client sends everything, and the last result again.
    whole = [DEVELOPER, USER]
    for number in (2, 3, 4):
        whole += [call(number), result(number)]
    talk.last = ""
    arrived = talk.send(*whole)
    assert sent == [each for each in arrived if each.get("type") == "function_call_output"]
    assert MARKER in talk.send(result(6))[0]["output"]

    records = end(engine, tmp_path)
    held = [each for each in records if each["passed_through"]]
    assert [0, 1, 1, 1, 1] == [each["shortened"] for each in held]
    assert all(each["arrival_saved_tokens"] > 0 for each in held[1:])
    kept = [*(tmp_path / "observation-masking" / "recall").iterdir()]
    assert {write_lines(f"number {number}") for number in (2, 3, 4, 6)} == {
        each.read_text() for each in kept
    }


def test_what_was_called_again_is_whole(engine: Engine) -> None:
    talk = Talk(engine)
    talk.send(USER)
    assert MARKER in talk.send(result(1))[0]["output"]
    match = find_wire_format(Request())
    assert match is not None
    again = {**call(1), "call_id": "call_again"}
    exchange, _ = talk.begin({"input": [], "previous_response_id": talk.last})
    exchange.finish(200, PlainMessage(encoded({"id": "resp_again", "output": [again]})))
    talk.last = "resp_again"
    asked = {**result(1), "call_id": "call_again", "output": write_lines("again")}
    assert [asked] == talk.send(asked)


@pytest.mark.parametrize(
    "fields",
    [
        {"previous_response_id": "resp_unknown"},
        {"previous_response_id": "resp_1", "input": "Go on."},
        {"previous_response_id": "resp_1", "context_management": [{"type": "compaction"}]},
    ],
    ids=["an answer that nobody has seen", "no list", "another reason"],
)
def test_what_is_not_known_passes(engine: Engine, fields: Item) -> None:
    talk = Talk(engine)
    talk.send(USER)
    _, carrier = talk.begin({"input": [result(1)], **fields})
    assert {"model": "gpt-5.5", "input": [result(1)], **fields} == json.loads(carrier.body)


def test_a_conversation_that_has_a_name_is_known_by_it(engine: Engine) -> None:
    talk = Talk(engine)
    talk.send(USER, conversation="conv_1")
    talk.last = ""
    assert MARKER in talk.send(result(1), conversation={"id": "conv_1"})[0]["output"]


@pytest.mark.parametrize(
    "change",
    [
        (
            b"[observation_masking.schema1]",
            b'[observation_masking]\nmode = "observe"\n[observation_masking.schema1]',
        ),
        (
            b"[observation_masking.schema1]",
            b"[observation_masking]\nholdout_percent = 100\n[observation_masking.schema1]",
        ),
    ],
    ids=["observed", "held out"],
)
def test_what_is_only_observed_passes_and_is_counted(
    change: tuple[bytes, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    engine = start(tmp_path, CONFIG.replace(*change))
    talk = Talk(engine)
    talk.send(USER)
    assert [result(1)] == talk.send(result(1))
    *_, record = end(engine, tmp_path)
    assert (1, True) == (record["shortened"], record["bytes_after"] < record["bytes_before"])
    assert "observed" == record["masking"]


def test_off_nothing_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    engine = start(tmp_path, ON)
    talk = Talk(engine)
    talk.send(USER)
    assert [result(1)] == talk.send(result(1))
    engine.close()


# What is kept is bounded in bytes.


def grown(arguments: str, beginning: str = "") -> PendingAnswer:
    """Return a request whose conversation has a call with these arguments, and begins so."""
    calls = {"before": Call("before", "bash", arguments)}
    elements = (Element("system", (beginning,)),) if beginning else ()
    return PendingAnswer(
        b"place", ServerHistory(), KnownConversation(calls=calls, beginning=elements)
    )


def calls_of(name: str, **arguments: str) -> AnsweredCalls:
    return AnsweredCalls(name, {key: Call(key, "bash", text) for key, text in arguments.items()})


def test_a_call_that_is_too_long_is_forgotten_and_the_others_are_not() -> None:
    histories = ServerHistories()
    histories.keep(grown("ls"), calls_of("a", first="make", long="x" * 1_000_000, last="cat"))
    found = histories.find(b"place", ServerHistory("a"))
    assert found is not None
    assert ["before", "first", "last"] == [*found.calls]


def test_of_many_calls_the_latest_are_kept() -> None:
    histories = ServerHistories()
    histories.keep(grown("x"), calls_of("a", **{f"c{n}": "x" * 100_000 for n in range(5)}))
    histories.keep(grown("x"), calls_of("b", **{f"c{n}": "x" for n in range(300)}))
    for name, expected in {"a": ["c3", "c4"], "b": [f"c{n}" for n in range(44, 300)]}.items():
        found = histories.find(b"place", ServerHistory(name))
        assert found is not None
        assert expected == [each for each in found.calls if each != "before"]


def test_a_conversation_that_begins_too_long_is_not_kept() -> None:
    histories = ServerHistories()
    histories.keep(grown("x", "y" * 5_000_000), calls_of("a"))
    histories.keep(grown("x", "y" * 1_000_000), calls_of("b"))
    assert histories.find(b"place", ServerHistory("a")) is None
    assert histories.find(b"place", ServerHistory("b")) is not None


def test_all_answers_together_have_a_bound() -> None:
    """200 answers with 4 MB of calls each took 1.4 GB."""
    histories = ServerHistories()
    for number in range(1_000):
        # Each text is one of its own, as it would be from the wire.
        calls = {f"c{n}": f"{number} {n} ".ljust(2_400, "x") for n in range(100)}
        histories.keep(grown("x"), calls_of(f"{number}", **calls))
    known = [n for n in range(1_000) if histories.find(b"place", ServerHistory(f"{n}")) is not None]
    assert [*range(1_000 - len(known), 1_000)] == known
    assert 400 < len(known) < 600


@pytest.mark.parametrize(("messages", "is_known"), [(2, True), (20, False)])
def test_messages_of_an_answer_have_a_bound(engine: Engine, messages: int, is_known: bool) -> None:
    """A call that there was no room for is not known, so its result stays whole."""
    talk = Talk(engine)
    exchange, _ = talk.begin({"input": [USER]})
    text: Item = {"type": "message", "content": "x" * 990_000}
    for item in (*[text] * messages, {**call(1), "arguments": "x" * 200_000}):
        exchange.note_event(encoded({"type": "response.output_item.done", "item": item}))
    done = {"type": "response.completed", "response": {"id": "a", "output": []}}
    exchange.finish(200, PlainMessage(encoded(done)))
    talk.last = "a"
    assert is_known is (MARKER in talk.send(result(1))[0]["output"])

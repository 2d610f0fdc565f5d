"""Conversations are read from every form of file, and become the requests that they were."""

import gzip
import json
import pickle
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from addon.replay.files import RecordedConversation, read_conversations
from addon.replay.replay import Session
from masking import ChatMessage
from masking.rewrite import read_request
from tests.support.builders import SECRET, Spelling, assistant, call, documents, spellings, turn
from tests.support.marks import as_one_test
from tests.support.places import CONVERSATIONS

BOM = b"\xef\xbb\xbf"
TOOLS = [{"type": "function", "function": {"name": "shell"}}]
ASK: ChatMessage = {"role": "user", "content": "do"}
ANSWER: ChatMessage = {"role": "assistant", "content": "done é"}
TALK = [ASK, *turn(), ANSWER]
CLAUDE: list[ChatMessage] = [
    {"role": "user", "content": "do"},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "sh", "input": {}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "x"}]},
    {"role": "assistant", "content": [{"type": "text", "text": "done"}]},
]
CONTENTS: list[ChatMessage] = [
    {"role": "user", "parts": [{"text": "do"}]},
    {"role": "model", "parts": [{"functionCall": {"name": "sh", "args": {}}}]},
    {"role": "user", "parts": [{"functionResponse": {"name": "sh", "response": {"output": "x"}}}]},
    {"role": "model", "parts": [{"text": "done"}]},
]
ITEMS: list[ChatMessage] = [
    {"type": "message", "role": "user", "content": "do"},
    {"type": "reasoning", "encrypted_content": "x"},
    {"type": "function_call", "call_id": "a", "name": "sh", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "a", "output": "x"},
    {"type": "message", "role": "assistant", "content": "done"},
]
DEEP: list[object] = []
for _ in range(100_000):
    DEEP = [DEEP]

Write = Callable[[bytes], bytes]
packings = pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzipped"])


def spell(*values: object, indent: int | None = None) -> bytes:
    return b"".join(json.dumps(value, indent=indent).encode() + b"\n" for value in values)


def write(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def talk(*messages: ChatMessage, **fields: object) -> dict[str, object]:
    return {"messages": list(messages), **fields}


def bodies(conversation: RecordedConversation) -> Iterator[object]:
    return (json.loads(recorded.body) for recorded in conversation.requests())


class Told(NamedTuple):
    """What a conversation says of itself."""

    name: str
    messages: list[ChatMessage]
    tools: list[object] | None = None
    model: str | None = None


def told(conversation: RecordedConversation) -> Told:
    tools = conversation.tools
    return Told(
        conversation.name,
        list(conversation.messages),
        None if tools is None else list(tools),
        conversation.model,
    )


@as_one_test
@packings
@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        pytest.param("a.json", spell(talk(ASK)), [Told("a", [ASK])], id="one conversation"),
        pytest.param(
            "a.b.json.gz",
            spell(talk(*TALK, tools=TOOLS, model="m", name="own"), indent=1),
            [Told("own", TALK, list(TOOLS), "m")],
            id="tools, model and name are taken, over several lines",
        ),
        pytest.param(
            "a.b.json.gz", spell(talk(ASK)), [Told("a.b", [ASK])], id="a stem is without .gz"
        ),
        pytest.param(
            "a.traj.json",
            spell({"info": {"exit_status": "x"}, **talk(*TALK), "trajectory_format": "y"}),
            [Told("a.traj", TALK)],
            id="a trajectory is a conversation whatever else it has",
        ),
        pytest.param(
            "a.json",
            spell([talk(ASK), talk(ANSWER, name="own"), talk()]),
            [Told("a#1", [ASK]), Told("own", [ANSWER]), Told("a#3", [])],
            id="a list of conversations counts them",
        ),
        pytest.param(
            "a.json", spell([talk(ASK)], indent=2), [Told("a", [ASK])], id="a list of one does not"
        ),
        pytest.param("a.json", spell(TALK), [Told("a", TALK)], id="a list of messages"),
        pytest.param(
            "a.json", spell(TALK, indent=2), [Told("a", TALK)], id="such a list over several lines"
        ),
        pytest.param(
            "a.jsonl",
            spell(talk(ASK), talk(ANSWER, name="own"), talk()),
            [Told("a#1", [ASK]), Told("own", [ANSWER]), Told("a#3", [])],
            id="JSON lines hold one each",
        ),
        pytest.param(
            "a.json",
            spell(talk(ASK), talk(ANSWER)),
            [Told("a#1", [ASK]), Told("a#2", [ANSWER])],
            id="JSON lines are told by their content",
        ),
        pytest.param(
            "a.jsonl", spell(talk(ASK)), [Told("a", [ASK])], id="a single line is not counted"
        ),
        pytest.param("a.jsonl", spell(TALK), [Told("a", TALK)], id="nor is a single list"),
        pytest.param(
            "a.JSONL.GZ",
            b"\n \r\n" + spell(talk(ASK)) + b"\n\t\n" + spell(talk(ANSWER)).strip(),
            [Told("a#1", [ASK]), Told("a#2", [ANSWER])],
            id="blank lines are skipped, and no last line break is needed",
        ),
        pytest.param(
            "a.jsonl",
            BOM + spell(talk(ASK)) + BOM + spell(talk(ANSWER)),
            [Told("a#1", [ASK]), Told("a#2", [ANSWER])],
            id="byte-order marks are skipped, of a file and of those appended to it",
        ),
        pytest.param("a.json", BOM + spell(talk(ASK)), [Told("a", [ASK])], id="so in a document"),
        pytest.param("a.txt", spell(talk(ASK)), [Told("a", [ASK])], id="any name will do"),
        pytest.param(
            "a.json",
            spell(talk(ASK, tools=None, model=None, name=None)),
            [Told("a", [ASK])],
            id="null is nothing",
        ),
        pytest.param(
            "a.json",
            spell(talk(ASK, tools={"shell": {}}, model={"name": "m"}, name="")),
            [Told("a", [ASK])],
            id="what is of another type is nothing",
        ),
        pytest.param(
            "a.json",
            spell(talk({"role": "user", "content": "\ud83d", "n": 10**30})),
            [Told("a", [{"role": "user", "content": "\ud83d", "n": 10**30}])],
            id="lone surrogates and large integers stay what they are",
        ),
        pytest.param("a.json", spell(CLAUDE), [Told("a", CLAUDE)], id="a list of Anthropic's"),
        pytest.param(
            "a.jsonl",
            spell(talk(*CLAUDE, system="Be brief."), {"input": ITEMS, "model": "m"}),
            [Told("a#1", CLAUDE), Told("a#2", ITEMS, None, "m")],
            id="lines of several formats",
        ),
        pytest.param("a.json", spell(ITEMS), [Told("a", ITEMS)], id="a list of Responses' items"),
        pytest.param("a.json", spell(CONTENTS), [Told("a", CONTENTS)], id="a list of Gemini's"),
        pytest.param("a.json", b"[]", [], id="an empty list holds none"),
        pytest.param("a.json", b"", [], id="an empty file holds none"),
        pytest.param("a.jsonl", BOM + b"\n\n", [], id="a blank file holds none"),
    ],
)
def test_every_form_is_read(
    tmp_path: Path, pack: Write, name: str, content: bytes, expected: list[Told]
) -> None:
    path = write(tmp_path, name, pack(content))
    assert expected == [told(each) for each in read_conversations(path)]


@as_one_test
@packings
@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        pytest.param(
            "a.jsonl",
            spell(talk(ASK)) + b"\n" + spell([SECRET]),
            ":3: expected object with messages, got list",
            id="a list in JSON lines, blank ones counted",
        ),
        pytest.param(
            "a.jsonl",
            spell(talk(ASK), {SECRET: []}),
            ":2: expected object with messages, got one without",
            id="an object without messages in JSON lines",
        ),
        pytest.param(
            "a.json", spell(SECRET), ": expected object with messages, got str", id="a string"
        ),
        pytest.param(
            "a.json",
            spell({"model": SECRET}),
            ": expected object with messages, got one without",
            id="an object without messages",
        ),
        pytest.param(
            "a.json",
            spell([talk(ASK), SECRET]),
            "#2: expected object with messages, got str",
            id="a string among conversations",
        ),
        pytest.param(
            "a.json",
            spell([{"text": SECRET}]),
            "#1: expected object with messages, got one without",
            id="objects that are neither conversations nor messages",
        ),
        *(
            pytest.param(
                "a.json",
                spell({key: [{"role": "user", "text": SECRET}]}),
                f": expected object with messages, got what looks like {expected} ({key})",
                id=f"another format's {key}",
            )
            for key, expected in (
                ("conversations", "ShareGPT"),
                ("mapping", "an export of ChatGPT"),
            )
        ),
        *(
            pytest.param(
                "a.jsonl",
                spell(talk(ASK), talk(ASK, {"role": "assistant", **message})),
                f":2: expected messages of Chat Completions, got {expected} in 'messages[1]'",
                id=f"a message with {expected}",
            )
            for message, expected in (
                ({"content": [{"type": "output_text", "x": SECRET}]}, "a part of OpenAI Responses"),
                ({"content": [SECRET, {"type": "tool-call"}]}, "a part of the AI SDK"),
                ({"parts": [{"text": SECRET}]}, "one with parts in place of content"),
            )
        ),
        pytest.param(
            "a.json",
            spell({"messages": [{"author": SECRET}, {"role": 1}]}),
            ": expected messages of Chat Completions, got none with a role",
            id="messages without a role",
        ),
        pytest.param(
            "a.json",
            spell({"messages": {"0": SECRET}}),
            ": expected list, got dict in 'messages'",
            id="messages that are no list",
        ),
        pytest.param(
            "a.json",
            spell([talk(ASK), {"messages": None}]),
            "#2: expected list, got NoneType in 'messages'",
            id="such messages among conversations",
        ),
        pytest.param(
            "a.jsonl",
            spell(talk(ASK), {"messages": [ASK, ASK, SECRET]}),
            ":2: expected object, got str in 'messages[2]'",
            id="a message that is no object",
        ),
        pytest.param(
            "a.json",
            spell([ASK, SECRET]),
            ": expected object, got str in 'messages[1]'",
            id="such a message in a list of them",
        ),
        pytest.param(
            "a.jsonl",
            spell(talk(ASK)) + b'{"messages": [' + spell(SECRET),
            ":2: not JSON: Expecting ',' delimiter (column 23)",
            id="a line that ends early",
        ),
        pytest.param(
            "a.jsonl",
            SECRET.encode() + b"\n" + spell(talk(ASK)),
            ":1: not JSON: Expecting value (column 1)",
            id="a first line that is no JSON",
        ),
        pytest.param(
            "a.json",
            b'{\n"messages": [\n  ' + SECRET.encode() + b"\n]}",
            ":3: not JSON: Expecting value (column 3)",
            id="no JSON inside a document",
        ),
        pytest.param(
            "a.json",
            spell(talk(ASK), indent=1) + SECRET.encode(),
            ":9: not JSON: Extra data (column 1)",
            id="more behind a document",
        ),
        pytest.param(
            "a.json",
            spell(talk(ASK)) + SECRET.encode(),
            ":2: not JSON: Expecting value (column 1)",
            id="more behind what could be a line",
        ),
        pytest.param(
            "a.jsonl",
            spell(talk(ASK), talk(ASK)) + b'{"messages": ["\xff"]}',
            ":3: not UTF-8",
            id="a line that is not UTF-8",
        ),
        pytest.param(
            "a.json", b'{"messages":\n["\xff"]}', ":2: not UTF-8", id="a document that is not UTF-8"
        ),
        pytest.param(
            "a.json", json.dumps(talk(ASK)).encode("utf-16"), ":1: not UTF-8", id="UTF-16"
        ),
        pytest.param(
            "a.jsonl",
            spell(talk(ASK)) + b"[" * 100_000 + b"]" * 100_000,
            ":2: nested too deeply",
            id="what is nested too deeply",
        ),
        pytest.param(
            "a.jsonl",
            spell(talk(ASK)) + b'{"messages": [' + b"7" * 5_000 + b"]}",
            ":2: a number has too many digits",
            id="an integer that Python does not read",
        ),
    ],
)
def test_an_error_names_the_place_and_repeats_nothing(
    tmp_path: Path, pack: Write, name: str, content: bytes, expected: str
) -> None:
    path = write(tmp_path, name, pack(content))
    with pytest.raises(ValueError, match=f"^{re.escape(str(path) + expected)}$") as raised:
        list(read_conversations(path))
    assert SECRET not in str(raised.value)


PACKED = gzip.compress(spell(*[talk(ASK, secret=SECRET)] * 3))


@as_one_test
@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(PACKED[:-9], ": gzip ends early", id="cut in its data"),
        pytest.param(PACKED[:-1], ": gzip ends early", id="cut in its check"),
        pytest.param(PACKED[:2], ": gzip ends early", id="cut in its header"),
        pytest.param(PACKED[:-8] + b"\0" * 8, ": gzip is damaged", id="with another check"),
        pytest.param(PACKED[:10] + b"\xff" * 50, ": gzip is damaged", id="with other data"),
        pytest.param(PACKED + SECRET.encode(), ": gzip is damaged", id="with more behind it"),
    ],
)
def test_a_gzip_that_is_not_whole_is_named(tmp_path: Path, content: bytes, expected: str) -> None:
    path = write(tmp_path, "a.jsonl.gz", content)
    with pytest.raises(ValueError, match=f"^{re.escape(str(path) + expected)}$"):
        list(read_conversations(path))


def test_a_missing_file_is_the_systems_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        list(read_conversations(tmp_path / "missing.json"))


@given(at=st.integers(0, 200), damage=st.binary(min_size=1, max_size=8), packed=st.booleans())
def test_a_damaged_file_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, at: int, damage: bytes, packed: bool
) -> None:
    whole = PACKED if packed else spell(*[talk(ASK, secret=SECRET)] * 3)
    content = whole[:at] + damage + whole[at + len(damage) :]
    path = write(tmp_path_factory.mktemp("damaged"), "a.jsonl", content)
    problem = ""
    try:
        list(read_conversations(path))
    except ValueError as error:
        problem = str(error)
    assert not problem or problem.startswith(str(path))
    assert SECRET not in problem


def test_lines_before_a_broken_one_are_read(tmp_path: Path) -> None:
    path = write(tmp_path, "a.jsonl", spell(talk(ASK), talk(ANSWER)) + b"{\n" + spell(talk()))
    conversations = read_conversations(path)
    assert ["a#1", "a#2"] == [next(conversations).name for _ in range(2)]
    with pytest.raises(ValueError, match=r"a\.jsonl:3: not JSON: .* \(column 2\)$"):
        next(conversations)


def conversation(*messages: ChatMessage, **fields: object) -> RecordedConversation:
    made = RecordedConversation(name="a", place="a.json", messages=messages, **fields)  # type: ignore[arg-type]
    session: Session = made
    assert session is made
    return made


@as_one_test
@pytest.mark.parametrize(
    ("made", "expected"),
    [
        pytest.param(
            conversation(*TALK),
            [talk(ASK), talk(*TALK[:3])],
            id="each answer was asked for by what is before it",
        ),
        pytest.param(
            conversation(*TALK, model="m", tools=tuple(TOOLS)),
            [talk(ASK, model="m", tools=TOOLS), talk(*TALK[:3], model="m", tools=TOOLS)],
            id="with the model and the tools",
        ),
        pytest.param(
            conversation(ASK, ANSWER, model='"messages":[', tools=('"messages":[',)),
            [talk(ASK, model='"messages":[', tools=['"messages":['])],
            id="whatever these are",
        ),
        pytest.param(
            conversation(ASK, ANSWER, model="", tools=()),
            [talk(ASK, model="", tools=[])],
            id="what is empty is there",
        ),
        pytest.param(
            conversation(ASK, ANSWER, model="\ud83d", tools=(10**30,)),
            [talk(ASK, model="\ud83d", tools=[10**30])],
            id="lone surrogates and large integers are kept",
        ),
        pytest.param(
            conversation({"content": float("nan")}, {"content": float("inf")}, ANSWER),
            [talk({"content": None}, {"content": None})],
            id="what JSON does not have is null",
        ),
        pytest.param(
            conversation(assistant(call()), ASK, ANSWER, ASK),
            [talk(assistant(call()), ASK)],
            id="what nothing precedes, and what nothing follows, is no request",
        ),
        pytest.param(conversation(ASK), [], id="without an answer there is no request"),
        pytest.param(conversation(), [], id="without messages there is no request"),
        pytest.param(
            conversation({}, {"role": None}, {"role": ["assistant"]}, {"role": "Assistant"}),
            [],
            id="any other role is no answer",
        ),
    ],
)
def test_each_answer_makes_a_request(
    made: RecordedConversation, expected: list[dict[str, object]]
) -> None:
    assert expected == list(bodies(made))


@as_one_test
@pytest.mark.parametrize(
    ("document", "expected"),
    [
        pytest.param(
            talk(*CLAUDE, system="Be brief.", tools=TOOLS, model="m", other=1),
            [
                ("messages", talk(*CLAUDE[:at], system="Be brief.", tools=TOOLS, model="m"))
                for at in (1, 3)
            ],
            id="Messages, with a system prompt",
        ),
        pytest.param(
            talk(*CLAUDE, system=None),
            [("messages", talk(*CLAUDE[:at])) for at in (1, 3)],
            id="Messages, without one",
        ),
        pytest.param(
            {"input": ITEMS, "instructions": "Be brief."},
            [("responses", {"input": ITEMS[:at], "instructions": "Be brief."}) for at in (1, 4)],
            id="Responses, where several items are one answer",
        ),
        pytest.param(
            {"contents": CONTENTS, "model": "gemini-3-pro"},
            [("gemini", {"model": "gemini-3-pro", "contents": CONTENTS[:at]}) for at in (1, 3)],
            id="Gemini, whose model is in the path",
        ),
    ],
)
def test_a_request_is_in_the_format_of_its_conversation(
    tmp_path: Path, document: object, expected: list[tuple[str, object]]
) -> None:
    (made,) = read_conversations(write(tmp_path, "a.json", spell(document)))
    requests = [*made.requests()]
    assert expected == [(each.wire.name, json.loads(each.body)) for each in requests]
    read = [read_request(each.body, each.wire, each.path) for each in requests]
    assert {made.model} == {each.model for each in read}
    assert read[-1].turns == len(read[-1].results) == 1
    assert made == pickle.loads(pickle.dumps(made))


def test_requests_are_built_one_at_a_time() -> None:
    requests = conversation(ASK, ANSWER, {"content": DEEP}, ANSWER).requests()
    assert talk(ASK) == json.loads(next(requests).body)
    with pytest.raises(ValueError, match=r"^a\.json: nested too deeply$"):
        next(requests)


def test_a_request_tells_its_conversation_and_when_that_was_read(tmp_path: Path) -> None:
    contents = {
        "a.json": spell([talk(*TALK, name="same"), talk(*TALK, name="same")]),
        "a.jsonl": spell(talk(*TALK, name="same"), talk(*TALK, name="same"), talk(*TALK)),
        "b.json": spell(talk(*TALK, name="same")),
    }
    before = datetime.now(UTC)
    paths = [write(tmp_path, name, content) for name, content in contents.items()]
    recorded = [list(c.requests()) for path in paths for c in read_conversations(path)]
    assert [2] * 6 == [len(requests) for requests in recorded]
    for requests in recorded:
        assert {(requests[0].when, requests[0].account, None, None)} == {
            (each.when, each.account, each.host, each.usage) for each in requests
        }
        assert before <= requests[0].when <= datetime.now(UTC)
    assert 6 == len({requests[0].account for requests in recorded})


@given(
    document=documents(),
    spelling=spellings,
    pack=st.sampled_from([bytes, gzip.compress]),
    others=st.integers(0, 2),
)
def test_any_conversation_makes_the_requests_it_was(
    tmp_path_factory: pytest.TempPathFactory,
    document: dict[str, object],
    spelling: Spelling,
    pack: Write,
    others: int,
) -> None:
    messages = [each for each in document["messages"] if isinstance(each, dict)]  # type: ignore[attr-defined]
    assume(not messages or any(isinstance(message.get("role"), str) for message in messages))
    document |= {"messages": messages}
    spelled = spelling.spell([document, *[talk()] * others]).encode()
    made, *rest = read_conversations(write(tmp_path_factory.mktemp("any"), "a", pack(spelled)))
    assert others == len(rest)
    assert (messages, document["model"]) == (list(made.messages), made.model)
    again = pickle.loads(pickle.dumps(made))
    assert (made, made.when) == (again, again.when)
    assert list(bodies(again)) == [
        {"model": document["model"], "messages": messages[:place], "tools": document["tools"]}
        for place, message in enumerate(messages)
        if place and message.get("role") == "assistant"
    ]


@pytest.mark.skipif(not CONVERSATIONS.exists(), reason="no conversations at hand")
def test_real_conversations_make_a_request_for_each_answer() -> None:
    count = 0
    for made in read_conversations(CONVERSATIONS):
        count += 1
        answers = [n for n, each in enumerate(made.messages) if each.get("role") == "assistant"]
        bodies, last = 0, b""
        for request in made.requests():  # one after the other: all together take 400 MB
            bodies, last = bodies + 1, request.body
        assert sum(place > 0 for place in answers) == bodies > 0
        assert list(made.messages[: answers[-1]]) == json.loads(last)["messages"]
    assert 52 == count

"""Anthropic Messages: whole sessions through a real proxy, before a strict provider."""

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.live.harness import (
    ON,
    Live,
    Upstream,
    encoded,
    eventually,
    running_addon,
    running_upstream,
    stream,
)
from tests.live.scripted_sessions import (
    ANSWER,
    SCRIPT,
    TURNS,
    Client,
    Item,
    Step,
    check_session,
    output_of,
    play,
)
from tests.support.record_lines import read_lines
from tests.tools.provider.messages import BINDING_BETA
from tests.tools.provider.script import Reply, Script, ScriptedReplies, call

OLDER, BOUND = "claude-sonnet-4-5", "claude-opus-5-5"
TOOLS = [{"name": "shell", "input_schema": {"type": "object"}}]
ASKED = {"role": "user", "content": "Look at all of it."}
MARK = {"type": "ephemeral"}


def read_whole(response: httpx.Response) -> Step:
    return read_blocks(response.json()["content"])


def read_events(response: httpx.Response) -> Step:
    """Put the blocks together, as every streaming client has to."""
    blocks: list[Item] = []
    inputs: dict[int, str] = {}
    for event in map(read_event, response.text.removesuffix("\n\n").split("\n\n")):
        if event["type"] == "content_block_start":
            blocks.append(event["content_block"])
        elif event["type"] == "content_block_delta":
            kind, index = event["delta"].pop("type"), event["index"]
            if kind == "input_json_delta":
                inputs[index] = inputs.get(index, "") + event["delta"]["partial_json"]
            else:
                for key, piece in event["delta"].items():
                    blocks[index][key] += piece
    for index, text in inputs.items():
        blocks[index]["input"] = json.loads(text)
    return read_blocks(blocks)


def read_event(event: str) -> Item:
    found: Item = json.loads(event.partition("\ndata: ")[2])
    return found


def read_blocks(blocks: list[Item]) -> Step:
    return Step(
        [{"role": "assistant", "content": blocks}],
        [(each["id"], each["input"]["command"]) for each in blocks if each["type"] == "tool_use"],
        "".join(each["text"] for each in blocks if each["type"] == "text"),
    )


def answer(calls: Sequence[tuple[str, str]]) -> list[Item]:
    results = [
        {"type": "tool_result", "tool_use_id": call_id, "content": output_of(command)}
        for call_id, command in calls
    ]
    return [{"role": "user", "content": results}]


def answer_in_lists(calls: Sequence[tuple[str, str]]) -> list[Item]:
    """As clients with images do; the text is masked, and the image stays."""
    image = {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}
    (message,) = answer(calls)
    for each in message["content"]:
        each["content"] = [image, {"type": "text", "text": each["content"]}]
    return [message]


def answer_with_a_mark(calls: Sequence[tuple[str, str]]) -> list[Item]:
    """As claude-code does with what the user says meanwhile, at the end of the prompt."""
    (message,) = answer(calls)
    message["content"].append({"type": "text", "text": "Go on.", "cache_control": MARK})
    return [message]


def ask(items: list[Item], **others: object) -> Item:
    return {"model": OLDER, "max_tokens": 9, "tools": TOOLS, "messages": items, **others}


def ask_with_marks(items: list[Item]) -> Item:
    """The mark in the messages moves to the end of every request."""
    *earlier, last = items
    unmarked = json.dumps(earlier).replace(f', "cache_control": {json.dumps(MARK)}', "")
    system = [{"type": "text", "text": "Be brief.", "cache_control": MARK}]
    return ask([*json.loads(unmarked), last], stream=True, system=system)


def ask_a_stream(items: list[Item]) -> Item:
    return ask(items, stream=True)


def ask_another_cloud(items: list[Item]) -> Item:
    asked = ask(items, anthropic_version="vertex-2023-10-16")
    del asked["model"]
    return asked


VERTEX = f"/v1/projects/p/locations/l/publishers/anthropic/models/{OLDER}@20250929"
BEDROCK = f"/model/us.anthropic.{OLDER}-20250929-v1%3A0"

CLIENTS = [
    Client("whole answers", "/v1/messages", ASKED, ask, read_whole, answer),
    Client("events", "/v1/messages?beta=true", ASKED, ask_a_stream, read_events, answer),
    Client("events over HTTP/2", "/v1/messages", ASKED, ask_a_stream, read_events, answer,
           http2=True),
    Client("lists with images", "/v1/messages", ASKED, ask_a_stream, read_events, answer_in_lists),
    Client("marks that move", "/v1/messages", ASKED, ask_with_marks, read_events,
           answer_with_a_mark),
    Client("Vertex", f"{VERTEX}:rawPredict", ASKED, ask_another_cloud, read_whole, answer),
    Client("Vertex's events", f"{VERTEX}:streamRawPredict", ASKED, ask_another_cloud, read_events,
           answer, http2=True),
    Client("Bedrock", f"{BEDROCK}/invoke", ASKED, ask_another_cloud, read_whole, answer),
]  # fmt: skip


@pytest.fixture(scope="module")
def script() -> Script:
    return SCRIPT


@pytest.mark.smoke
def test_a_session_ends_as_it_does_without_a_proxy(on: Live) -> None:
    check_session(on, play(on, CLIENTS[0], directly=True), CLIENTS[0])


@pytest.mark.parametrize("asking", CLIENTS, ids=lambda client: client.name)
def test_a_session_ends_as_it_does_without_masking(on: Live, off: Live, asking: Client) -> None:
    check_session(on, play(off, asking), asking)


USED = {"input_tokens": 7, "cache_read_input_tokens": 5, "output_tokens": 1}
PIECES = [
    f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()
    for kind, fields in (
        ("message_start", {"message": {"usage": USED}}),
        ("message_delta", {"usage": {"output_tokens": 3}}),
        ("message_stop", {}),
    )
]


@pytest.mark.parametrize("http2", [False, True], ids=["HTTP/1.1", "HTTP/2"])
@pytest.mark.parametrize("which", ["on", "off"])
def test_the_first_event_is_not_held_back(
    request: pytest.FixtureRequest, which: str, http2: bool
) -> None:
    """The others are sent only when it has arrived."""
    live: Live = request.getfixturevalue(which)
    seen = threading.Event()
    path = f"/{http2}/v1/messages"
    live.sink.answers[path] = stream(*PIECES, wait=seen)
    body = encoded(ask([ASKED], stream=True))
    with (
        live.client(http2=http2) as client,
        client.stream("POST", live.sink.url(path), content=body) as response,
    ):
        found = response.iter_raw()
        first = next(found)
        seen.set()
        assert b"".join(PIECES) == first + b"".join(found)
    record = live.record(path)
    assert (12, 5, 3) == tuple(
        record[name] for name in ("prompt_tokens", "cached_tokens", "completion_tokens")
    )


def test_a_count_is_masked_like_the_request_it_asks_about(on: Live) -> None:
    asked = play(on, CLIENTS[0]).sent[-1]
    url = f"https://localhost:{on.upstream.provider.port}/v1/messages"
    with on.client() as client:
        for path in ("", "/count_tokens"):
            client.post(url + path, content=asked).raise_for_status()
    whole, counted = on.upstream.provider.requests[-2:]
    assert counted.path.endswith("/count_tokens")
    assert whole.body == counted.body != asked


# Thinking that is bound to all before it

THOUGHT_ABOUT = (3, 4, 9, 15)
THINKING = ScriptedReplies(
    (
        *(
            Reply(
                thinking="Next." if turn in THOUGHT_ABOUT else None,
                calls=(call("call_0", "shell", command=f"number {turn}"),),
            )
            for turn in range(TURNS)
        ),
        Reply(content=ANSWER),
    )
)
LONGER = ON.replace(b"window_turns = 2", b"window_turns = 5").replace(b"<{", b"old: <{")
PRICED = ON.replace(b'"none"', b"[0.1, 1.25]")
CONFIGS = ON, LONGER, PRICED, ON.replace(b"schema1]", b"schema1]\nkeep_last_k_per_tool = 3")


class Agent:
    """An agent on a model that binds its thinking, a turn at a time."""

    def __init__(self, **others: object) -> None:
        self.items: list[Item] = [ASKED]
        self.others = others
        self.end = ""

    def take(self, live: Live, *, directly: bool = False) -> None:
        """Send a request through a proxy, or past it; run what the model calls."""
        url = f"https://localhost:{live.upstream.provider.port}/v1/messages"
        headers = {"anthropic-beta": BINDING_BETA}
        body = encoded(ask(self.items, **{"model": BOUND, **self.others}))
        with live.client(proxy=None if directly else "") as client:
            response = client.post(url, content=body, headers=headers)
        assert 200 == response.status_code, response.text
        step = read_whole(response)
        self.end = step.text
        self.items += [*step.items, *answer(step.calls)]


@pytest.fixture(scope="module")
def bound_upstream(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Upstream]:
    with running_upstream(tmp_path_factory.mktemp("bound"), THINKING) as running:
        yield running


Plan = Callable[[Agent, Upstream, Path], None]


def from_the_beginning(agent: Agent, upstream: Upstream, folder: Path) -> None:
    with running_addon(folder, upstream, config=ON) as live:
        for _ in range(TURNS + 1):
            agent.take(live)


def joined_late(agent: Agent, upstream: Upstream, folder: Path) -> None:
    with running_addon(folder, upstream, config=ON) as live:
        for turn in range(TURNS + 1):
            agent.take(live, directly=turn < 7)


def restarted(agent: Agent, upstream: Upstream, folder: Path) -> None:
    for turns in (7, 6, TURNS - 12):
        with running_addon(folder, upstream, config=ON) as live:
            for _ in range(turns):
                agent.take(live)


def configured_anew(agent: Agent, upstream: Upstream, folder: Path) -> None:
    with running_addon(folder, upstream, config=ON) as live:
        for turn in range(TURNS + 1):
            live.configure(CONFIGS[turn // 5 % len(CONFIGS)])
            agent.take(live)


@pytest.mark.parametrize(
    "plan",
    [from_the_beginning, joined_late, restarted, configured_anew],
)
def test_no_request_is_refused_for_what_thinking_is_bound_to(
    bound_upstream: Upstream, tmp_path: Path, plan: Plan
) -> None:
    agent, provider = Agent(), bound_upstream.provider
    provider.refusals.clear()
    plan(agent, bound_upstream, tmp_path)
    assert ([], ANSWER) == (provider.refusals, agent.end)
    record = last_record(tmp_path)
    assert record["kept"]["bound"] > 0


def last_record(folder: Path) -> dict[str, Any]:
    path = folder / "state" / "observation-masking" / "requests.jsonl"
    return eventually(lambda: read_last(path))


def read_last(path: Path) -> dict[str, Any] | None:
    records = read_lines(path)
    complete = [each for each in records if each["tool_turns"] == TURNS]
    return complete[-1] if complete else None


def test_where_thinking_may_be_dropped_results_are_masked(
    bound_upstream: Upstream, tmp_path: Path
) -> None:
    binding = {"prefix_mismatch_behavior": "drop_block"}
    agent = Agent(thinking={"type": "adaptive", "block_binding": binding})
    from_the_beginning(agent, bound_upstream, tmp_path)
    record = last_record(tmp_path)
    assert (TURNS - 2, ANSWER) == (record["masked"], agent.end)


# Bedrock's Converse

CONVERSE = "/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse"


def converse(turns: int) -> bytes:
    """A request with a result of each kind per turn: a text, and an object."""
    messages: list[Item] = [{"role": "user", "content": [{"text": "Go."}, CACHE_POINT]}]
    for turn in range(turns):
        uses = [{"toolUseId": f"{kind}{turn}", "name": "shell", "input": {}} for kind in "ab"]
        results = [
            {"toolUseId": f"a{turn}", "content": [{"text": output_of(f"{turn}")}]},
            {"toolUseId": f"b{turn}", "content": [{"json": {"out": output_of(f"{turn}")}}]},
        ]
        messages += [
            {"role": "assistant", "content": [{"toolUse": each} for each in uses]},
            {"role": "user", "content": [{"toolResult": each} for each in results]},
        ]
    return encoded({"messages": messages})


CACHE_POINT = {"cachePoint": {"type": "default"}}


def test_converse_is_masked_with_a_bearer_token(on: Live) -> None:
    body = converse(TURNS)
    expected = json.loads(body)
    for turn, message in enumerate(expected["messages"][2:-4:2]):
        size = len(output_of(f"{turn}"))
        text, value = (each["toolResult"]["content"][0] for each in message["content"])
        text["text"] = f"<a{turn} shell {size}>"
        whole = len(json.dumps(value["json"], ensure_ascii=False, separators=(",", ":")))
        value["json"] = {"text": f"<b{turn} shell {whole}>"}
    arrived = on.send(CONVERSE, body, authorization="Bearer x").body
    assert expected == json.loads(arrived)
    record = on.record(CONVERSE)
    assert (2 * (TURNS - 2), "converse") == (record["masked"], record["format"])


def test_converse_that_is_signed_goes_out_whole(on: Live) -> None:
    path, body = f"{CONVERSE}-stream", converse(TURNS)
    signature = "AWS4-HMAC-SHA256 Credential=x, SignedHeaders=host, Signature=y"
    assert body == on.send(path, body, authorization=signature).body
    assert "signed" == on.record(path)["passed_through"]

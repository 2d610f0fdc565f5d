"""LiteLLM with the hook: what leaves it, and what is recorded, beside mitmdump with the addon."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from addon.proxy.server import running_proxy
from tests.live.harness import environment, eventually, read_records
from tests.live.litellm_proxy import (
    NEEDS_LITELLM,
    LiteLLM,
    Programs,
    litellm_environment,
    running_litellm,
    running_programs,
)
from tests.tools.provider.provider import Provider
from tests.tools.provider.script import Reply

pytestmark = NEEDS_LITELLM

CONFIG = b"""[observation_masking.schema1]
enabled = true
window_turns = 2
cache_pricing = [0.1, 1.25]
placeholder_template = "<{tool_call_id} {tool_name} {original_chars}>"

[observation_masking.memory]
enabled = false
"""
SLIDING = CONFIG.replace(b"[0.1, 1.25]", b'"none"')
"""Old results are then masked at once."""

GPT, CLAUDE = "gpt-5", "claude-sonnet-4-5"
TURNS = range(3, 13, 3)
LINE = "a line of output, \u00e9 and all\n"
Request = dict[str, Any]


def output_of(turn: int) -> str:
    return LINE * (20 + 40 * (turn % 3))


def ask_chat(turns: int) -> Request:
    messages: list[Request] = [{"role": "user", "content": "Look at it."}]
    for turn in range(turns):
        function = {"name": "shell", "arguments": json.dumps({"turn": turn})}
        call = {"id": f"call_{turn}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        result = {"role": "tool", "tool_call_id": f"call_{turn}", "content": output_of(turn)}
        messages.append(result)
    tool = {"type": "function", "function": {"name": "shell", "parameters": {"type": "object"}}}
    return {"messages": messages, "tools": [tool]}


def ask_messages(turns: int) -> Request:
    messages: list[Request] = [{"role": "user", "content": "Look at it."}]
    for turn in range(turns):
        use = {"type": "tool_use", "id": f"call_{turn}", "name": "shell", "input": {"turn": turn}}
        result = {"type": "tool_result", "tool_use_id": f"call_{turn}", "content": output_of(turn)}
        messages.append({"role": "assistant", "content": [use]})
        messages.append({"role": "user", "content": [result]})
    tool = {"name": "shell", "input_schema": {"type": "object"}}
    return {"max_tokens": 99, "messages": messages, "tools": [tool]}


def ask_responses(turns: int) -> Request:
    items: list[Request] = [{"role": "user", "content": "Look at it."}]
    for turn in range(turns):
        arguments = json.dumps({"turn": turn})
        call = {"type": "function_call", "call_id": f"call_{turn}", "name": "shell"}
        items.append({**call, "arguments": arguments})
        result = {"type": "function_call_output", "call_id": f"call_{turn}"}
        items.append({**result, "output": output_of(turn)})
    tool = {"type": "function", "name": "shell", "parameters": {"type": "object"}}
    return {"input": items, "tools": [tool]}


class Case(NamedTuple):
    """What a client asks for, and where."""

    name: str
    path: str
    ask: Callable[[int], Request]
    model: str
    stream: bool = False


CASES = [
    Case("chat completions", "/v1/chat/completions", ask_chat, GPT),
    Case("chat completions, streamed", "/v1/chat/completions", ask_chat, GPT, stream=True),
    Case("chat completions of a Claude", "/v1/chat/completions", ask_chat, CLAUDE),
    Case("messages", "/v1/messages", ask_messages, CLAUDE),
    Case("messages, streamed", "/v1/messages", ask_messages, CLAUDE, stream=True),
    Case("messages of a GPT", "/v1/messages", ask_messages, GPT),
    Case("messages of a GPT, streamed", "/v1/messages", ask_messages, GPT, stream=True),
    Case("responses", "/v1/responses", ask_responses, GPT),
    Case("responses, streamed", "/v1/responses", ask_responses, GPT, stream=True),
    Case("responses of a Claude", "/v1/responses", ask_responses, CLAUDE, stream=True),
]


def find_results(request: object) -> list[str]:
    """Return the texts of all tool results in a request, whatever its format."""
    if isinstance(request, list):
        return [text for each in request for text in find_results(each)]
    if not isinstance(request, dict):
        return []
    is_result = request.get("role") == "tool" or request.get("type") == "tool_result"
    if is_result:
        return [request["content"]]
    if request.get("type") == "function_call_output":
        return [request["output"]]
    return [text for each in request.values() for text in find_results(each)]


@pytest.fixture(scope="module")
def replies() -> list[Reply]:
    return [Reply(content="Well done, and on we go.")]


@pytest.fixture(scope="module")
def provider(replies: list[Reply]) -> Iterator[Provider]:
    with Provider(lambda _: replies[-1], strict=True) as running:
        yield running


@pytest.fixture(scope="module")
def litellm(tmp_path_factory: pytest.TempPathFactory, provider: Provider) -> Iterator[LiteLLM]:
    with running_litellm(tmp_path_factory.mktemp("litellm"), provider, CONFIG) as running:
        yield running


@pytest.fixture(scope="module")
def mitmdump(tmp_path_factory: pytest.TempPathFactory, provider: Provider) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("mitmdump")
    (folder / "config.toml").write_bytes(CONFIG)
    mode = f"reverse:http://127.0.0.1:{provider.port}"
    env = environment(folder, OBSMASK_CONFIG=str(folder / "config.toml"))
    with running_proxy(folder, "--mode", mode, env=env) as proxy:
        yield proxy.url


def last_results(provider: Provider) -> list[str]:
    """Return the tool results that arrived last."""
    return find_results(json.loads(provider.requests[-1].body))


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_litellm_sends_the_texts_that_mitmdump_sends(
    case: Case, litellm: LiteLLM, mitmdump: str, provider: Provider
) -> None:
    masked = 0
    for turns in TURNS:
        request = {"model": case.model, "stream": case.stream, **case.ask(turns)}
        before = len(read_records(litellm.folder))
        response = litellm.post(case.path, request)
        assert 200 == response.status_code, response.text
        arrived = last_results(provider)
        (record,) = litellm.records(before + 1)[before:]
        beside = httpx.post(f"{mitmdump}{case.path}", json=request, trust_env=False)
        assert 200 == beside.status_code, beside.text
        assert last_results(provider) == arrived
        masked = sum(text.startswith("<call_") for text in arrived)
        said = (record["path"], record["model"], record["status"], record["stream"])
        assert (case.path, case.model, 200, case.stream) == said
        assert masked == record["masked"]
        assert record["prompt_tokens"] > 0
    assert 0 < masked < len(arrived)
    assert [] == provider.refusals


def test_a_refusal_is_recorded_with_its_status(
    litellm: LiteLLM, provider: Provider, replies: list[Reply]
) -> None:
    before = len(read_records(litellm.folder))
    replies.append(Reply(status=400))
    try:
        response = litellm.post("/v1/chat/completions", {"model": GPT, **ask_chat(4)})
    finally:
        replies.pop()
    assert 400 == response.status_code
    (record,) = litellm.records(before + 1)[before:]
    assert (400, None) == (record["status"], record["prompt_tokens"])


def test_a_second_try_is_masked_as_the_first(
    litellm: LiteLLM, provider: Provider, replies: list[Reply]
) -> None:
    """LiteLLM tries again by itself, with the same id; what it got then is whole again."""
    before, arrived = len(read_records(litellm.folder)), len(provider.requests)
    replies.append(Reply(status=500))
    try:
        response = litellm.post("/v1/messages", {"model": GPT, **ask_messages(12)})
    finally:
        replies.pop()
    assert 500 == response.status_code
    tries = [find_results(json.loads(each.body)) for each in provider.requests[arrived:]]
    assert len(tries) > 1
    assert [tries[0]] * len(tries) == tries
    assert tries[0][0].startswith("<call_0 ")
    records = litellm.records(before + len(tries))[before:]
    assert {(500, "/v1/messages")} == {(each["status"], each["path"]) for each in records}


def test_an_edit_of_the_configuration_holds_from_then_on(
    litellm: LiteLLM, provider: Provider
) -> None:
    off = SLIDING.replace(b"= true", b"= false", 1)
    litellm.post("/v1/chat/completions", {"model": GPT, **ask_chat(5)})  # it looks from then on
    for config, is_masked in ((off, False), (SLIDING, True), (CONFIG, False)):
        litellm.configure(config)
        litellm.post("/v1/chat/completions", {"model": GPT, **ask_chat(5)})
        assert is_masked == (last_results(provider)[0] == f"<call_0 shell {len(output_of(0))}>")


def test_the_log_holds_no_content(litellm: LiteLLM) -> None:
    litellm.post("/v1/chat/completions", {"model": GPT, **ask_chat(5)})
    eventually(lambda: "masked" in litellm.log or None)
    assert "a line of output" not in litellm.log


PROGRAM = """
import asyncio, json, os
import litellm
from addon.gateways.litellm_hook import observation_masking

async def ask(messages):
    answer = await litellm.acompletion(model="openai/gpt-5", messages=messages, num_retries=0)
    return answer.choices[0].message

async def main():
    litellm.callbacks = [observation_masking]
    messages = json.loads(os.environ["MESSAGES"])
    first = await ask(messages)
    await ask([*messages, first, {"role": "user", "content": "Go on."}])  # an object of a class
    gateway = observation_masking._gateway
    engine = gateway._engine
    masker, engine.masker = engine.masker, None
    await ask(messages)  # masked by nobody
    engine.masker = masker  # so that what is to be recorded is, at the end

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory, provider: Provider) -> Iterator[Programs]:
    with running_programs(tmp_path_factory.mktemp("programs"), provider, SLIDING) as running:
        yield running


def test_a_program_is_masked_and_goes_on_if_masking_fails(
    programs: Programs, tmp_path: Path, provider: Provider
) -> None:
    env = litellm_environment(tmp_path, provider, SLIDING)
    messages = json.dumps(ask_chat(5)["messages"])
    done = programs.run(PROGRAM, tmp_path, env | {"MESSAGES": messages})
    assert 0 == done.returncode, done.stderr
    whole = [output_of(turn) for turn in range(5)]
    placeholders = [f"<call_{turn} shell {len(whole[turn])}>" for turn in range(3)]
    masked = [*placeholders, *whole[3:]]
    arrived = [find_results(json.loads(each.body)) for each in provider.requests[-3:]]
    assert [masked, masked, whole] == arrived
    assert "a request was not masked (AttributeError)" in done.stderr
    passed = [each["passed_through"] for each in read_records(tmp_path)]
    assert [None, None, "internal error (AttributeError)"] == passed


HOSTILE = """
import asyncio, json
from datetime import datetime
from addon.gateways.litellm_hook import observation_masking

class Hostile:
    def __str__(self):
        raise ValueError
    __bool__ = __str__
    __eq__ = __str__
    __hash__ = None

    @property
    def value(self):
        raise ZeroDivisionError

async def main():
    now = datetime.now()
    names = ("model", "litellm_call_id", "custom_llm_provider", "api_base", "base_url",
             "cache_hit", "stream", "exception", "proxy_server_request", "api_key", "messages")
    for name in (*names, "call_type"):
        plain = {"model": "gpt-5", "litellm_call_id": name, "messages": []}
        arguments = plain if name == "call_type" else {**plain, name: Hostile()}
        call_type = Hostile() if name == "call_type" else "acompletion"
        hook = observation_masking
        said = [
            await hook.async_pre_call_deployment_hook(arguments, call_type),
            await hook.async_log_success_event(arguments, Hostile(), now, now),
            await hook.async_log_failure_event(arguments, Hostile(), now, now),
            await hook.async_post_call_failure_deployment_hook(arguments, Hostile(), call_type),
        ]
        print(name, said == [None] * 4)

asyncio.run(main())
"""


def test_no_hook_raises_whatever_its_arguments_are(
    programs: Programs, tmp_path: Path, provider: Provider
) -> None:
    done = programs.run(HOSTILE, tmp_path, litellm_environment(tmp_path, provider, SLIDING))
    assert 0 == done.returncode, done.stderr
    assert {"True"} == {line.split()[1] for line in done.stdout.splitlines()}
    assert 12 == len(done.stdout.splitlines())


MISTAKES = [
    ("an unknown key", b"[observation_masking.schema1]\nenabeld = true\n", "enabeld"),
    ("a memory", b"[observation_masking.memory]\nenabled = true\n", "memory.enabled"),
]


@pytest.mark.parametrize(
    ("config", "named"), [m[1:] for m in MISTAKES], ids=[m[0] for m in MISTAKES]
)
def test_a_mistake_in_the_configuration_is_a_line_that_names_it(
    config: bytes, named: str, programs: Programs, tmp_path: Path, provider: Provider
) -> None:
    env = litellm_environment(tmp_path, provider, config)
    done = programs.run("import addon.gateways.litellm_hook", tmp_path, env)
    assert 1 == done.returncode
    (line,) = [each for each in done.stderr.splitlines() if "observation" in each]
    assert line.startswith("observation-masking: ")
    assert named in line
    assert "Traceback" not in done.stderr

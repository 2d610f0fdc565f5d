"""The LiteLLM gateway with calls as LiteLLM makes them; LiteLLM itself is in the live tests."""

import asyncio
import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from addon.config import FoundConfig, locate_config, user_config
from addon.gateways import litellm
from addon.gateways.litellm import Call, Deployment, LiteLLMGateway, find_usage
from masking.errors import ConfigError
from tests.live.harness import eventually
from tests.support.marks import as_one_test
from tests.support.record_lines import read_lines

CONFIG = """[observation_masking.schema1]
enabled = true
window_turns = 1
cache_pricing = "none"
placeholder_template = "<{tool_call_id} {original_chars}>"

[observation_masking.metrics]
path = "%s"
"""
OWN = ("litellm_call_id", "api_key", "api_base", "metadata", "proxy_server_request", "client")
OPENAI = Deployment("openai", "gpt-5")
TEXT = "a line of output\n" * 9
SECOND = timedelta(seconds=1)
NOTHING: Any = None


class Message:
    """An answer as LiteLLM gives it to programs."""

    def model_dump(self, *, exclude_none: bool) -> Mapping[str, object]:
        return {"role": "assistant", "content": "Let me look."}


def messages_of(turns: int) -> list[Any]:
    found: list[Any] = [{"role": "user", "content": "Look at it."}]
    for turn in range(turns):
        function = {"name": "shell", "arguments": "{}"}
        calls = [{"id": f"c{turn}", "type": "function", "function": function}]
        found.append({"role": "assistant", "content": None, "tool_calls": calls})
        found.append({"role": "tool", "tool_call_id": f"c{turn}", "content": TEXT})
    return found


def call_of(
    call_type: str = "acompletion", call_id: str = "1", to: Deployment = OPENAI, **more: object
) -> Call:
    arguments: dict[str, object] = {"model": "openai/gpt-5", "messages": messages_of(3)}
    arguments |= {"litellm_call_id": call_id, "api_key": "sk-of-the-deployment", "client": object()}
    return Call(call_id, call_type, arguments | more, to)


@pytest.fixture
def gateway(tmp_path: Path) -> LiteLLMGateway:
    return make_gateway(tmp_path)


def make_gateway(folder: Path, config: str = CONFIG) -> LiteLLMGateway:
    path = folder / "config.toml"
    path.write_text(config.replace("%s", str(folder / "records.jsonl")))
    return LiteLLMGateway(FoundConfig(path, "option"), OWN)


def read_records(folder: Path) -> list[dict[str, Any]]:
    return read_lines(folder / "records.jsonl")


def mask(gateway: LiteLLMGateway, *calls: Call) -> list[list[str] | None]:
    """Mask calls one after the other; the texts of their tool results, None for one left alone."""

    async def run() -> list[Mapping[str, object] | None]:
        return [await gateway.mask(call) for call in calls]

    return [None if changed is None else find_texts(changed) for changed in asyncio.run(run())]


def find_texts(changed: Mapping[str, Any]) -> list[str]:
    (messages,) = changed.values()
    return [
        each["content"] for each in messages if isinstance(each, dict) and "tool" in each["role"]
    ]


MASKED = [f"<c0 {len(TEXT)}>", f"<c1 {len(TEXT)}>", TEXT]

HOSTS = [
    ("a provider that LiteLLM knows where to find", Deployment("openai", "m"), "api.openai.com"),
    ("another one", Deployment("groq", "m"), "api.groq.com"),
    ("a base URL", Deployment("openai", "m", "http://Box.example:8000/v1"), "box.example"),
    ("a provider that is on no list", Deployment("wat", "m"), "wat"),
    ("no provider", Deployment(None, "m"), "unknown"),
    ("a base URL that is none", Deployment("openai", "m", "http://[box"), "api.openai.com"),
]


@as_one_test
@pytest.mark.parametrize(("to", "host"), [h[1:] for h in HOSTS], ids=[h[0] for h in HOSTS])
def test_a_call_goes_to_a_host(to: Deployment, host: str) -> None:
    assert host == to.host


def test_old_results_are_masked_and_nothing_else_is_changed(gateway: LiteLLMGateway) -> None:
    before = messages_of(3)
    before[1] = {**before[1], "n": 2**70, "half": "\ud800"}
    call = call_of(messages=list(before))
    changed = asyncio.run(gateway.mask(call))
    gateway.close()
    assert changed is not None
    assert {"messages"} == changed.keys()
    assert MASKED == find_texts(changed)
    after = changed["messages"]
    assert isinstance(after, list)
    assert [place for place in range(7) if after[place] is before[place]] == [0, 1, 3, 5, 6]
    assert before == call.arguments["messages"]


def test_long_results_are_shortened_as_the_record_says(tmp_path: Path) -> None:
    gateway = make_gateway(tmp_path, f"{CONFIG}\n[observation_masking.arrival]\nenabled = true\n")
    text = "".join(f"line {number} of output\n" for number in range(3_000))
    before = messages_of(2)
    before[-1] = {**before[-1], "content": text}
    said = Message()
    call = call_of(messages=[*before, said])
    changed = asyncio.run(gateway.mask(call))
    gateway.close()
    assert changed is not None
    masked, shortened = find_texts(changed)
    assert MASKED[0] == masked
    assert text[:100] == shortened[:100]
    assert " characters left out" in shortened
    assert said is changed["messages"][-1]  # type: ignore[index]
    (record,) = read_records(tmp_path)
    assert (1, 1) == (record["masked"], record["shortened"])
    body = json.dumps(
        {**changed, "model": "gpt-5"}, default=lambda m: m.model_dump(exclude_none=True)
    )
    assert record["bytes_after"] == pytest.approx(len(body), rel=0.1)


def test_an_object_of_a_class_among_the_messages_stays_itself(gateway: LiteLLMGateway) -> None:
    said = Message()
    changed = asyncio.run(gateway.mask(call_of(messages=[*messages_of(3), said])))
    gateway.close()
    assert changed is not None
    after = changed["messages"]
    assert isinstance(after, list)
    assert after[-1] is said
    assert MASKED == find_texts(changed)


LEFT = [
    ("another type of call", call_of("aembedding")),
    ("a host that is never opened", call_of(to=Deployment("openai", "m", "https://pypi.org"))),
    ("nothing to mask", call_of(messages=messages_of(1))),
    ("no messages", call_of(messages=None)),
    ("messages that are no JSON", call_of(messages=[{"role": "user", "content": object()}])),
    ("keys that JSON cannot have", call_of(messages=[{("a", "b"): 1}])),
    ("no arguments at all", Call("1", "acompletion", NOTHING, OPENAI)),
]


@pytest.mark.parametrize("call", [case[1] for case in LEFT], ids=[case[0] for case in LEFT])
def test_a_call_goes_on_as_it_came(call: Call, gateway: LiteLLMGateway) -> None:
    assert [None] == mask(gateway, call)
    gateway.close()


def test_what_goes_wrong_is_said_without_content(
    gateway: LiteLLMGateway, caplog: pytest.LogCaptureFixture
) -> None:
    mask(gateway, Call("1", "acompletion", NOTHING, OPENAI))
    assert ["a call of LiteLLM was not masked: AttributeError"] == caplog.messages[:1]


def test_a_call_that_is_made_of_another_is_left_to_it(
    gateway: LiteLLMGateway, tmp_path: Path
) -> None:
    """LiteLLM makes a call in the provider's format of one in another, with the same id."""
    assert [MASKED, None] == mask(gateway, call_of(), call_of("aresponses"))
    gateway.succeed("1", datetime.now(), {"prompt_tokens": 9}, None)
    gateway.close()
    assert [("/v1/chat/completions", 9)] == [
        (r["path"], r["prompt_tokens"]) for r in read_records(tmp_path)
    ]


def test_a_second_try_begins_anew(gateway: LiteLLMGateway, tmp_path: Path) -> None:
    assert [MASKED, MASKED] == mask(gateway, call_of(), call_of())
    gateway.succeed("1", datetime.now(), None, None)
    gateway.close()
    ends = [(record["status"], record["error"]) for record in read_records(tmp_path)]
    assert [(None, "provider failed"), (200, None)] == ends


def test_an_end_that_is_told_late_is_not_that_of_the_second_try(
    gateway: LiteLLMGateway, tmp_path: Path
) -> None:
    mask(gateway, call_of())
    gateway.fail("1", datetime.now() - SECOND, 429)
    gateway.succeed("1", datetime.now(), None, None)
    gateway.close()
    assert [200] == [record["status"] for record in read_records(tmp_path)]


def test_a_failure_of_the_call_that_was_made_of_it_is_not_its_own(
    gateway: LiteLLMGateway, tmp_path: Path
) -> None:
    mask(gateway, call_of())
    gateway.fail("1", datetime.now(), 500, "aresponses")
    gateway.fail("1", datetime.now(), 503, "acompletion")
    gateway.close()
    assert [503] == [record["status"] for record in read_records(tmp_path)]


def test_an_answer_from_litellms_own_cache_is_no_request(
    gateway: LiteLLMGateway, tmp_path: Path
) -> None:
    mask(gateway, call_of())
    gateway.drop("1")
    gateway.close()
    assert [] == read_records(tmp_path)


def test_a_stream_says_when_its_first_piece_came(gateway: LiteLLMGateway, tmp_path: Path) -> None:
    mask(gateway, call_of(stream=True))
    later = datetime.now() + SECOND
    gateway.succeed("1", later, None, later)
    gateway.close()
    (record,) = read_records(tmp_path)
    assert 1 <= record["first_chunk_seconds"] < 600


def test_what_is_open_at_the_end_is_recorded(gateway: LiteLLMGateway, tmp_path: Path) -> None:
    mask(gateway, call_of())
    gateway.close()
    assert ["proxy ended"] == [record["error"] for record in read_records(tmp_path)]


def test_the_client_is_the_one_before_litellm(gateway: LiteLLMGateway, tmp_path: Path) -> None:
    asked = {"headers": {"User-Agent": "aider/0.86 (linux)"}, "body": {}}
    mask(gateway, call_of(proxy_server_request=asked))
    gateway.close()
    assert ["aider"] == [record["client"] for record in read_records(tmp_path)]


def test_no_memory_is_kept(gateway: LiteLLMGateway, tmp_path: Path) -> None:
    mask(gateway, call_of())
    gateway.close()
    assert [None] == [record["prefix"] for record in read_records(tmp_path)]


def test_a_memory_is_refused(tmp_path: Path) -> None:
    config = f"{CONFIG}[observation_masking.memory]\nenabled = true\n"
    with pytest.raises(
        ConfigError, match=r"processes of this engine share nothing.*memory\.enabled"
    ):
        make_gateway(tmp_path, config)


class Usage:
    """A usage as LiteLLM gives it."""

    def model_dump(self) -> Mapping[str, object]:
        return {"prompt_tokens": 7}


WRITTEN = {"ephemeral_1h_input_tokens": 3}
USAGES: list[tuple[str, object, object]] = [
    ("no answer", None, None),
    ("an answer without usage", {"id": "a"}, None),
    ("a usage", {"usage": {"prompt_tokens": 7}}, {"prompt_tokens": 7}),
    ("an object of a class", {"usage": Usage()}, {"prompt_tokens": 7}),
    ("something else", {"usage": "much"}, None),
    (
        "what was written for an hour",
        {"usage": {"prompt_tokens_details": {"cache_creation_token_details": WRITTEN}}},
        {
            "prompt_tokens_details": {"cache_creation_token_details": WRITTEN},
            "cache_creation": WRITTEN,
        },
    ),
]


@as_one_test
@pytest.mark.parametrize(("answer", "usage"), [u[1:] for u in USAGES], ids=[u[0] for u in USAGES])
def test_an_answer_has_a_usage(answer: object, usage: object) -> None:
    assert usage == find_usage(answer)


def test_a_memory_that_is_asked_for_later_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    gateway = make_gateway(tmp_path)
    path = tmp_path / "config.toml"
    path.write_text(f"{path.read_text()}[observation_masking.memory]\nenabled = true\n")
    assert [MASKED] == mask(gateway, call_of())
    for number in count(2):
        assert [MASKED] == mask(gateway, call_of(call_id=str(number)))
        if any("observation_masking.memory.enabled" in line for line in caplog.messages):
            break
    gateway.close()


def test_the_first_file_of_the_users_own_is_taken_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    gateway = LiteLLMGateway(locate_config(""), OWN)
    assert [None] == mask(gateway, call_of())  # three turns are too few for the shipped settings
    user_config().parent.mkdir()
    user_config().write_text(CONFIG.replace("%s", str(tmp_path / "records.jsonl")))
    numbers = count(2)
    eventually(lambda: mask(gateway, call_of(call_id=str(next(numbers)))) == [MASKED] or None)
    gateway.close()


def test_a_call_whose_end_is_never_told_makes_room(
    gateway: LiteLLMGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(litellm, "_MAX_OPEN", 2)
    mask(gateway, *(call_of(call_id=call_id) for call_id in "123"))
    gateway.close()
    assert [None, "proxy ended", "proxy ended"] == [r["error"] for r in read_records(tmp_path)]


def test_a_usage_that_cannot_be_spelled_is_none(gateway: LiteLLMGateway, tmp_path: Path) -> None:
    mask(gateway, call_of())
    gateway.succeed("1", datetime.now(), {"prompt_tokens": object()}, None)
    gateway.close()
    ends = [(record["status"], record["prompt_tokens"]) for record in read_records(tmp_path)]
    assert [(200, None)] == ends

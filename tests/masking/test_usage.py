"""Usage is read in every provider's spelling, and nothing is made up that was not said."""

import dataclasses
import json
import struct
import zlib
from base64 import b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masking.wire.usage import (
    Cleared,
    Usage,
    count_transformations,
    find_usage,
    read_cleared,
    read_usage,
)
from tests.support.marks import as_one_test

OPENAI = {
    "prompt_tokens": 2006,
    "completion_tokens": 300,
    "total_tokens": 2306,
    "prompt_tokens_details": {"cached_tokens": 1920, "audio_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 12},
}
OPENAI_USAGE = Usage(prompt=2006, cached=1920, completion=300, reasoning=12)


def data(payload: object, end: str = "\n\n") -> bytes:
    return f"data: {json.dumps(payload)}{end}".encode()


def openai(
    prompt: int, completion: int, total: int, cached: int = 0, reasoning: int | None = None
) -> dict[str, object]:
    told = {} if reasoning is None else {"reasoning_tokens": reasoning}
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": total,
        "prompt_tokens_details": {"cached_tokens": cached},
        "completion_tokens_details": told,
    }


def gemini(total: int | None = None, **more: int) -> dict[str, object]:
    counts = {"promptTokenCount": 500, "candidatesTokenCount": 120, "thoughtsTokenCount": 10}
    totals = {} if total is None else {"totalTokenCount": total}
    return {"usageMetadata": counts | more | totals}


@as_one_test
@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        pytest.param(
            {"usage": openai(2000, 500, 5500, 100, reasoning=3000)},
            Usage(prompt=2000, cached=100, completion=3500, reasoning=3000),
            id="xAI counts reasoning outside of the answer",
        ),
        pytest.param(
            {"usage": openai(2000, 500, 5500)},
            Usage(prompt=2000, cached=0, completion=3500),
            id="Gemini's compatible path does not even name it",
        ),
        pytest.param(
            {"usage": openai(2000, 500, 2500, reasoning=400)},
            Usage(prompt=2000, cached=0, completion=500, reasoning=400),
            id="others count it within",
        ),
        pytest.param(
            {"usage": openai(12, 40, 15052, 15000)},
            Usage(prompt=15012, cached=15000, completion=40),
            id="what was cached may stand outside of the prompt",
        ),
        pytest.param(
            {"usage": openai(12, 40, 15352, 15000, reasoning=300)},
            Usage(prompt=12, completion=40, reasoning=300),
            id="a total that proves nothing adds nothing",
        ),
        pytest.param(
            gemini(930, toolUsePromptTokenCount=300),
            Usage(prompt=800, completion=130, reasoning=10),
            id="Gemini's own tools add to the prompt",
        ),
        pytest.param(
            gemini(toolUsePromptTokenCount=300),
            Usage(prompt=800, completion=130, reasoning=10),
            id="so they do without a total",
        ),
        pytest.param(
            gemini(630, toolUsePromptTokenCount=300),
            Usage(prompt=500, completion=130, reasoning=10),
            id="unless the total says otherwise",
        ),
        pytest.param(
            {"usageMetadata": {"promptTokenCount": 500, "totalTokenCount": 600}},
            Usage(prompt=500),
            id="before there is an answer, nothing is added to it",
        ),
        pytest.param(
            {"usage": openai(12, 40, 52, 15000) | {"cache_creation_input_tokens": 500}},
            Usage(prompt=12, completion=40),
            id="more cached than the prompt has is no count",
        ),
        pytest.param(
            {"usage": openai(100, 40, 140, 90) | {"cache_creation_input_tokens": 20}},
            Usage(prompt=100, cached=90, completion=40),
            id="nor is more written than is left of it",
        ),
        pytest.param(
            {
                "usage": {
                    "inputTokens": 100,
                    "cacheWriteInputTokens": 10,
                    "cacheDetails": [{"ttl": "1h", "inputTokens": 20}],
                }
            },
            Usage(prompt=110, written=10),
            id="nor more for an hour than is written",
        ),
    ],
)
def test_a_total_settles_what_stands_outside_of_a_count(
    payload: dict[str, object], expected: Usage
) -> None:
    assert expected == find_usage(payload)
    assert expected == read_usage(data(payload) + b"data: [DONE]\n\n")


def chunk(**fields: object) -> dict[str, object]:
    choice = {"index": 0, "delta": {"content": 'the key "usage": {'}, "finish_reason": None}
    return {"object": "chat.completion.chunk", "choices": [choice], **fields}


@as_one_test
@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        pytest.param({"usage": OPENAI}, OPENAI_USAGE, id="OpenAI nests cached tokens in details"),
        pytest.param(
            {"usage": {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": None}},
            Usage(prompt=9, completion=2),
            id="without details nothing is said of a cache",
        ),
        pytest.param(
            {
                "usage": {
                    "prompt_tokens": 563,
                    "prompt_cache_hit_tokens": 512,
                    "prompt_cache_miss_tokens": 51,
                    "completion_tokens": 116,
                }
            },
            Usage(prompt=563, cached=512, completion=116),
            id="DeepSeek counts cache hits and misses",
        ),
        pytest.param(
            {"usage": {"prompt_tokens": 30, "completion_tokens": 4, "cached_tokens": 20}},
            Usage(prompt=30, cached=20, completion=4),
            id="Moonshot puts cached tokens beside the prompt",
        ),
        pytest.param(
            {"choices": [{"usage": {"prompt_tokens": 30, "completion_tokens": 4}}]},
            Usage(prompt=30, completion=4),
            id="Moonshot streams usage inside the choice",
        ),
        pytest.param(
            {"choices": [], "x_groq": {"id": "r", "usage": {"prompt_tokens": 7}}},
            Usage(prompt=7),
            id="Groq streams usage under its own key",
        ),
        pytest.param(
            {
                "usage": {
                    "prompt_tokens": 194,
                    "completion_tokens": 2,
                    "cost": 0.95,
                    "prompt_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 100},
                }
            },
            Usage(prompt=194, cached=0, written=100, completion=2),
            id="OpenRouter tells written tokens and a cache miss is a 0",
        ),
        pytest.param(
            {
                "usage": {
                    "prompt_tokens": 1400,
                    "completion_tokens": 8,
                    "cache_read_input_tokens": 1000,
                    "cache_creation_input_tokens": 300,
                }
            },
            Usage(prompt=1400, cached=1000, written=300, completion=8),
            id="LiteLLM's prompt holds Anthropic's cached and written tokens",
        ),
        pytest.param(
            {
                "usage": {
                    "input_tokens": 100,
                    "output_tokens": 8,
                    "cache_read_input_tokens": 1000,
                    "cache_creation_input_tokens": 300,
                }
            },
            Usage(prompt=1400, cached=1000, written=300, completion=8),
            id="Anthropic's own input leaves cached and written tokens out",
        ),
        pytest.param(
            {"message": {"usage": {"input_tokens": 5, "output_tokens": 1}}},
            Usage(prompt=5, completion=1),
            id="Anthropic's stream starts with usage in a message",
        ),
        pytest.param(
            {
                "response": {
                    "usage": {
                        "input_tokens": 303,
                        "input_tokens_details": {"cached_tokens": 128, "cache_write_tokens": 6},
                        "output_tokens": 272,
                    }
                }
            },
            Usage(prompt=303, cached=128, written=6, completion=272),
            id="Responses count cached tokens as input",
        ),
        *(
            pytest.param(
                {
                    "type": f"response.{end}",
                    "response": {
                        "usage": {
                            "input_tokens": 30,
                            "input_tokens_details": {"cached_tokens": 20, "cache_write_tokens": 9},
                            "output_tokens": 8,
                            "output_tokens_details": {"reasoning_tokens": 5},
                        }
                    },
                },
                Usage(prompt=30, cached=20, written=9, completion=8, reasoning=5),
                id=f"a response that is {end} has usage",
            )
            for end in ("completed", "incomplete", "failed")
        ),
        pytest.param(
            {
                "usage": {
                    "input_tokens": 4,
                    "cache_read_input_tokens": 1000,
                    "cache_creation_input_tokens": 300,
                    "cache_creation": {
                        "ephemeral_5m_input_tokens": 100,
                        "ephemeral_1h_input_tokens": 200,
                    },
                    "output_tokens": 9,
                    "output_tokens_details": {"thinking_tokens": 7},
                }
            },
            Usage(
                prompt=1304, cached=1000, written=300, written_long=200, completion=9, reasoning=7
            ),
            id="Anthropic tells what is written for an hour",
        ),
        pytest.param(
            {
                "usage": {
                    "inputTokens": 4,
                    "outputTokens": 9,
                    "totalTokens": 1313,
                    "cacheReadInputTokens": 1000,
                    "cacheWriteInputTokens": 300,
                    "cacheDetails": [
                        {"ttl": "5m", "inputTokens": 100},
                        None,
                        {"ttl": "1h", "inputTokens": 200},
                    ],
                }
            },
            Usage(prompt=1304, cached=1000, written=300, written_long=200, completion=9),
            id="Converse leaves cached and written tokens out of its input",
        ),
        pytest.param(
            {"usage": {"inputTokens": 4, "cacheDetails": 5}},
            Usage(prompt=4),
            id="details of a wrong type are ignored",
        ),
        pytest.param(
            {"response": {"usageMetadata": {"promptTokenCount": 50, "thoughtsTokenCount": 3}}},
            Usage(prompt=50, completion=3, reasoning=3),
            id="Code Assist is one level deeper, and an answer may be thoughts alone",
        ),
        pytest.param(
            {"model": "m", "done": True, "prompt_eval_count": 26, "eval_count": 290},
            Usage(prompt=26, completion=290),
            id="Ollama has no object for its usage",
        ),
        pytest.param({"input_tokens": 2095}, None, id="a count of tokens is no usage"),
        pytest.param(
            {
                "usageMetadata": {
                    "promptTokenCount": 50,
                    "cachedContentTokenCount": 40,
                    "candidatesTokenCount": 6,
                    "thoughtsTokenCount": 3,
                }
            },
            Usage(prompt=50, cached=40, completion=9, reasoning=3),
            id="Gemini counts thoughts apart",
        ),
        pytest.param(
            {"usage": {"prompt_tokens": 12, "input_tokens": 0, "output_tokens": 3}},
            Usage(prompt=12, completion=3),
            id="a gateway's 0 in a second spelling does not hide the count",
        ),
        pytest.param(
            {"usage": {"prompt_tokens": 0, "completion_tokens": 0}},
            Usage(prompt=0, completion=0),
            id="a 0 that was said is a 0",
        ),
        pytest.param(
            {"usage": {"prompt_tokens": True, "completion_tokens": 4}},
            Usage(completion=4),
            id="a boolean is no count",
        ),
        pytest.param(
            {"usage": {"prompt_tokens": 4.0, "completion_tokens": "4", "cached_tokens": -1}},
            None,
            id="neither is a float, a string or a negative number",
        ),
        pytest.param({"usage": None}, None, id="null is no usage"),
        pytest.param({"usage": {}}, None, id="an empty object is no usage"),
        pytest.param({"usage": [1], "choices": [], "x_groq": 3}, None, id="wrong types"),
        pytest.param("usage", None, id="a string has none"),
    ],
)
def test_usage_is_found_in_every_spelling(payload: object, expected: Usage | None) -> None:
    assert expected == find_usage(payload)
    assert expected == read_usage(json.dumps(payload).encode())
    assert expected == read_usage(data(chunk()) + data(payload) + b"data: [DONE]\n\n")


@as_one_test
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(
            data(chunk(usage=None)) * 3
            + data({"choices": [], "usage": OPENAI})
            + b"data: [DONE]\n\n",
            OPENAI_USAGE,
            id="the final chunk has usage and no choices",
        ),
        pytest.param(
            b": OPENROUTER PROCESSING\n\nevent: ping\ndata: {}\n\nid: 1\n"
            + data({"usage": OPENAI}),
            OPENAI_USAGE,
            id="comments, pings and other fields are ignored",
        ),
        pytest.param(
            b': "usage": {"prompt_tokens": 5}\nevent: "usage": {\n\n'
            + data({"usage": OPENAI})
            + b': "usage": {\n\n',
            OPENAI_USAGE,
            id="a comment that speaks of usage has none",
        ),
        pytest.param(
            data(chunk(), "\r\n\r\n") + data({"usage": OPENAI}, "\r\n\r\n"),
            OPENAI_USAGE,
            id="lines may end in CRLF",
        ),
        pytest.param(
            data(chunk(), "\r\r") + data({"usage": OPENAI}, "\r\r"),
            OPENAI_USAGE,
            id="lines may end in CR",
        ),
        pytest.param(
            b"\xef\xbb\xbf" + data({"usage": OPENAI}), OPENAI_USAGE, id="a BOM may come first"
        ),
        pytest.param(
            b'data:{"usage":\ndata:{"prompt_tokens":\ndata:7}}\n\n',
            Usage(prompt=7),
            id="data may go on over several lines",
        ),
        pytest.param(
            data({"usage": {"prompt_tokens": 9, "completion_tokens": 1}})
            + data({"usage": {"prompt_tokens": 9, "completion_tokens": 2}}),
            Usage(prompt=9, completion=2),
            id="of usage in every chunk the last wins",
        ),
        pytest.param(
            data({"message": {"usage": {"input_tokens": 10, "cache_read_input_tokens": 90}}})
            + data({"usage": {"output_tokens": 50}}),
            Usage(prompt=100, cached=90, completion=50),
            id="usage in two parts is merged",
        ),
        pytest.param(
            data({"message": {"usage": {"input_tokens": 10, "cache_read_input_tokens": 90}}})
            + data({"usage": {"input_tokens": 10, "output_tokens": 50}}),
            Usage(prompt=100, cached=90, completion=50),
            id="a second count may leave out what is cached",
        ),
        pytest.param(
            b'{"message":{"content":"a"},"done":false}\n{"done":true,"prompt_eval_count":7}\n'
            b'{"done":true,"prompt_eval_count":9,"eval_count":2}\n{"do',
            Usage(prompt=9, completion=2),
            id="JSON lines are read one by one",
        ),
        pytest.param(
            b'{"eval_count": 1}\n{"eval_count": 2\n{"eval_count": 3}',
            Usage(completion=3),
            id="a damaged line is passed over",
        ),
        pytest.param(
            data({"usage": OPENAI}) + data({"usage": {"prompt_tokens": 0}}),
            OPENAI_USAGE,
            id="a later 0 does not replace a count",
        ),
        pytest.param(
            data({"usage": OPENAI}, ""), OPENAI_USAGE, id="the last blank line may be missing"
        ),
        pytest.param(
            data({"usage": {"prompt_tokens": 9}}) + data({"usage": OPENAI})[:-9],
            Usage(prompt=9),
            id="a chunk cut in two is dropped",
        ),
        pytest.param(
            json.dumps({"usage": OPENAI}, indent=2).encode(),
            OPENAI_USAGE,
            id="a document may be indented",
        ),
        pytest.param(
            b'\n{"x": "\xff\\ud800", "p": NaN, "usage": {"prompt_tokens": 3}}',
            Usage(prompt=3),
            id="bad UTF-8, lone surrogates and NaN do no harm",
        ),
        pytest.param(
            b'[{"usageMetadata": {"promptTokenCount": 5}}, 3, {"usage": {"output_tokens": 2}}]',
            Usage(prompt=5, completion=2),
            id="an array of chunks is read as a stream",
        ),
        pytest.param(b"[" * 900 + b'{"usage": {}}' + b"]" * 900, None, id="a deep array has none"),
        pytest.param(b'{"usage": {"prompt_tokens": 3}', None, id="half a document has none"),
        pytest.param(b'{"usage": {' + b'"a": {' * 200_000, None, id="depth has none"),
        pytest.param(
            b'{"usage": {"prompt_tokens": ' + b"9" * 5000 + b"}}", None, id="a huge number has none"
        ),
        pytest.param(b'{"error": {"message": "no"}}', None, id="an error has none"),
        pytest.param(b"<html>", None, id="a page has none"),
        pytest.param(b"", None, id="nothing has none"),
    ],
)
def test_usage_is_read_from_documents_and_streams(body: bytes, expected: Usage | None) -> None:
    assert expected == read_usage(body)


def frame(payload: bytes) -> bytes:
    """Return an event as AWS frames it."""
    headers = b"\x0b:event-type\x07\x00\x05chunk"
    prelude = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    event = prelude + struct.pack(">I", zlib.crc32(prelude)) + headers + payload
    return event + struct.pack(">I", zlib.crc32(event))


def wrap(payload: object) -> bytes:
    return frame(json.dumps({"bytes": b64encode(json.dumps(payload).encode()).decode()}).encode())


START = wrap({"message": {"usage": {"input_tokens": 10, "cache_read_input_tokens": 90}}})
CONVERSE = frame(b'{"usage":{"inputTokens":4,"outputTokens":9},"metrics":{"latencyMs":1}}')
TEXT = wrap({"type": "content_block_delta", "delta": {"text": '"usage": {'}})


@as_one_test
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(
            START + TEXT + wrap({"usage": {"output_tokens": 50}}),
            Usage(prompt=100, cached=90, completion=50),
            id="Anthropic's events, wrapped",
        ),
        pytest.param(
            frame(b'{"delta":{"text":"a"}}') + CONVERSE,
            Usage(prompt=4, completion=9),
            id="Converse's own events",
        ),
        pytest.param(START + CONVERSE[:-1], Usage(prompt=100, cached=90), id="cut off"),
        pytest.param(START + b"\xff" * 99, Usage(prompt=100, cached=90), id="damaged"),
        pytest.param(
            START + frame(b"\xff") + frame(b"[]") + frame(b'{"bytes": "?"}') + CONVERSE,
            Usage(prompt=100, cached=90, completion=9),
            id="payloads that are no usage",
        ),
        pytest.param(
            struct.pack(">III", 3, 0, zlib.crc32(struct.pack(">II", 3, 0))) + CONVERSE,
            None,
            id="an event that is shorter than its frame",
        ),
    ],
)
def test_usage_is_read_from_the_streams_of_bedrock(body: bytes, expected: Usage | None) -> None:
    assert expected == read_usage(body)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda values: (
        st.lists(values, max_size=3)
        | st.dictionaries(
            st.sampled_from(("usage", "choices", "prompt_tokens", "prompt_tokens_details")), values
        )
    ),
)


@given(st.binary())
def test_any_bytes_can_be_read(noise: bytes) -> None:
    for lead in (b"", b"{", b"data: ", b'data: {"usage": {', START, b'{"eval_count":'):
        read_usage(lead + noise)


@given(JSON)
def test_counts_are_whole_and_never_negative(payload: object) -> None:
    usage = find_usage(payload) or Usage()
    counts = dataclasses.astuple(usage)
    assert all(count is None or (type(count) is int and count >= 0) for count in counts)


@given(st.integers(min_value=0))
def test_a_stream_cut_anywhere_can_be_read(cut: int) -> None:
    body = data(chunk()) + data({"choices": [], "usage": OPENAI}, "\r\n\r\n") + b"data: [DONE]\n\n"
    assert read_usage(body[: cut % len(body)]) in (None, OPENAI_USAGE)


FIRST = {"type": "message_start", "message": {"usage": {"input_tokens": 3}}}
KINDS = [{"type": "thinking_dropped"}, {"type": "thinking_dropped"}, {"type": "other"}, {"x": 1}, 5]
COUNTED = {"thinking_dropped": 2, "other": 1}
LISTED: dict[str, object] = {"input_transformations": KINDS}


def stream_of(*events: object) -> bytes:
    return b"".join(b"data: %b\n\n" % json.dumps(event).encode() for event in events)


@as_one_test
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(json.dumps(LISTED).encode(), COUNTED, id="a document"),
        pytest.param(
            stream_of({**FIRST, "message": LISTED}, {"type": "message_delta", **LISTED}),
            COUNTED,
            id="the start and the end of a stream",
        ),
        pytest.param(stream_of(FIRST), {}, id="a stream without any"),
        pytest.param(
            stream_of({"delta": {"text": '"input_transformations": [{"type": "x"}]'}}),
            {},
            id="a text that speaks of it",
        ),
        pytest.param(b'{"input_transformations": {"type": "x"}}', {}, id="no list"),
        pytest.param(b'{"input_transformations": [', {}, id="cut off"),
    ],
)
def test_what_a_provider_changed_is_counted_by_kind(body: bytes, expected: dict[str, int]) -> None:
    assert expected == count_transformations(body)


CLEARED = {"type": "clear_tool_uses_20250919", "cleared_tool_uses": 8, "cleared_input_tokens": 50}
THOUGHT = {"type": "clear_thinking_20251015", "cleared_thinking_turns": 3}


def managed(*edits: object) -> dict[str, object]:
    return {"context_management": {"applied_edits": [*edits]}}


@as_one_test
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(json.dumps(managed(THOUGHT, CLEARED)).encode(), Cleared(8, 50), id="a body"),
        pytest.param(
            stream_of(managed(), managed(CLEARED)),
            Cleared(8, 50),
            id="a stream, whose last word holds",
        ),
        pytest.param(json.dumps(managed()).encode(), Cleared(0, 0), id="nothing was done"),
        pytest.param(json.dumps(managed(THOUGHT, 7)).encode(), Cleared(0, 0), id="something else"),
        pytest.param(
            json.dumps(managed(CLEARED | {"cleared_tool_uses": "8"})).encode(),
            Cleared(0, 50),
            id="a number that is none",
        ),
        pytest.param(b'{"context_management": {"applied_edits": 1}}', None, id="no list"),
        pytest.param(b'{"usage": {}}', None, id="nothing is said"),
        pytest.param(b'[{"stop_reason": "end_turn"}, 7]', Cleared(0, 0), id="a list"),
        pytest.param(b'{"stop_reason": "end_turn", "usage": {}}', Cleared(0, 0), id="a whole body"),
        pytest.param(
            stream_of(FIRST, {"type": "message_stop"}), Cleared(0, 0), id="a whole stream"
        ),
        pytest.param(
            stream_of(FIRST, {"type": "error", "error": {"message": "message_stop"}}),
            None,
            id="a stream that broke off",
        ),
    ],
)
def test_what_a_provider_has_cleared(body: bytes, expected: Cleared | None) -> None:
    assert expected == read_cleared(body)

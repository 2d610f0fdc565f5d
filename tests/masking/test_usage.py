"""Usage is read in every provider's spelling, and nothing is made up that was not said."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masking.wire.usage import Usage, find_usage, read_usage

OPENAI = {
    "prompt_tokens": 2006,
    "completion_tokens": 300,
    "total_tokens": 2306,
    "prompt_tokens_details": {"cached_tokens": 1920, "audio_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 12},
}
OPENAI_USAGE = Usage(prompt=2006, cached=1920, completion=300)


def data(payload: object, end: str = "\n\n") -> bytes:
    return f"data: {json.dumps(payload)}{end}".encode()


def chunk(**fields: object) -> dict[str, object]:
    choice = {"index": 0, "delta": {"content": 'the key "usage": {'}, "finish_reason": None}
    return {"object": "chat.completion.chunk", "choices": [choice], **fields}


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
        pytest.param(
            {
                "usageMetadata": {
                    "promptTokenCount": 50,
                    "cachedContentTokenCount": 40,
                    "candidatesTokenCount": 6,
                    "thoughtsTokenCount": 3,
                }
            },
            Usage(prompt=50, cached=40, completion=9),
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
    for lead in (b"", b"{", b"data: ", b'data: {"usage": {'):
        read_usage(lead + noise)


@given(JSON)
def test_counts_are_whole_and_never_negative(payload: object) -> None:
    usage = find_usage(payload) or Usage()
    counts = [usage.prompt, usage.cached, usage.written, usage.completion]
    assert all(count is None or (type(count) is int and count >= 0) for count in counts)


@given(st.integers(min_value=0))
def test_a_stream_cut_anywhere_can_be_read(cut: int) -> None:
    body = data(chunk()) + data({"choices": [], "usage": OPENAI}, "\r\n\r\n") + b"data: [DONE]\n\n"
    assert read_usage(body[: cut % len(body)]) in (None, OPENAI_USAGE)

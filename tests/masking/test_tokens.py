"""Tokens are tiktoken's, remembered without the texts, and no text takes long or raises."""

import base64
import hashlib
import json
import random
import string
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masking.accounting.prompt import read_prompt
from masking.tokens import TokenCounter, load_o200k_base
from masking.tokens import count as tokens_module
from masking.wire.chat import CHAT
from tests.support.builders import read_body, unchanged
from tests.support.marks import thorough

MEGABYTE = 1_000_000
NOISE = random.Random(1)
BASE64 = base64.b64encode(hashlib.shake_128(b"seed").digest(MEGABYTE * 3 // 4)).decode()
LONG = "The quick brown fox jumps over the lazy dog. " * 10


def tiktoken_count(text: str) -> int:
    return len(load_o200k_base().encode_ordinary(text))


@pytest.fixture(scope="module")
def counter() -> TokenCounter:
    return TokenCounter()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", 0, id="nothing is no token"),
        pytest.param("hello world", 2, id="two words are two tokens"),
        pytest.param("<|endoftext|>", 7, id="a special token's spelling is text"),
        pytest.param("\ud800", 1, id="a lone surrogate counts as a replacement character"),
        pytest.param(LONG, 101, id="a long text is counted"),
        pytest.param(LONG + "\ud800", 101, id="so is a long text with a lone surrogate"),
    ],
)
def test_a_text_is_counted(counter: TokenCounter, text: str, expected: int) -> None:
    assert expected == counter.count(text)
    assert expected == counter.count(text)


@given(st.text() | st.text(min_size=128))
def test_a_text_counts_what_tiktoken_counts(text: str) -> None:
    assert tiktoken_count(text) == TokenCounter().count(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("a" * MEGABYTE, 125_000, id="one letter", marks=pytest.mark.thorough),
        pytest.param("." * MEGABYTE, 15_625, id="one sign", marks=pytest.mark.thorough),
        pytest.param(" " * MEGABYTE, 7_813, id="spaces"),
        pytest.param("\t" * MEGABYTE, 62_500, id="tabs", marks=pytest.mark.thorough),
        pytest.param("\n" * MEGABYTE, 62_500, id="newlines", marks=pytest.mark.thorough),
        pytest.param(BASE64, 681_940, id="base64"),
    ],
)
def test_a_megabyte_without_a_word_is_counted(text: str, expected: int) -> None:
    """In tenths of a second; in hours, were it quadratic."""
    assert expected == TokenCounter().count(text)


LONG_WORDS = {
    "letters": "a",
    "capital letters": "AB",
    "ideographs": "漢字",
    "letters with marks": "a\u0301",
    "marks": "\u0301",
    "joiners": "\u200d",
    "emoji": "😀",
    "characters of four tokens": "𓀀",
    "emoji between letters": "a😀",
    "signs": "=-",
    "braces": "{},",
    "slashes and newlines": "/\n",
    "spaces": " ",
    "tabs": "\t",
    "newlines": "\r\n",
    "halves of surrogate pairs": "\ud800",
}
"""Units of texts that are one word to the pattern, or nearly."""


@pytest.mark.parametrize("unit", LONG_WORDS.values(), ids=LONG_WORDS)
@pytest.mark.parametrize("before", [thorough(""), "left of it "])
def test_a_text_without_end_counts_what_tiktoken_counts(unit: str, before: str) -> None:
    text = before + unit * (50_000 // len(unit)) + " right"
    assert tiktoken_count(text) == TokenCounter().count(text)


@pytest.mark.parametrize("unit", LONG_WORDS.values(), ids=LONG_WORDS)
def test_no_long_word_reaches_tiktoken(unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its time grows faster than a word; with all pieces short, ours grows as the text does."""
    pieces = list[str]()

    class Noting:
        def __getattr__(self, name: str) -> object:
            return getattr(load_o200k_base(), name)

        def encode_ordinary(self, text: str) -> list[int]:
            pieces.append(text)
            return load_o200k_base().encode_ordinary(text)

    monkeypatch.setattr(tokens_module, "load_o200k_base", Noting)
    TokenCounter().count(unit * (50_000 // len(unit)))
    assert 6_144 > max(map(len, pieces))
    assert 1.25 * 50_000 > sum(map(len, pieces))


@pytest.mark.parametrize("kind", [" \t\n", "{}[](),.;:=-", string.ascii_letters, "漢字\u0301😀"])
def test_random_texts_of_one_kind_count_what_tiktoken_counts(kind: str) -> None:
    text = "left" + "".join(NOISE.choices(kind, k=100_000)) + "right"
    assert abs(tiktoken_count(text) - TokenCounter().count(text)) <= 2


def test_ordinary_text_of_any_length_counts_what_tiktoken_counts() -> None:
    text = "".join(f"{n}: {LONG}{BASE64[n : n + 3_000]}\n" for n in range(300))
    assert len(text) > 3 * 262_144
    assert tiktoken_count(text) == TokenCounter().count(text)


def test_counting_can_be_ended_within_a_text() -> None:
    checks = iter([None, None])
    counter = TokenCounter(check=lambda: next(checks))
    with pytest.raises(StopIteration):
        counter.count("some words " * 100_000)
    assert {} == counter._counts


@pytest.mark.parametrize("text", ["short", LONG], ids=["short", "long"])
def test_counting_can_be_ended_before_a_text(text: str) -> None:
    counter = TokenCounter(check=lambda: next(iter(())))
    with pytest.raises(StopIteration):
        counter.count(text)


def test_the_counts_of_long_texts_are_remembered_by_digest() -> None:
    counter = TokenCounter()
    counter.count(LONG)
    counter.count("short")
    remembered = [(len(digest), count) for digest, count in counter._counts.items()]
    assert remembered == [(16, 101)]


def test_a_counter_that_is_full_begins_anew() -> None:
    counter, kept = TokenCounter(max_entries=2), TokenCounter()
    for text in (LONG + "a", LONG + "b", LONG + "a", LONG + "c"):
        counter.count(text)
    kept.count(LONG + "c")
    assert kept._counts == counter._counts


def test_threads_share_a_counter() -> None:
    counter = TokenCounter(max_entries=1)
    texts = [LONG + str(number % 20) for number in range(2_000)]
    with ThreadPoolExecutor(4) as threads:
        actual = list(threads.map(counter.count, texts))
    assert [tiktoken_count(text) for text in texts] == actual


def call(name: object = "read", arguments: object = '{"path": "a"}') -> dict[str, object]:
    return {"id": "call_1", "type": "function", "function": {"name": name, "arguments": arguments}}


@pytest.mark.parametrize(
    ("message", "texts", "calls"),
    [
        pytest.param({"role": "user", "content": "hello"}, ["hello"], 0, id="a string counts"),
        pytest.param(
            {"role": "tool", "content": [{"type": "text", "text": "one"}, {"text": "two"}]},
            ["one", "two"],
            0,
            id="text parts count",
        ),
        pytest.param(
            {"role": "assistant", "content": None, "tool_calls": [call(), call("write", "{}")]},
            ["read", '{"path": "a"}', "write", "{}"],
            2,
            id="calls count with name and arguments",
        ),
        pytest.param(
            {"content": 3, "tool_calls": [call(None, {"path": "a"}), {"function": "read"}, "read"]},
            [],
            3,
            id="calls of wrong types have no texts",
        ),
        pytest.param({"content": {"text": "x"}, "tool_calls": {}}, [], 0, id="so do objects"),
        pytest.param({}, [], 0, id="an empty message is a message"),
    ],
)
def test_a_message_counts_its_texts_and_its_frame(
    counter: TokenCounter, message: dict[str, object], texts: Iterable[str], calls: int
) -> None:
    expected = sum(map(tiktoken_count, texts)) + 4 + 8 * calls
    counted, others = CHAT.count_parts(message)
    assert expected == others + sum(map(counter.count, counted))


TOOLS = [{"type": "function", "function": {"name": "read", "description": "é" * 200}}]
DEEP: list[object] = []
for _ in range(100_000):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        pytest.param({}, 0, id="an empty request counts nothing"),
        pytest.param(
            {"messages": [{"content": "hello"}, "hello", None, {"content": "world"}]},
            10,
            id="messages count and anything else among them does not",
        ),
        pytest.param({"tools": {"a": 1}}, 0, id="wrong types count nothing"),
        pytest.param(
            {"tools": TOOLS},
            tiktoken_count(json.dumps(TOOLS, ensure_ascii=False, separators=(",", ":"))),
            id="tools count as compact JSON",
        ),
        pytest.param({"tools": ["\ud800"]}, 3, id="a lone surrogate in a tool is no trouble"),
        pytest.param({"tools": DEEP}, 0, id="tools too deep for JSON count nothing"),
        pytest.param({"tools": [10**5000]}, 0, id="a number too long for JSON counts nothing"),
    ],
)
def test_a_request_counts_its_messages_and_tools(
    counter: TokenCounter, request_: dict[str, object], expected: int
) -> None:
    assert (
        expected
        == read_prompt(unchanged(read_body({"messages": [], **request_})), counter).tokens_before
    )


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda values: (
        st.lists(values, max_size=3)
        | st.dictionaries(
            st.sampled_from(("messages", "tools", "content", "text", "tool_calls", "function")),
            values,
        )
    ),
)


@given(messages=st.lists(JSON, max_size=3), tools=JSON)
def test_any_json_can_be_counted(messages: list[object], tools: object) -> None:
    prompt = read_prompt(
        unchanged(read_body({"messages": messages, "tools": tools})), TokenCounter()
    )
    assert prompt.tokens_before == prompt.tokens_after >= 0

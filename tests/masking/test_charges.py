"""What of an element is tokens: the rule's size and the bill's are sums of the same charges."""

from collections.abc import Mapping
from typing import Any

import pytest

from masking.tokens import TokenCounter, estimate_tokens
from masking.wire import CHAT, CONVERSE, FORMATS, GEMINI, MESSAGES, OLLAMA, RESPONSES, WireFormat
from tests.support.marks import as_one_test

TEXT = "hello world"
GUESS = 1_600
QUERY = '{"query":"x"}'


def said(*parts: object) -> dict[str, object]:
    return {"role": "user", "content": [*parts]}


def document(**source: object) -> dict[str, Any]:
    return said({"type": "document", "source": source})


ENCRYPTED = {"type": "reasoning", "summary": [], "encrypted_content": "x" * 1_700}
SEARCH = {"type": "server_tool_use", "id": "s", "name": "search", "input": {"query": "x"}}
BLOCKS = [{"type": "text", "text": TEXT}, {"type": "image", "source": {"file_id": "f"}}]
TITLED = {
    "type": "document",
    "title": "hello",
    "context": 7,
    "source": {"type": "text", "data": " world"},
}

CASES: list[tuple[str, WireFormat, Mapping[str, object], tuple[str, ...], int]] = [
    ("audio", CHAT, said({"type": "input_audio", "input_audio": {"data": "aa"}}), (), 4 + GUESS),
    ("a file", CHAT, said({"type": "file", "file": {"file_id": "file-1"}}), (), 4 + GUESS),
    ("a refusal", CHAT, said({"type": "refusal", "refusal": TEXT}), (TEXT,), 4),
    ("images", OLLAMA, {**said(), "images": ["aGk=", "aGk="]}, (), 4 + 2 * GUESS),
    ("a PDF", MESSAGES, document(type="base64", data="aa"), (), 4 + GUESS),
    ("a document of text", MESSAGES, document(type="text", data=TEXT), (TEXT,), 4),
    ("one of a string", MESSAGES, document(type="content", content=TEXT), (TEXT,), 4),
    ("one of blocks", MESSAGES, document(type="content", content=BLOCKS), (TEXT,), 4 + GUESS),
    ("one with a title", MESSAGES, said(TITLED), (TEXT,), 4),
    ("what was searched", MESSAGES, said({"type": "search_result", "source": "hello", "content":
     [{"type": "text", "text": " world"}]}), (TEXT,), 4),
    ("a tool that is loaded", MESSAGES, said({"type": "tool_reference", "tool_name": "shell"}),
     ("shell",), 4),
    ("a document of nothing", MESSAGES, said({"type": "document"}), (), 4 + GUESS),
    ("hidden thinking", MESSAGES, said({"type": "redacted_thinking", "data": "x" * 600}), (), 104),
    ("it without data", MESSAGES, said({"type": "redacted_thinking"}), (), 4 + GUESS),
    ("a provider's tool", MESSAGES, said(SEARCH), ("search", QUERY), 4 + 8),
    ("what it found", MESSAGES, said({"type": "web_search_tool_result"}), (), 4 + GUESS),
    ("a PDF", CONVERSE, said({"document": {"source": {"bytes": "aa"}}}), (), 4 + GUESS),
    ("a document of text", CONVERSE, said({"document": {"source": {"text": TEXT}}}), (TEXT,), 4),
    ("hidden thinking", CONVERSE, said({"reasoningContent": {"redactedContent": "x" * 600}}), (),
     104),
    ("a file", RESPONSES, said({"type": "input_file", "file_id": "file-1"}), (), 4 + GUESS),
    ("encrypted reasoning", RESPONSES, ENCRYPTED, (), 8 + 100),
    ("media", GEMINI, {"parts": [{"fileData": {"fileUri": "gs://a"}}]}, (), 4 + 1_120),
    ("audio with a transcript", GEMINI, {"parts": [{"fileData": {}, "x": 1}]}, ('{"x":1}',), 1_124),
]  # fmt: skip


@as_one_test
@pytest.mark.parametrize(
    ("wire", "element", "texts", "tokens"),
    [pytest.param(*case[1:], id=f"{case[1].name}: {case[0]}") for case in CASES],
)
def test_both_sizes_are_made_of_the_same_charges(
    wire: WireFormat, element: object, texts: tuple[str, ...], tokens: int
) -> None:
    assert ([*texts], tokens) == wire.count_parts(element)
    assert tokens + estimate_tokens("".join(texts)) == wire.measure_element(element).total


@as_one_test
@pytest.mark.parametrize("wire", FORMATS, ids=lambda wire: wire.name)
@pytest.mark.parametrize("part", [7, None, "text", [], {}, {"type": "new"}, {"text": 7}], ids=repr)
def test_what_no_format_knows_has_one_size_as_well(wire: WireFormat, part: object) -> None:
    key = {"gemini": "parts"}.get(wire.name, "content")
    element = {"type": "message", "role": "user", key: [part]}
    texts, tokens = wire.count_parts(element)
    counted = tokens + sum(map(TokenCounter().count, texts))
    assert counted == wire.measure_element(element).total

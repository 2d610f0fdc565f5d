"""Chapter 8: six wire formats, and what is masked is the same in each."""

import json

import pytest

from masking import find_format
from masking.wire import FORMATS
from tests.spec.talk import OUTPUT, SHORT, mask, reasons
from tests.support.marks import as_one_test
from tests.support.wire_conversations import IN_EVERY_FORMAT, User, Writer, turn, turns


def test_there_are_six_formats() -> None:
    expected = ["chat", "messages", "responses", "gemini", "ollama", "converse"]
    assert expected == [wire.name for wire in FORMATS]


@as_one_test
@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/v1/chat/completions", ("chat", "answer")),
        ("/openai/deployments/gpt-4o/chat/completions", ("chat", "answer")),
        ("/v1/messages", ("messages", "answer")),
        ("/v1/messages/count_tokens", ("messages", "count")),
        ("/v1/responses", ("responses", "answer")),
        ("/v1/responses/compact", ("responses", "compact")),
        ("/v1beta/models/gemini-2.5-pro:generateContent", ("gemini", "answer")),
        ("/v1beta/models/gemini-2.5-pro:streamGenerateContent", ("gemini", "answer")),
        ("/v1beta/models/gemini-2.5-pro:countTokens", ("gemini", "count")),
        ("/api/chat", ("ollama", "answer")),
        ("/model/anthropic.claude/converse", ("converse", "answer")),
        ("/model/anthropic.claude/converse-stream", ("converse", "answer")),
        ("/v1/models", None),
        ("/v1/embeddings", None),
        ("/", None),
    ],
)
def test_a_format_is_known_by_the_path(path: str, expected: tuple[str, str] | None) -> None:
    match = find_format("POST", path)
    assert expected == (match and (match.wire.name, match.purpose))
    assert find_format("GET", path) is None


# How an old result of 600 characters leaves. Everything else in it is the client's.
MASKED = {
    "chat": '{"role": "tool", "tool_call_id": "a", "content": "<a shell 600>"}',
    "messages": '{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", '
    '"content": "<a shell 600>"}]}',
    "converse": '{"role": "user", "content": [{"toolResult": {"toolUseId": "a", '
    '"content": [{"text": "<a shell 600>"}]}}]}',
    "responses": '{"type": "function_call_output", "call_id": "a", "output": "<a shell 600>"}',
    "gemini": '{"role": "user", "parts": [{"functionResponse": {"id": "a", "name": "shell", '
    '"response": {"output": "<a shell 600>"}}}]}',
    "gemini without ids": '{"role": "user", "parts": [{"functionResponse": {"name": "shell", '
    '"response": {"output": "< shell 600>", "name": "shell"}}}]}',
    "gemini in pieces": '{"role": "user", "parts": [{"functionResponse": {"id": "a", '
    '"name": "shell", "response": {"output": "<a shell 600>"}}}]}',
    "code assist": '{"role": "user", "parts": [{"functionResponse": {"id": "a", "name": "shell", '
    '"response": {"output": "<a shell 600>"}}}]}',
    "ollama": '{"role": "tool", "tool_name": "shell", "content": "< shell 600>"}',
    "made up": '{"by": "human", "pieces": [{"outcome": {"of": "a", "value": "<a shell 600>"}}]}',
}


@as_one_test
@IN_EVERY_FORMAT
def test_a_masked_result_looks_like_this(writer: Writer) -> None:
    told = writer.tell(User(), *turn("a", OUTPUT), *turns(1))
    after = json.loads(mask(told, SHORT).body)
    for step in told.read().list_path:
        after = after[step]
    assert MASKED[writer.name] == json.dumps(after[2])


@as_one_test
@IN_EVERY_FORMAT
def test_the_same_conversation_is_decided_alike_in_every_format(writer: Writer) -> None:
    failed = "Traceback (most recent call last):"
    said = (*turn("a", OUTPUT), *turn("b", failed), *turn("c", OUTPUT), *turn("d", OUTPUT))
    decided = mask(writer.tell(User(), *said), SHORT)
    assert ["masked", "error", "masked", "in_window"] == reasons(decided)
    assert [600, len(failed), 600, 600] == [each.chars_before for each in decided.decisions]

"""What was said, in the formats of the providers."""

import pytest

from addon.replay.logs.turns import (
    Call,
    Media,
    Result,
    Text,
    Thought,
    Turn,
    TurnWriter,
)
from masking.wire import CHAT, GEMINI, MESSAGES, RESPONSES, WireFormat

PNG = Media("image/png", "aGk=")
URL = "data:image/png;base64,aGk="
TURNS = (
    Turn("user", [Text("Look."), PNG]),
    Turn("assistant", [Thought("Hm.", "sig", "rs_1"), Text("I look."), Call("c", "ls", {"a": 1})]),
    Turn("tool", [Result("c", "ls", "é", is_error=True, media=[PNG])]),
    Turn("user", [Text("And?")]),
)
SOURCE = {"type": "base64", "media_type": "image/png", "data": "aGk="}
IMAGE = {"type": "image", "source": SOURCE}
PICTURE = {"type": "image_url", "image_url": {"url": URL}}
INLINE = {"inlineData": {"mimeType": "image/png", "data": "aGk="}}
ARGUMENTS = '{"a":1}'
EXPECTED: dict[WireFormat, tuple[object, ...]] = {
    CHAT: (
        {"role": "user", "content": [{"type": "text", "text": "Look."}, PICTURE]},
        {
            "role": "assistant",
            "content": "I look.",
            "reasoning_content": "Hm.",
            "tool_calls": [
                {
                    "id": "c",
                    "type": "function",
                    "function": {"name": "ls", "arguments": ARGUMENTS},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "c", "content": "é"},
        {
            "role": "user",
            "content": [{"type": "text", "text": "Attached image(s) from tool result:"}, PICTURE],
        },
        {"role": "user", "content": "And?"},
    ),
    MESSAGES: (
        {"role": "user", "content": [{"type": "text", "text": "Look."}, IMAGE]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "sig"},
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "c", "name": "ls", "input": {"a": 1}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "c",
                    "content": [{"type": "text", "text": "é"}, IMAGE],
                    "is_error": True,
                },
                {"type": "text", "text": "And?"},
            ],
        },
    ),
    RESPONSES: (
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "Look."},
                {"type": "input_image", "image_url": URL},
            ],
        },
        {
            "type": "reasoning",
            "encrypted_content": "sig",
            "summary": [{"type": "summary_text", "text": "Hm."}],
        },
        {"role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
        {"type": "function_call", "call_id": "c", "name": "ls", "arguments": ARGUMENTS},
        {
            "type": "function_call_output",
            "call_id": "c",
            "output": [
                {"type": "input_text", "text": "é"},
                {"type": "input_image", "image_url": URL},
            ],
        },
        {"role": "user", "content": [{"type": "input_text", "text": "And?"}]},
    ),
    GEMINI: (
        {"role": "user", "parts": [{"text": "Look."}, INLINE]},
        {
            "role": "model",
            "parts": [
                {"text": "Hm.", "thought": True, "thoughtSignature": "sig"},
                {"text": "I look."},
                {"functionCall": {"name": "ls", "args": {"a": 1}}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"name": "ls", "response": {"name": "ls", "content": "é"}}},
                INLINE,
            ],
        },
        {"role": "user", "parts": [{"text": "And?"}]},
    ),
}


@pytest.mark.parametrize("wire", EXPECTED, ids=lambda wire: str(wire.name))
def test_turns_are_written_as_the_provider_wants_them(wire: WireFormat) -> None:
    assert EXPECTED[wire] == TurnWriter(wire).write(TURNS)


@pytest.mark.parametrize("wire", EXPECTED, ids=lambda wire: str(wire.name))
def test_what_requests_have_in_common_is_the_same_objects(wire: WireFormat) -> None:
    writer = TurnWriter(wire)
    grown = [writer.write(TURNS[:count]) for count in range(1, len(TURNS) + 1)]
    assert [TurnWriter(wire).write(TURNS[:count]) for count in range(1, 5)] == grown
    assert all(was is now for was, now in zip(grown[1], grown[3], strict=False))
    other = writer.write([TURNS[0], TURNS[3]])
    assert TurnWriter(wire).write([TURNS[0], TURNS[3]]) == other
    again = writer.write(TURNS)
    assert all(was is now for was, now in zip(grown[3], again, strict=True))


def test_summaries_of_one_item_are_one_element() -> None:
    thoughts = [Thought("One.", "sig", "rs_1"), Thought("Two.", "sig", "rs_1")]
    (item,) = TurnWriter(RESPONSES).write([Turn("assistant", thoughts)])
    assert [
        {"type": "summary_text", "text": "One."},
        {"type": "summary_text", "text": "Two."},
    ] == item["summary"]

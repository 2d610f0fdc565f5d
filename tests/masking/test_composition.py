"""What a prompt is composed of, in every wire format."""

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given

from masking.accounting.prompt import PARTS, Sizes, measure, read_prompt
from masking.reduction import ReductionOptions
from masking.rewrite import Strategies, read_request
from masking.tokens import TokenCounter, count_tools
from masking.window import MaskPolicy
from tests.builders import MASK_ALL, OLD, documents, policies, policy
from tests.priced import rewrite_request
from tests.wire_conversations import (
    IN_EVERY_FORMAT,
    WRITERS,
    Ask,
    Give,
    Model,
    Step,
    Told,
    Tools,
    User,
    Writer,
    spell,
    turn,
)

COUNTER = TokenCounter()
OFF = Strategies()
REDUCE = ReductionOptions(
    enabled=True, max_input_chars=1_500, preserve_recent_raw_turns=2, observation_masking=False
)
TALK: Sequence[Step] = (User("Fix it."), *turn("a"), *turn("b"), Model((), "Done."))


def measure_parts(told: Told, strategies: Strategies = OFF) -> tuple[Sizes, Mapping[str, int]]:
    """Return the sizes of a request, and of its parts, which add up to it."""
    found = rewrite_request(told.read(), strategies)
    sizes = measure(found, told.body, read_prompt(found, COUNTER))
    assert sizes.composition is not None
    assert sizes.request_tokens_after == sum(sizes.composition.values())
    return sizes, sizes.composition


@IN_EVERY_FORMAT
def test_each_element_is_its_speakers(writer: Writer) -> None:
    _, parts = measure_parts(writer.tell(*TALK))
    assert ["user", "assistant", "results"] == [*parts]
    assert parts["results"] >= 2 * COUNTER.count(OLD) > parts["user"] + parts["assistant"]
    assert parts["user"] < 12, "what only carries results is not the user's"


@IN_EVERY_FORMAT
def test_what_masking_puts_in_place_is_told_apart(writer: Writer) -> None:
    _, before = measure_parts(writer.tell(*TALK))
    sizes, after = measure_parts(writer.tell(*TALK), Strategies(schema1=MASK_ALL))
    assert (1, ["user", "assistant", "results", "placeholders"]) == (sizes.masked, [*after])
    assert 0 < after["placeholders"] < 20
    saved = (sizes.request_tokens_before or 0) - (sizes.request_tokens_after or 0)
    assert before["results"] - saved == after["results"] + after["placeholders"]
    assert (before["user"], before["assistant"]) == (after["user"], after["assistant"])


@IN_EVERY_FORMAT
def test_a_placeholder_that_the_client_sends_is_one(writer: Writer) -> None:
    told = writer.tell(*TALK)
    masked = rewrite_request(told.read(), Strategies(schema1=MASK_ALL))
    again = read_request(masked.body, writer.wire, writer.path)
    found = rewrite_request(again, Strategies(schema1=MASK_ALL))
    sizes = measure(found, masked.body, read_prompt(found, COUNTER))
    assert {"already_masked": 1, "in_window": 1} == sizes.kept
    assert measure_parts(told, Strategies(schema1=MASK_ALL))[1] == sizes.composition


@IN_EVERY_FORMAT
def test_what_is_dropped_is_gone_and_the_summary_is_the_users(writer: Writer) -> None:
    told = writer.tell(User("Fix it."), *(step for n in range(9) for step in turn(f"t{n}")))
    _, before = measure_parts(told)
    sizes, after = measure_parts(told, Strategies(reduction=REDUCE))
    assert "summarization" == sizes.reduction_stage
    assert before["user"] < after["user"]
    assert 4 * after["results"] < before["results"]


TOOLS = [{"name": "shell", "description": "runs a command"}]
CALL = {"id": "a", "type": "function", "function": {"name": "shell", "arguments": "{}"}}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


@pytest.mark.parametrize(
    ("writer", "extra", "expected"),
    [
        ("chat", {"tools": TOOLS}, {"tools"}),
        ("messages", {"tools": TOOLS, "system": "Be brief."}, {"tools", "system"}),
        ("messages", {"system": [{"type": "text", "text": "Be brief."}]}, {"system"}),
        ("responses", {"tools": TOOLS, "instructions": "Be brief."}, {"tools", "system"}),
        ("gemini", {"tools": TOOLS, "systemInstruction": {"parts": [{"text": "Brief."}]}},
         {"tools", "system"}),
        ("converse", {"toolConfig": {"tools": TOOLS}, "system": [{"text": "Be brief."}]},
         {"tools", "system"}),
        ("ollama", {"tools": TOOLS}, {"tools"}),
    ],
)  # fmt: skip
def test_what_stands_before_the_list_is_system_and_tools(
    writer: str, extra: Mapping[str, object], expected: set[str]
) -> None:
    told = next(each for each in WRITERS if each.name == writer).tell(*TALK)
    _, plain = measure_parts(told)
    document = {**told.document, **extra}
    body = spell(document).encode()
    found = rewrite_request(read_request(body, told.wire, told.writer.path), OFF)
    parts = measure(found, body, read_prompt(found, COUNTER)).composition or {}
    assert expected == {*parts} - {*plain}
    assert plain == {part: tokens for part, tokens in parts.items() if part not in expected}
    if "tools" in expected:
        assert count_tools(COUNTER, TOOLS) == parts["tools"]


@pytest.mark.parametrize(
    ("writer", "item", "part"),
    [
        ("chat", {"role": "system", "content": "Be brief."}, "system"),
        ("chat", {"role": "developer", "content": "Be brief."}, "system"),
        ("responses", {"role": "developer", "content": "Be brief."}, "system"),
        ("ollama", {"role": "system", "content": "Be brief."}, "system"),
        ("chat", {"role": "oracle", "content": "Who knows?"}, "unknown"),
        ("chat", {"role": "user", "content": [IMAGE]}, "user"),
        ("chat", {"role": "assistant", "content": None, "tool_calls": [CALL]}, "assistant"),
        ("chat", {"role": "tool", "tool_call_id": "a", "content": [IMAGE]}, "results"),
    ],
)
def test_an_element_of_the_list_is_its_speakers(
    writer: str, item: Mapping[str, object], part: str
) -> None:
    told = next(each for each in WRITERS if each.name == writer).tell()
    assert [part] == [*measure_parts(told._replace(items=[item]))[1]]


def test_a_result_that_keeps_some_of_its_texts_has_both() -> None:
    writer = WRITERS[0]
    several = Tools((Give("a", (OLD, "ok")),))
    told = writer.tell(Model((Ask("a"),)), several, *turn("b"))
    chosen = policy(MASK_ALL, mask_text_parts=True, skip_if_not_shorter=True)
    _, parts = measure_parts(told, Strategies(schema1=chosen))
    _, whole = measure_parts(writer.tell(Model((Ask("a"),)), Tools((Give("a", OLD),)), *turn("b")),
                     Strategies(schema1=chosen))  # fmt: skip
    assert (whole["placeholders"], whole["results"] + COUNTER.count("ok")) == (
        parts["placeholders"], parts["results"],
    )  # fmt: skip


def test_without_anything_there_are_no_parts() -> None:
    assert {} == measure_parts(WRITERS[0].tell())[1]


@given(documents(), policies)
def test_the_parts_add_up(document: Mapping[str, object], chosen: MaskPolicy) -> None:
    chat = WRITERS[0]
    body = spell(document).encode()
    conversation = read_request(body, chat.wire, chat.path)
    found = rewrite_request(conversation, Strategies(schema1=chosen))
    sizes = measure(found, body, read_prompt(found, COUNTER))
    parts = sizes.composition or {}
    assert sum(parts.values()) == sizes.request_tokens_after
    assert [part for part in PARTS if part in parts] == [*parts]
    assert ("placeholders" in parts) >= (sizes.masked > 0)

import json

import pytest
from hypothesis import given

from masking import MaskPolicy, rewrite_request
from masking.accounting.prompt import Sizes, measure, read_prompt
from masking.model import replacements_of
from masking.rewrite import Rewrite
from masking.tokens import TokenCounter
from tests.builders import (
    MASK_ALL,
    OLD,
    documents,
    policies,
    policy,
    read,
    result,
    turn,
    unanswered,
    unchanged,
)

COUNTER = TokenCounter()


def take(body: bytes, chosen: MaskPolicy = MASK_ALL) -> tuple[Rewrite, Sizes]:
    masked = rewrite_request(body, chosen)
    prompt = read_prompt(masked, COUNTER)
    return masked, measure(masked, body, prompt)


PLACEHOLDER = "<a|shell|330>"
CONVERSATION = [
    {"role": "user", "content": "gö"},
    *turn("a"),
    *turn("b", 7),
    result("orphan"),
    *turn("a"),
]


def test_everything_is_counted_before_and_after() -> None:
    body = json.dumps({"messages": CONVERSATION}, ensure_ascii=False).encode()
    masked, sizes = take(body)
    text, placeholder = COUNTER.count(OLD), COUNTER.count(PLACEHOLDER)
    tokens = read_prompt(unchanged(read(CONVERSATION)), COUNTER).tokens_before
    assert sizes == Sizes(
        messages=8,
        tool_turns=3,
        tool_results=4,
        masked=1,
        kept={"not_string": 1, "orphan": 1, "in_window": 1},
        result_reasons="mnow",
        tool_chars_before=3 * 330,
        tool_chars_after=2 * 330 + len(PLACEHOLDER),
        json_chars_before=len(body.decode()),
        json_chars_after=len(masked.body.decode()),
        tool_tokens_before=3 * text,
        tool_tokens_after=2 * text + placeholder,
        request_tokens_before=tokens,
        request_tokens_after=tokens - text + placeholder,
        composition={
            "user": COUNTER.count("gö") + 4,
            "assistant": 42,
            "results": 2 * text + 16,
            "placeholders": placeholder,
        },
    )
    assert len(OLD) - len(PLACEHOLDER) == sizes.json_chars_before - sizes.json_chars_after


def test_without_a_prompt_tokens_are_not_known() -> None:
    body = json.dumps({"messages": CONVERSATION}).encode()
    sizes = measure(rewrite_request(body, MASK_ALL), body)
    assert (None, None, None, None) == (
        sizes.tool_tokens_before,
        sizes.tool_tokens_after,
        sizes.request_tokens_before,
        sizes.request_tokens_after,
    )
    assert (1, 990) == (sizes.masked, sizes.tool_chars_before)


@pytest.mark.parametrize(
    ("messages", "chosen"),
    [
        pytest.param([], MASK_ALL, id="no messages"),
        pytest.param([None, "x", {}], MASK_ALL, id="no results"),
        pytest.param([*turn(), *unanswered()], policy(enabled=False), id="off"),
    ],
)
def test_where_nothing_is_masked_before_is_after(messages: object, chosen: MaskPolicy) -> None:
    _, sizes = take(json.dumps({"messages": messages}).encode(), chosen)
    assert 0 == sizes.masked
    assert (
        sizes.tool_chars_before,
        sizes.json_chars_before,
        sizes.tool_tokens_before,
        sizes.request_tokens_before,
    ) == (
        sizes.tool_chars_after,
        sizes.json_chars_after,
        sizes.tool_tokens_after,
        sizes.request_tokens_after,
    )


def test_bytes_that_are_no_text_are_counted_as_well() -> None:
    masked = Rewrite(
        body=b"\xff",
        conversation=read([]),
        decisions=(),
    )
    sizes = measure(masked, b"\xff\xfe")
    assert (0, 2, 1) == (sizes.messages, sizes.json_chars_before, sizes.json_chars_after)


@given(documents(), policies)
def test_the_parts_add_up(document: dict[str, object], chosen: MaskPolicy) -> None:
    masked, sizes = take(json.dumps(document).encode(), chosen)
    assert sizes.tool_results == sizes.masked + sum(sizes.kept.values())
    assert "masked" not in sizes.kept
    replacements = replacements_of(masked.decisions)
    shrunk = sum(len(r.text) - len(r.placeholder) for r in replacements)
    assert shrunk == sizes.tool_chars_before - sizes.tool_chars_after
    assert None not in (sizes.tool_tokens_before, sizes.request_tokens_before)
    saved = sum(COUNTER.count(r.text) - COUNTER.count(r.placeholder) for r in replacements)
    assert saved == (sizes.tool_tokens_before or 0) - (sizes.tool_tokens_after or 0)
    assert saved == (sizes.request_tokens_before or 0) - (sizes.request_tokens_after or 0)

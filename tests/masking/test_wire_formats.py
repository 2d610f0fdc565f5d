"""The table of wire formats: which request is of which, and what is missing in it."""

import json
from collections.abc import Mapping

import pytest

from masking.errors import WireError
from masking.model import REASONS
from masking.rewrite import read_request
from masking.wire import FORMATS, find_format
from masking.wire.chat import CHAT
from masking.wire.converse import CONVERSE
from masking.wire.format import Purpose, WireFormat
from masking.wire.messages import MESSAGES
from masking.wire.responses import RESPONSES
from tests.support.made_up_format import MADE_UP
from tests.support.marks import as_one_test

VERTEX = "/v1/projects/p/locations/global/publishers"


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({}, "no request in 'body'"),
        ({"request": 7}, "no contents in 'body.request'"),
        ({"request": {}}, "no contents in 'body.request'"),
        ({"request": {"contents": {}}}, "expected list, got dict in 'body.request.contents'"),
    ],
)
def test_a_missing_list_is_named(document: Mapping[str, object], problem: str) -> None:
    with pytest.raises(WireError) as caught:
        read_request(json.dumps(document).encode(), MADE_UP)
    assert problem == str(caught.value)


@as_one_test
@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("POST", "/v1/chat/completions", (CHAT, "answer")),
        ("POST", "/openai/deployments/x/chat/completions", (CHAT, "answer")),
        ("GET", "/v1/chat/completions", None),
        ("POST", "/v1/chat/completions/more", None),
        ("POST", "/v1/messages", (MESSAGES, "answer")),
        ("POST", "/api/anthropic/v1/messages", (MESSAGES, "answer")),
        ("POST", "/v1/messages/count_tokens", (MESSAGES, "count")),
        ("POST", "/v1/messages/batches", None),
        (
            "POST",
            f"{VERTEX}/anthropic/models/claude-opus-5@20260101:rawPredict",
            (MESSAGES, "answer"),
        ),
        ("POST", f"{VERTEX}/anthropic/models/claude-opus-5:streamRawPredict", (MESSAGES, "answer")),
        ("POST", f"{VERTEX}/mistralai/models/codestral:rawPredict", None),
        ("POST", "/model/us.anthropic.claude-opus-5-v1%3A0/invoke", (MESSAGES, "answer")),
        ("POST", "/model/anthropic.claude-v2/invoke-with-response-stream", (MESSAGES, "answer")),
        ("POST", "/model/amazon.nova-pro-v1:0/invoke", None),
        ("POST", "/model/amazon.nova-pro-v1:0/converse", (CONVERSE, "answer")),
        ("POST", "/model/us.anthropic.claude-opus-5-v1%3A0/converse", (CONVERSE, "answer")),
        ("POST", "/model/arn:aws:bedrock:x/profile/y/converse-stream", (CONVERSE, "answer")),
        ("POST", "/model/anthropic.claude-opus-5-v1/count-tokens", (CONVERSE, "count")),
        ("POST", "/model/anthropic.claude-opus-5-v1/apply", None),
        ("POST", "/v1/responses", (RESPONSES, "answer")),
        ("POST", "/responses", (RESPONSES, "answer")),
        ("POST", "/backend-api/codex/responses", (RESPONSES, "answer")),
        ("POST", "/openai/v1/responses", (RESPONSES, "answer")),
        ("POST", "/openai/deployments/x/responses", (RESPONSES, "answer")),
        ("POST", "/backend-api/codex/responses/compact", (RESPONSES, "compact")),
        ("POST", "/v1/responses/input_tokens", (RESPONSES, "count")),
        ("POST", "/v1/responses/resp_1/cancel", None),
    ],
)
def test_a_request_is_of_the_format_whose_path_it_has(
    method: str, path: str, expected: tuple[WireFormat, Purpose] | None
) -> None:
    assert expected == find_format(method, path)


def test_formats_are_told_apart_by_name_and_path() -> None:
    assert len(FORMATS) == len({wire.name for wire in FORMATS})
    patterns = [pattern for wire in FORMATS for pattern, _ in wire.paths]
    assert len(patterns) == len({*patterns})


def test_each_reason_has_a_sentence_of_its_own() -> None:
    assert len(REASONS) == len({info.sentence for info in REASONS.values()})

"""Prices: what a request's prices, its cache and its time to live depend on."""

from dataclasses import fields, replace
from datetime import UTC, datetime

import pytest

from addon.masker import price
from addon.stages import Priced, Received, Run
from masking.config import Settings
from masking.conversation import Request
from masking.wire.messages import MESSAGES
from tests.support.marks import as_one_test

ARRIVED = Received(
    time=datetime(2026, 1, 1, tzinfo=UTC),
    run=Run("run"),
    host="api.anthropic.com",
    path="/v1/messages",
    wire=MESSAGES,
    purpose="answer",
    client=None,
    subscription=False,
    account=b"account",
    settings=Settings(),
    replay=False,
    answers_masked=True,
)
LATER = replace(ARRIVED, time=datetime(2026, 1, 2, tzinfo=UTC), client="another program")
MODEL = "claude-sonnet-4-5"


def request(*ttls: str, **fields: object) -> Request:
    """Return a request with a cache mark for each of these times to live."""
    parts = [
        {"type": "text", "text": "?", "cache_control": {"type": "ephemeral", "ttl": ttl}}
        for ttl in ttls
    ]
    document = {"model": MODEL, "messages": [{"role": "user", "content": parts}], **fields}
    return Request(document, MESSAGES)


@as_one_test
@pytest.mark.parametrize(
    ("received", "asked", "model", "expected"),
    [
        pytest.param(LATER, request("5m"), MODEL, "", id="nothing"),
        pytest.param(
            replace(ARRIVED, account=b"another"), request("5m"), MODEL, "cache_scope", id="account"
        ),
        pytest.param(
            replace(ARRIVED, host="openrouter.ai"),
            request("5m"),
            MODEL,
            "cache_scope pricing prices",
            id="host",
        ),
        pytest.param(
            ARRIVED,
            request("5m"),
            "claude-haiku-4-5",
            "model cache_scope pricing prices",
            id="model",
        ),
        pytest.param(
            ARRIVED,
            request("5m"),
            None,
            "model cache_scope pricing prices lifetime",
            id="no model",
        ),
        pytest.param(ARRIVED, request("1h"), MODEL, "pricing prices lifetime", id="marks"),
        pytest.param(ARRIVED, request("5m", stream=True), MODEL, "stream", id="a stream"),
        pytest.param(ARRIVED, request("5m", speed="fast"), MODEL, "pricing", id="tier"),
    ],
)
def test_what_differs_with_another(
    received: Received, asked: Request, model: str | None, expected: str
) -> None:
    usual, found = price(ARRIVED, request("5m"), MODEL), price(received, asked, model)
    names = [each.name for each in fields(Priced)]
    differ = [name for name in names if getattr(usual, name) != getattr(found, name)]
    assert expected.split() == differ

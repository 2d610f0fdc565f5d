"""Prices are worked out once for all that decides them, and remembered within bounds."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from addon.pricer import Pricer
from addon.stages import Received, Run
from masking.config import Settings
from masking.conversation import Request
from masking.wire.messages import MESSAGES
from tests.support.marks import as_one_test

SETTINGS = Settings()
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
    settings=SETTINGS,
    replay=False,
    answers_masked=True,
)
MODEL = "claude-sonnet-4-5"


def request(*ttls: str, **fields: object) -> Request:
    """Return a request with a cache mark for each of these times to live."""
    parts = [
        {"type": "text", "text": "?", "cache_control": {"type": "ephemeral", "ttl": ttl}}
        for ttl in ttls
    ]
    document = {"model": MODEL, "messages": [{"role": "user", "content": parts}], **fields}
    return Request(document, MESSAGES)


def test_the_prices_of_a_session_are_worked_out_once() -> None:
    pricer = Pricer()
    later = replace(ARRIVED, time=datetime(2026, 1, 2, tzinfo=UTC), client="another program")
    first = pricer.price(ARRIVED, request("5m"), MODEL)
    assert first is pricer.price(later, request("5m"), MODEL)
    assert (MODEL, False) == (first.model, first.stream)


@as_one_test
@pytest.mark.parametrize(
    ("received", "asked", "model"),
    [
        pytest.param(replace(ARRIVED, host="example.com"), request("5m"), MODEL, id="host"),
        pytest.param(replace(ARRIVED, account=b"another"), request("5m"), MODEL, id="credential"),
        pytest.param(replace(ARRIVED, settings=Settings()), request("5m"), MODEL, id="settings"),
        pytest.param(ARRIVED, request("1h"), MODEL, id="marks"),
        pytest.param(ARRIVED, request("5m", stream=True), MODEL, id="a stream"),
        pytest.param(ARRIVED, request("5m"), "claude-haiku-4-5", id="model"),
        pytest.param(ARRIVED, request("5m"), None, id="no model"),
        pytest.param(ARRIVED, request("5m", speed="fast"), MODEL, id="tier of service"),
    ],
)
def test_another(received: Received, asked: Request, model: str | None) -> None:
    pricer = Pricer()
    remembered = pricer.price(ARRIVED, request("5m"), MODEL)
    another = pricer.price(received, asked, model)
    assert remembered is not another
    assert another == Pricer().price(received, asked, model)
    assert another is pricer.price(received, asked, model)


@pytest.mark.parametrize(
    "ttls", [pytest.param(["5m"] * 9, id="many"), pytest.param(["5" * 33], id="a long one")]
)
def test_marks_that_nothing_bounds_are_not_remembered(ttls: list[str]) -> None:
    pricer = Pricer()
    first = pricer.price(ARRIVED, request(*ttls), MODEL)
    again = pricer.price(ARRIVED, request(*ttls), MODEL)
    assert first == again
    assert first is not again


def test_the_longest_unused_are_forgotten() -> None:
    pricer = Pricer(most=2)
    first, _, _ = (pricer.price(ARRIVED, request(), model) for model in ("one", "two", "three"))
    assert first is not pricer.price(ARRIVED, request(), "one")

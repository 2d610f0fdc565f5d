"""The tier of service that a request asks for, in the spelling of each vendor."""

import pytest

from masking.conversation import Request
from masking.wire import CHAT
from tests.support.marks import as_one_test


@as_one_test
@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, None),
        ({"speed": "fast", "service_tier": "auto"}, "fast"),
        ({"speed": "standard"}, None),
        ({"service_tier": "priority"}, "priority"),
        ({"service_tier": "flex"}, "flex"),
        ({"service_tier": "default"}, None),
        ({"service_tier": 7}, None),
        ({"serviceTier": {"type": "flex"}}, "flex"),
        ({"serviceTier": {"type": ["flex"]}}, None),
    ],
)
def test_the_tier_that_a_request_asks_for(fields: dict[str, object], expected: str | None) -> None:
    assert expected == Request({"messages": [], **fields}, CHAT).tier

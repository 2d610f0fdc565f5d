"""The rule on other people's conversations, where they are at hand beside the checkout."""

import pytest

from masking.prices import Pricing
from tests.support.places import CONVERSATIONS
from tests.support.schedules import Conversation
from tests.tools.benchmarks.boundary import PRICES, compare, read_conversations

pytestmark = pytest.mark.skipif(not CONVERSATIONS.exists(), reason="no conversations at hand")

AT_MOST = dict(zip(PRICES, (1.002, 1.005, 1.012, 1.012, 1.040), strict=True))
"""The rule's bill over the optimum's."""


@pytest.fixture(scope="module")
def conversations() -> list[Conversation]:
    return list(read_conversations(CONVERSATIONS))


@pytest.mark.thorough
@pytest.mark.parametrize("prices", PRICES)
def test_the_rule_is_near_the_optimum_and_keeps_its_promise(
    conversations: list[Conversation], prices: Pricing
) -> None:
    outcome = compare(conversations, prices)
    assert outcome.rule / outcome.optimum <= AT_MOST[prices]
    assert outcome.worst <= 1.1 * (1 + 1e-9)


@pytest.mark.thorough
def test_a_sliding_window_costs_more_than_it_saves_at_a_tenth(
    conversations: list[Conversation],
) -> None:
    outcome = compare(conversations, Pricing(0.1, 1.0))
    assert outcome.sliding > outcome.everything > outcome.rule

"""Chapter 20: what is fast decides as the contract does, read slowly (`tests/spec/reference.py`).

`python -m tests.tools.benchmarks.reference` compares more conversations.
"""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.spec.compared import FORMATS, compare, compare_messages
from tests.support.builders import examples
from tests.support.marks import as_one_test
from tests.support.wire_conversations import Writer, in_each


@in_each(FORMATS)
@given(random=st.randoms(use_true_random=False))
def test_a_request_is_rewritten_as_the_reference_says(writer: Writer, random: Random) -> None:
    assert compare(writer, random) is None


@examples(2)
@given(random=st.randoms(use_true_random=False))
def test_a_list_of_messages_is_masked_as_the_reference_says(random: Random) -> None:
    assert compare_messages(random) is None


@as_one_test
@pytest.mark.parametrize("number", range(10))
def test_long_conversations_are_masked_as_the_reference_says(number: int) -> None:
    """Examples of Hypothesis are short, and boundaries move late."""
    assert [None] * 10 == [
        compare(FORMATS[n % len(FORMATS)], Random(n)) for n in range(10 * number, 10 * number + 10)
    ]

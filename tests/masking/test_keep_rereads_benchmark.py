"""The benchmark that says what it costs to keep what was asked for again."""

from masking.prices import Pricing
from tests.support.builders import OLD, turn
from tests.support.talks import Talk, write_body
from tests.tools.benchmarks.assumed import TRUE_PRICES
from tests.tools.benchmarks.keep_rereads import Paid, measure, render


def test_a_session_that_asks_again_pays_for_what_is_kept() -> None:
    """It reads one file of twenty a second time at the end, and the next ten turns hold it."""
    paths = [*(f"{n}.py" for n in range(20)), "0.py", *(f"{n}.py" for n in range(20, 30))]
    messages = [
        message
        for number, path in enumerate(paths)
        for message in turn(f"call_{number}", f"{path}: {OLD * 9}", path=path)
    ]
    bodies = [write_body(messages[:end]) for end in range(2, len(messages) + 1, 2)]
    pairs = measure(Talk(tuple(bodies)))
    assert len(TRUE_PRICES) == len(pairs)
    without, keeping = pairs[0]  # no token is cached, so that what is kept is all that differs
    assert without.bill < keeping.bill < 1.0
    assert (1, 1) == (without.rereads, keeping.rereads)


def test_a_row_has_means_the_worst_and_what_keeping_adds_at_most() -> None:
    pairs = [(Paid(0.5, 3), Paid(0.6, 1)), (Paid(0.7, 2), Paid(0.7, 2))]
    assert "| 0.1, 1.25 | 0.600 | 0.650 | 0.700 | 0.700 | +0.100 | 5 | 3 |" == render(
        Pricing(0.1, 1.25), pairs
    )

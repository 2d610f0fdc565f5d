"""SWE-agent's rule, beside ours."""

import pytest

from addon.replay.reread import Rereads
from masking.rewrite import read_request
from masking.tokens import TokenCounter
from tests.support.builders import parts, result
from tests.support.marks import as_one_test
from tests.support.talks import grow, work, write_body
from tests.tools.benchmarks.assumed import TRUE_PRICES
from tests.tools.benchmarks.billing import NOTHING, Sums, bill_requests
from tests.tools.benchmarks.peers_rule import (
    WINDOWS,
    count_omitted,
    find_dearer,
    find_window,
    mask_as_peer,
    measure,
)

COUNTER = TokenCounter()


@as_one_test
@pytest.mark.parametrize(
    ("results", "omitted"),
    [(0, 0), (8, 0), (9, 4), (18, 4), (19, 14), (29, 24)],
)
def test_it_keeps_the_last_five_and_moves_in_steps_of_ten(results: int, omitted: int) -> None:
    assert omitted == count_omitted(results)


def test_it_masks_from_the_request_on_at_which_a_step_is_full() -> None:
    found = [*bill_requests(grow(work(12)), mask_as_peer, TRUE_PRICES[0], COUNTER)]
    entries = [each.entry for each in found]
    assert [9] == [number for number, entry in enumerate(entries) if entry.move]
    saved = [entry.bill.tokens.saved > 0 for entry in entries]
    assert [False] * 9 + [True] * 4 == saved


def test_one_line_takes_the_place_of_all_texts_of_a_result() -> None:
    messages = work(9)
    messages[2] = result("call_0", parts("one\ntwo", "three"))
    masked = mask_as_peer(read_request(write_body(messages)), TRUE_PRICES[0]).decisions[0]
    texts = [each.placeholder for each in masked.replacements]
    assert ["Old environment output: (3 lines omitted)", ""] == texts


def quoting(quoted: int, paid: float) -> Sums:
    return Sums(paid, 100.0, Rereads(calls=100, quoted=quoted))


def test_ours_is_compared_by_the_smallest_window_with_no_more_quotes() -> None:
    found = {"peer": quoting(3, 50.0)}
    found |= {f"window {turns}": quoting(10 - turns, 40.0 + turns) for turns in WINDOWS}
    assert "window 7" == find_window(found)
    assert [] == find_dearer([found] * 6)
    dearer = found | {"window 7": quoting(3, 51.0)}
    assert ["1, 1"] == find_dearer([dearer, *[found] * 5])
    blind = {name: quoting(4, 1.0) for name in found} | {"peer": quoting(3, 50.0)}
    assert find_window(blind) is None
    assert ["1, 1"] == find_dearer([blind, *[found] * 5])


def test_every_rule_is_measured_at_every_price() -> None:
    found = measure(grow(work(14)), (8,))
    assert 6 == len(found)
    for at_price in found:
        assert {"peer", "ours, as shipped", "window 8"} <= at_price.keys()
        assert 1 == len({one.whole for one in at_price.values()})
    assert 1.0 == NOTHING.bill
    assert [14] * 6 == [one["peer"].rereads.calls for one in found]

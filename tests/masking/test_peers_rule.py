"""SWE-agent's rule, as a rule of a fast replay."""

import pytest

from addon.replay.replay import ReplaySettings
from addon.replay.reread import NEVER, Rereads
from addon.replay.session_index import index_session
from addon.replay.tune.fast_replay import FastReplay
from masking.rewrite import Strategies
from masking.tokens import TokenCounter
from masking.window import MaskPolicy
from tests.support.builders import parts, result
from tests.support.sessions import Talk, grow, work, write_body
from tests.tools.benchmarks.peers_rule import (
    WINDOWS,
    Sum,
    count_omitted,
    find_dearer,
    find_window,
    mask_as_peer,
    measure,
)

COUNTER = TokenCounter()


@pytest.mark.parametrize(
    ("results", "omitted"),
    [(0, 0), (8, 0), (9, 4), (18, 4), (19, 14), (29, 24)],
)
def test_it_keeps_the_last_five_and_moves_in_steps_of_ten(results: int, omitted: int) -> None:
    assert omitted == count_omitted(results)


def test_it_masks_from_the_request_on_at_which_a_step_is_full() -> None:
    index = index_session(
        grow(work(12)), ReplaySettings(strategies=Strategies(schema1=MaskPolicy())), COUNTER
    )
    masked = mask_as_peer(index.segments[0], COUNTER)
    assert [9] * 4 + [NEVER] * 8 == [*masked.first]
    requests = FastReplay(index, COUNTER).replay_masks(lambda *_: masked).requests
    assert [0] * 9 + [4] * 4 == [request.masked for request in requests]
    assert requests[9].moved


def test_one_line_takes_the_place_of_all_texts_of_a_result() -> None:
    messages = work(1)
    messages[-1] = result("call_0", parts("one\ntwo", "three"))
    index = index_session(
        Talk((write_body(messages),)),
        ReplaySettings(strategies=Strategies(schema1=MaskPolicy())),
        COUNTER,
    )
    masked = mask_as_peer(index.segments[0], COUNTER)
    line = COUNTER.count("Old environment output: (3 lines omitted)")
    before = index.segments[0].pieces[-1].tokens
    texts = sum(map(COUNTER.count, ("one\ntwo", "three")))
    assert before - texts + line == masked.pieces[-1].tokens


def quoting(quoted: int, paid: float) -> Sum:
    return Sum(paid, 100.0, Rereads(calls=100, quoted=quoted))


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
    found = measure(grow(work(14)))
    assert 6 == len(found)
    for at_price in found:
        assert {"peer", "ours, as shipped", "window 8"} <= at_price.keys()
        assert 1 == len({one.whole for one in at_price.values()})
    assert 1.0 == Sum().bill
    assert [14] * 6 == [one["peer"].rereads.calls for one in found]

"""What agents lose, counted beside the bills of a replay."""

import json
from pathlib import Path

import pytest

from addon.replay.compare import Comparison, compare
from addon.replay.replay import ReplaySettings
from addon.replay.reread import Rereads
from addon.replay.session_index import index_session
from addon.replay.totals import add_all, summarize
from addon.replay.tune.fast_replay import FastReplay
from masking.model import ChatMessage
from masking.prices import PriceSettings
from masking.reduction import ReductionOptions
from masking.tokens import TokenCounter
from masking.window import MaskPolicy
from tests.builders import MASK_ALL, OLD, assistant, policy, result, turn
from tests.replays import add_up
from tests.sessions import CHATS, Talk, grow, read_chat, write_body

COUNTER = TokenCounter()
SHIPPED = MaskPolicy(True, 8, skip_if_not_shorter=True, mask_text_parts=True)
FIRST_READ = "the line that is replaced in the end\n"


def edit(line: str) -> ChatMessage:
    arguments = json.dumps({"path": "src/first_read.py", "old": line, "new": "pass"})
    return assistant(
        {"id": "edit", "type": "function", "function": {"name": "edit", "arguments": arguments}}
    )


def edits_what_it_read(turns: int) -> list[ChatMessage]:
    """A file is read, other things are done in so many turns, and a line of it is replaced."""
    others = [message for n in range(turns) for message in turn(f"c{n}", f"{n} {OLD * 20}")]
    opening: ChatMessage = {"role": "user", "content": "Fix it."}
    return [opening, *turn("read", FIRST_READ + OLD * 20), *others, edit(FIRST_READ)]


@pytest.mark.parametrize(
    ("window", "quotes"),
    [
        pytest.param(2, (1, 1), id="out of the window"),
        pytest.param(30, (0, 0), id="in the window"),
    ],
)
def test_a_quote_is_counted_under_both_policies(window: int, quotes: tuple[int, int]) -> None:
    settings = ReplaySettings(
        policy=policy(MASK_ALL, window_turns=window), price_settings=PriceSettings((0.5, 1.0))
    )
    [found] = compare(grow([*edits_what_it_read(20), result("edit", "ok")]), settings, COUNTER)
    assert quotes == (found.sliding_rereads.quoted, found.chosen_rereads.quoted)
    total = summarize(add_all(map(add_up, [found, found])))
    assert (2 * quotes[0], 2 * quotes[1]) == (total.quotes_sliding, total.quotes)
    assert 2 * found.chosen_rereads.calls == total.calls
    assert 2 * found.chosen_rereads.either == total.rereads
    assert 2 * found.sliding_rereads.either == total.rereads_sliding


@pytest.mark.parametrize("prices", [(0.1, 1.25), (1.0, 1.0)], ids=["priced", "sliding"])
@pytest.mark.parametrize("recording", CHATS, ids=lambda path: path.stem)
def test_a_replay_counts_what_a_trial_counts(recording: Path, prices: tuple[float, float]) -> None:
    settings = ReplaySettings(policy=SHIPPED, price_settings=PriceSettings(prices))
    session = read_chat(recording)
    billed = FastReplay(index_session(session, settings, COUNTER), COUNTER).replay(settings)
    assert billed.rereads == sum_of(compare(session, settings, COUNTER))


def sum_of(found: list[Comparison]) -> Rereads:
    return sum((each.chosen_rereads for each in found), start=Rereads())


def test_what_another_strategy_hides_counts_as_well() -> None:
    session = grow([*edits_what_it_read(20), result("edit", "ok")])
    off = policy(MASK_ALL, enabled=False)
    small = ReductionOptions(enabled=True, max_input_chars=20_000)
    reduced = ReplaySettings(policy=off, reduction=small)
    assert Rereads(calls=22) == sum_of(compare(session, ReplaySettings(policy=off), COUNTER))
    assert 1 == sum_of(compare(session, reduced, COUNTER)).quoted


def test_what_is_shown_again_does_not_count() -> None:
    """After a history was taken back the same result is in the window again."""
    settings = ReplaySettings(
        policy=policy(MASK_ALL, window_turns=2), price_settings=PriceSettings((1.0, 1.0))
    )
    messages = edits_what_it_read(20)
    long, short = messages[:-1], [*messages[:3], messages[-1]]
    bodies = (write_body(long), write_body(short[:-1]), write_body([*short, result("edit", "ok")]))
    assert 0 == sum_of(compare(Talk(bodies), settings, COUNTER)).quoted


def test_several_conversations_are_counted_apart() -> None:
    other = [{**message} for message in edits_what_it_read(3)]
    other[0]["content"] = "Do something else."
    one, two = (
        grow([*messages, result("edit", "ok")]).bodies
        for messages in (edits_what_it_read(20), other)
    )
    settings = ReplaySettings(
        policy=policy(MASK_ALL, window_turns=4), price_settings=PriceSettings((1.0, 1.0))
    )
    found = compare(Talk((*one, *two)), settings, COUNTER)
    assert [1, 0] == [each.chosen_rereads.quoted for each in found]

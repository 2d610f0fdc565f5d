"""Chapter 3: a result belongs to the nearest earlier turn that declared its id.

Not to the id as such: agents use ids again, and some providers number every turn from `call_0`.
"""

from dataclasses import replace

import pytest

from masking.rewrite import read_request
from tests.spec.talk import IN_FORMATS_WITH_IDS, OUTPUT, SHORT, mask, reasons
from tests.support.builders import assistant, call, result
from tests.support.builders import read as read_chat
from tests.support.marks import as_one_test
from tests.support.wire_conversations import (
    IN_EVERY_FORMAT,
    Ask,
    Give,
    Model,
    Told,
    Tools,
    User,
    Writer,
    turn,
)

READ, RUN = Ask("read_0", "read"), Ask("run_0", "run")
OF_READ, OF_RUN = Give("read_0", OUTPUT, "read"), Give("run_0", OUTPUT, "run")


def find_calls(told: Told) -> list[tuple[int | None, str | None]]:
    """Return the turn and the tool that each result belongs to."""
    conversation = read_request(told.body, told.wire, told.writer.path)
    return [(result.turn, result.tool) for result in conversation.results]


@as_one_test
@IN_EVERY_FORMAT
def test_a_result_belongs_to_the_turn_that_declared_its_id(writer: Writer) -> None:
    told = writer.tell(Model((READ,)), Tools((OF_READ,)), Model((RUN,)), Tools((OF_RUN,)))
    assert [(0, "read"), (1, "run")] == find_calls(told)


@as_one_test
@IN_EVERY_FORMAT
def test_parallel_results_may_arrive_in_any_order(writer: Writer) -> None:
    told = writer.tell(Model((READ, RUN)), Tools((OF_RUN, OF_READ)))
    assert [(0, "run"), (0, "read")] == find_calls(told)


@as_one_test
@IN_EVERY_FORMAT
def test_of_turns_with_the_same_id_it_is_the_nearest_earlier_one(writer: Writer) -> None:
    told = writer.tell(
        *(Model((Ask("call_0", "read"),)), Tools((Give("call_0", OUTPUT, "read"),))),
        *(Model((Ask("call_0", "run"),)), Tools((Give("call_0", OUTPUT, "run"),))),
    )
    assert [(0, "read"), (1, "run")] == find_calls(told)


@as_one_test
@IN_EVERY_FORMAT
def test_where_every_turn_is_numbered_from_call_0_only_old_results_are_masked(
    writer: Writer,
) -> None:
    told = writer.tell(User(), *turn("call_0", OUTPUT) * 4)
    assert ["masked", "masked", "masked", "in_window"] == reasons(mask(told, SHORT))


@IN_FORMATS_WITH_IDS
def test_a_late_result_still_belongs_to_its_earlier_turn(writer: Writer) -> None:
    late = writer.tell(Model((READ,)), User(), Model((RUN,)), Tools((OF_RUN, OF_READ)))
    assert [(1, "run"), (0, "read")] == find_calls(late)
    told = late.then(Model(text="So."))
    assert ["in_window", "masked"] == reasons(mask(told, SHORT))


@as_one_test
@IN_EVERY_FORMAT
def test_where_a_turn_declares_an_id_twice_the_nth_result_belongs_to_the_nth_call(
    writer: Writer,
) -> None:
    """Some models number all calls of a turn alike; a result must not pass for another tool's."""
    asked = Model((Ask("same", "read"), Ask("same", "run")))
    given = Tools((Give("same", OUTPUT, "read"), Give("same", OUTPUT, "run")))
    told = writer.tell(asked, given, *turn("b"))
    assert [(0, "read"), (0, "run"), (1, "shell")] == find_calls(told)
    kept = replace(SHORT, keep_tools=("read",))
    assert ["kept_tool", "masked", "in_window"] == reasons(mask(told, kept))


@IN_FORMATS_WITH_IDS
def test_further_results_of_an_id_belong_to_its_last_call(writer: Writer) -> None:
    asked = Model((Ask("same", "read"), Ask("same", "run")))
    (*given,) = [Tools((Give("same", OUTPUT, "run"),))] * 4
    assert [(0, "read"), (0, "run"), (0, "run"), (0, "run")] == find_calls(
        writer.tell(asked, *given)
    )
    assert [(0, "read"), (0, "run"), (0, "run"), (0, "run")] == find_calls(
        writer.tell(*given[:3], asked, given[3])
    )


@IN_FORMATS_WITH_IDS
def test_a_result_before_its_call_belongs_to_the_first_later_turn(writer: Writer) -> None:
    told = writer.tell(User(), Tools((OF_READ,)), Model((READ,)), Model((Ask("read_0", "run"),)))
    assert [(0, "read")] == find_calls(told)


@IN_FORMATS_WITH_IDS
def test_a_result_whose_id_no_call_has_is_an_orphan_and_stays(writer: Writer) -> None:
    told = writer.tell(User(), Tools((Give("nowhere", OUTPUT),)), *turn("a"), *turn("b"))
    assert ["orphan", "masked", "in_window"] == reasons(mask(told, SHORT))


@pytest.mark.parametrize("call_id", ["", None, 7, ["a"]])
def test_a_result_with_a_bad_or_an_empty_id_stays(call_id: object) -> None:
    messages = [assistant(call("a")), result(call_id, OUTPUT), assistant(call("b"))]
    (found,) = read_chat(messages).results
    assert (None, None) == (found.call_id, found.turn)

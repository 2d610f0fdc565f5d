"""A few plays of the fuzzer, and that its oracle sees what is wrong; the rest is a command."""

import json
from dataclasses import replace
from typing import Any

import pytest

from masking.rewrite import Rewrite, change_request
from masking.strategies.order import Strategies
from tests.builders import MASK_ALL, OLD, policy
from tests.fuzz.json_nodes import Difference, find_changes, parse, plain
from tests.fuzz.oracle import find_fault
from tests.fuzz.play import compare, find, play
from tests.wire_conversations import WRITERS, User, turn, turns

STRATEGIES = Strategies(schema1=policy(MASK_ALL, window_turns=2))


def test_plays_have_no_findings() -> None:
    assert [] == [*find(14, range(12))]


def test_plays_mask_and_fail_and_are_the_same_again() -> None:
    sent = [(each, outcome) for number in range(4) for each, outcome, _ in play(14, number)]
    again = [each for number in range(4) for each, _, _ in play(14, number)]
    assert [each for each, _ in sent] == again
    assert any(isinstance(each, Rewrite) and each.masked for _, each in sent)
    assert any(isinstance(each, str) for _, each in sent)


def rewritten() -> tuple[bytes, Rewrite]:
    told = WRITERS[0].tell(User("Mend it."), *turn("old", OLD), *turns(3))
    return told.body, change_request(told.body, told.read(), STRATEGIES)


def test_the_oracle_finds_nothing_in_what_is_right() -> None:
    body, right = rewritten()
    assert right.body != body
    assert find_fault("chat", body, right, STRATEGIES) is None


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        pytest.param('"gpt-4o"', '"gpt-4x"', "changed no content of a result", id="another text"),
        pytest.param('"later_2"', '"later_x"', "changed no content of a result", id="an id"),
        pytest.param(' ,"messages"', ',"messages"', "changed: bytes between values", id="a blank"),
        pytest.param("]}", "] }", "changed: bytes at the end", id="a blank at the end"),
        pytest.param('"ok"', '"no"', "masked what is in the window", id="a result of the window"),
        pytest.param('"role" : "user"', '"role" : 1', "changed no content", id="another kind"),
    ],
)
def test_the_oracle_finds_what_is_wrong(old: str, new: str, says: str) -> None:
    body, right = rewritten()
    at = right.body.decode().rindex(old)
    text = right.body.decode()
    wrong = replace(right, body=(text[:at] + new + text[at + len(old) :]).encode())
    assert says in str(find_fault("chat", body, wrong, STRATEGIES))


def test_the_oracle_finds_an_error_that_was_masked() -> None:
    told = WRITERS[0].tell(User("Mend it."), *turn("old", OLD), *turns(3))
    items: list[Any] = [*told.items]
    items[2] = {**items[2], "is_error": True}
    told = told._replace(items=items)
    masks_errors = Strategies(schema1=policy(STRATEGIES.schema1, keep_errors=False))
    wrong = change_request(told.body, told.read(), masks_errors)
    keeps = Strategies(schema1=policy(STRATEGIES.schema1, keep_errors=True))
    assert "masked an error" in str(find_fault("chat", told.body, wrong, keeps))


def test_outcomes_that_are_equal_in_python_alone_differ() -> None:
    _, one = rewritten()
    document = json.loads(json.dumps(one.conversation.document))
    whole, broken = ({**document, "n": n} for n in (1, True))
    first, second = (
        replace(one, conversation=replace(one.conversation, document=each))
        for each in (whole, broken)
    )
    assert first == second
    assert compare(first, second) == "cold and warm differ in document"
    assert compare("not JSON in 'body'", first) == "cold: not JSON in 'body'; warm: rewritten"


def test_of_a_key_that_occurs_twice_the_last_one_holds() -> None:
    before, after = '{"a": 1, "a": "x"}', '{"a": 2, "a": "x"}'
    assert plain(parse(before)) == {"a": "x"}
    with pytest.raises(Difference, match="a later key hides"):
        assert [] == [*find_changes(before, after, parse(before), parse(after))]

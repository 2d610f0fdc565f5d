"""The moves of a boundary on the page: what each cost, and what it saved since."""

from collections.abc import Mapping

import pytest

from addon.page.board import Board
from addon.page.conversation import accumulate_savings, find_moves
from addon.page.describe import describe_conversation
from masking.accounting import Move
from tests.support.made_up_records import bill, record
from tests.support.marks import as_one_test
from tests.support.page_parts import find_table, list_texts


def request(
    spared: int, saved: float, price: float | None = None, **fields: object
) -> dict[str, object]:
    """Return the fields of a request that saved so much; it moves the boundary if it has a price.

    A dollar is an input token.
    """
    return {
        **bill(saved + 2.0, 2.0),
        "request_tokens_before": 100 + spared,
        "request_tokens_after": 100,
        "boundary_moved": price is not None,
        "move_price_tokens": price,
        "masked": spared // 10,
        **fields,
    }


UNPRICED_ALL = {"cost_dollars_before": None, "cost_dollars_after": None}


def tell(*requests: object, kept: int = 99) -> list[Move]:
    board = Board(max_requests=kept)
    for fields in requests:
        if isinstance(fields, Mapping):
            board.add(record(**{**fields, "conversation_id": "c"}))
    found = board.find("c")
    return [] if found is None else find_moves(found)


@as_one_test
@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        pytest.param([], [], id="no request"),
        pytest.param([request(0, 0.0), request(0, 0.0)], [], id="no move"),
        pytest.param(
            [request(0, 0.0), request(32, -4.0, 5.0), request(32, 2.0), request(32, 2.0)],
            [Move(1, 3, 32, 5.0, 5.0, 3)],
            id="one move",
        ),
        pytest.param(
            [request(0, 0.0), request(32, -4.0, 5.0), request(32, 2.0)],
            [Move(1, 3, 32, 5.0, 3.0, None)],
            id="not paid off yet",
        ),
        pytest.param(
            [request(32, 3.0, 0.0), request(64, 2.0, 4.0), request(64, 6.0)],
            [Move(0, 3, 32, 0.0, 9.0, 0), Move(1, 3, 32, 4.0, 6.0, 2)],
            id="a second move shares what is saved from there on",
        ),
        pytest.param(
            [request(32, 3.0), request(64, 2.0, 4.0), request(64, 6.0)],
            [Move(1, 3, 32, 4.0, 6.0, 2)],
            id="an earlier move that is forgotten has its share",
        ),
        pytest.param(
            [request(0, 0.0), request(-5, -1.0, 0.0)],
            [Move(1, -1, -5, 0.0, -1.0, None)],
            id="placeholders that are longer",
        ),
        pytest.param(
            [request(0, 0.0), request(32, 1.0, 0.0, request_tokens_before=None)],
            [Move(1, 3, 0, 0.0, 1.0, 1)],
            id="tokens that were not counted",
        ),
    ],
)
def test_each_move_has_its_price_and_its_share_of_what_was_saved(
    requests: list[object], expected: list[Move]
) -> None:
    assert expected == tell(*requests)


def test_a_price_in_dollars_is_that_of_the_request() -> None:
    half = {"cost_dollars_before": 0.75, "cost_dollars_after": 0.5}
    (move,) = tell(request(32, 1.0, 4.0, **half))
    (in_tokens,) = tell(request(32, 1.0, 4.0, **UNPRICED_ALL))
    assert (1.0, 4.0) == (move.price, in_tokens.price)
    _, unpriced = tell(request(32, 1.0, 4.0), request(64, 1.0, 4.0, **UNPRICED_ALL))
    assert 0.0 == unpriced.price


def test_no_move_has_what_was_left_out_at_arrival() -> None:
    """Each request saves 5 more at arrival, and 50 tokens more are not sent."""

    def shorten(spared: int, saved: float, price: float | None = None) -> dict[str, object]:
        left_out = {"shortened": 1, "left_out_tokens": 50, "arrival_saved_tokens": 5.0}
        fields = request(spared + 50, saved + 5.0, price, **left_out, conversation_id="c")
        return {**fields, "arrival_saved_dollars": 5.0, "masked": spared // 10}

    board = Board()
    for fields in (shorten(0, 0.0), shorten(32, -4.0, 5.0), shorten(32, 2.0), shorten(32, 2.0)):
        board.add(record(**fields))
    found = board.find("c")
    assert found is not None
    assert [Move(1, 3, 32, 5.0, 5.0, 3)] == find_moves(found)
    assert [5.0, 6.0, 13.0, 20.0] == accumulate_savings(found)
    assert any(
        "at arrival $20.00" in text for text in list_texts(describe_conversation(found)["parts"])
    )


@pytest.mark.parametrize(
    ("unit", "price", "saved", "net"),
    [
        pytest.param(
            {}, ("$5.00", "$5.00"), ("$3.00", "$3.00"), ("-$2.00", "-$2.00"), id="dollars"
        ),
        pytest.param(UNPRICED_ALL, ("5", "5"), ("3", "3"), ("-2", "-2"), id="tokens"),
    ],
)
def test_a_table_says_what_each_move_came_to(
    unit: Mapping[str, object],
    price: tuple[str, ...],
    saved: tuple[str, ...],
    net: tuple[str, ...],
) -> None:
    board = Board()
    for fields in (request(0, 0.0), request(32, -4.0, 5.0), request(32, 2.0)):
        board.add(record(**{**fields, **unit, "conversation_id": "c"}))
    found = board.find("c")
    assert found is not None
    parts = describe_conversation(found)["parts"]
    assert [
        ["2", "3", "32", price[0], "not yet", saved[0], net[0]],
        ["All", "3", "32", price[1], "", saved[1], net[1]],
    ] == find_table(parts, "Moves of the boundary")

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masking.accounting.bill import (
    NO_BILL,
    NO_KINDS,
    NO_MARGIN,
    Bill,
    Margin,
    Money,
    TokenKinds,
)

amounts = st.integers(0, 10**6).map(float)
margins = st.builds(Margin, amounts, amounts)
money = st.builds(
    Money,
    st.integers(0, 9),
    amounts,
    amounts,
    margins,
    st.integers(0, 9),
    amounts,
    margins,
)
counts = st.dictionaries(st.sampled_from(["OpenAI", "Anthropic", "flex"]), st.integers(1, 9))
kinds = st.builds(TokenKinds, amounts, amounts, amounts)
bills = st.builds(
    Bill,
    tokens=money,
    dollars=money,
    unpriced=money,
    prompt_before=kinds,
    prompt_after=kinds,
    dollars_before=kinds,
    dollars_after=kinds,
    answers=st.integers(0, 9),
    answer_dollars=amounts,
    borrowed=counts,
    standard=counts,
    on_plan=st.integers(0, 9),
    unknown=st.integers(0, 9),
)


@given(bills, bills, bills)
def test_bills_add_up_in_any_order(one: Bill, two: Bill, three: Bill) -> None:
    assert one + NO_BILL == one == NO_BILL + one
    assert one + two == two + one
    assert (one + two) + three == one + (two + three)


def test_every_figure_of_a_bill_is_added() -> None:
    some = Money(1, 9.0, 5.0, Margin(0.5, 0.25), 2, 3.0, Margin(0.125))
    before, after = TokenKinds(1.0, 6.0, 2.0), TokenKinds(1.0, 1.0, 3.0)
    bill = Bill(
        tokens=some, dollars=some, unpriced=some, prompt_before=before, prompt_after=after,
        dollars_before=before, dollars_after=after, answers=1,
        answer_dollars=0.5, borrowed={"OpenAI": 1}, standard={"flex": 1}, on_plan=1, unknown=1,
    )  # fmt: skip
    twice = Money(2, 18.0, 10.0, Margin(1.0, 0.5), 4, 6.0, Margin(0.25))
    assert bill + bill == Bill(
        tokens=twice, dollars=twice, unpriced=twice,
        prompt_before=TokenKinds(2.0, 12.0, 4.0), prompt_after=TokenKinds(2.0, 2.0, 6.0),
        dollars_before=TokenKinds(2.0, 12.0, 4.0), dollars_after=TokenKinds(2.0, 2.0, 6.0),
        answers=2, answer_dollars=1.0, borrowed={"OpenAI": 2}, standard={"flex": 2}, on_plan=2,
        unknown=2,
    )  # fmt: skip


TOKENS, DOLLARS = Money(3, 9.0, 5.0), Money(3, 0.9, 0.5)


@pytest.mark.parametrize(
    ("bill", "shown", "of_all"),
    [
        pytest.param(Bill(tokens=TOKENS, dollars=DOLLARS), DOLLARS, DOLLARS, id="all priced"),
        pytest.param(Bill(tokens=TOKENS, unpriced=TOKENS), TOKENS, TOKENS, id="no price"),
        pytest.param(
            Bill(tokens=TOKENS, dollars=DOLLARS, unpriced=Money(1)), DOLLARS, TOKENS, id="some"
        ),
    ],
)
def test_dollars_are_shown_if_any_price_is_known_and_stand_for_all_if_every_one_is(
    bill: Bill, shown: Money, of_all: Money
) -> None:
    assert (shown, of_all) == (bill.shown, bill.of_all)


def test_both_parts_of_a_saving_come_to_all_of_it() -> None:
    both = Money(1, 9.0, 5.0, Margin(0.8), at_arrival=3.0, arrival_margin=Margin(0.5))
    assert (1.0, 0.3) == (both.by_masking, round(both.by_masking_error, 9))
    as_wide = Money(1, 9.0, 5.0, Margin(0.5), at_arrival=3.0, arrival_margin=Margin(0.5))
    assert 0.03 == as_wide.by_masking_error
    alone = Money(1, 9.0, 5.0, Margin(0.8))
    assert (4.0, 0.8) == (alone.by_masking, alone.by_masking_error)


def test_where_nobody_knows_what_was_saved_it_stands_as_if_nothing_was() -> None:
    before, after = TokenKinds(1.0, 6.0, 2.0), TokenKinds(1.0, 1.0, 3.0)
    bill = Bill(tokens=TOKENS, dollars=DOLLARS, prompt_before=before, prompt_after=after)
    unsaved = bill.without_saving()
    assert (Money(3, 9.0, 9.0), Money(3, 0.9, 0.9)) == (unsaved.tokens, unsaved.dollars)
    assert (before, NO_MARGIN) == (unsaved.prompt_after, unsaved.dollars.margin)
    assert [True, False, True, True] == [
        each.is_saving_known for each in (bill, unsaved, bill + unsaved, NO_BILL)
    ]


def test_a_cost_is_split_by_what_a_token_of_each_kind_costs() -> None:
    tokens = TokenKinds(100.0, 1_000.0, 400.0)
    assert TokenKinds(1.0, 1.0, 5.0) == tokens.split(7.0, 0.1, 1.25)
    assert (1_500.0, NO_KINDS) == (tokens.total, NO_KINDS.split(0.0, 0.1, 1.25))


def test_calls_that_asked_again_stand_where_the_request_does() -> None:
    bill = Bill(tokens=TOKENS, dollars=DOLLARS).ask_again(2)
    assert (2, 2, 0) == tuple(
        each.asked_again for each in (bill.tokens, bill.dollars, bill.unpriced)
    )
    assert bill == bill.ask_again(0)

import pytest

from masking.accounting.cost import WorstBill, worst_bill


@pytest.mark.parametrize(
    ("costs", "whole", "expected"),
    [
        pytest.param([10, 20], [10, 20], WorstBill(1.0, 0), id="nothing is masked"),
        pytest.param([10, 30, 10], [10, 10, 30], WorstBill(2.0, 1), id="a move that pays later"),
        pytest.param([10, 5, 5], [10, 10, 20], WorstBill(1.0, 0), id="it only ever saves"),
        pytest.param([0, 12], [0, 10], WorstBill(1.2, 1), id="the first request costs nothing"),
        pytest.param([4, 4], [2, 2], WorstBill(2.0, 0), id="the first of two that are as bad"),
        pytest.param([0, 0], [0, 0], None, id="no request costs anything"),
        pytest.param([], [], None, id="no request at all"),
    ],
)
def test_the_worst_bill_is_the_highest_so_far_beside_that_of_everything(
    costs: list[float], whole: list[float], expected: WorstBill | None
) -> None:
    assert expected == worst_bill(costs, whole)

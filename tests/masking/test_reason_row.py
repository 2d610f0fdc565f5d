import pytest

from masking.accounting.prompt import render_reasons
from masking.model import REASONS, Reason


@pytest.mark.parametrize(
    ("reasons", "row"),
    [
        pytest.param([], "", id="no result"),
        pytest.param(["masked"], "m", id="one result"),
        pytest.param(["masked"] * 12 + ["error", "in_window", "in_window"], "12me2w", id="runs"),
        pytest.param(["masked", "error", "masked"], "mem", id="a reason that comes back"),
    ],
)
def test_a_row_has_a_letter_for_each_result(reasons: list[Reason], row: str) -> None:
    assert row == render_reasons(reasons)


def test_no_two_reasons_share_a_letter() -> None:
    assert len(REASONS) == len({info.letter for info in REASONS.values()})

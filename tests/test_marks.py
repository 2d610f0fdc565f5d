"""Many cases as one test."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.marks import as_one_test, thorough

two_axes = pytest.mark.parametrize(
    ("divisor", "expected"), [pytest.param(0, 0, id="by nothing"), (1, 6), (2, 4)]
)


def test_each_case_that_fails_is_named_and_all_are_tried() -> None:
    tried = []

    @as_one_test
    @two_axes
    @pytest.mark.parametrize("number", [6, 8], ids=["six", "eight"])
    def divide(number: int, divisor: int, expected: int) -> None:
        tried.append((number, divisor))
        if number == 8 and divisor == 1:
            pytest.fail("seen")
        assert expected == number // divisor

    with pytest.raises(BaseExceptionGroup, match="4 of 6 cases failed") as failed:
        divide()
    assert [(number, divisor) for divisor in (0, 1, 2) for number in (6, 8)] == sorted(
        tried, key=lambda each: each[1]
    )
    notes = [(type(each).__name__, *each.__notes__) for each in failed.value.exceptions]
    assert [
        ("AssertionError", "in the case 2-4-six"),
        ("Failed", "in the case 1-6-eight"),
        ("ZeroDivisionError", "in the case by nothing-eight"),
        ("ZeroDivisionError", "in the case by nothing-six"),
    ] == sorted(notes)


TWO = pytest.mark.parametrize("number", [1, 2])


def test_cases_may_share_no_fixture() -> None:
    def write(number: int, capsys: pytest.CaptureFixture[str]) -> None:
        capsys.disabled()

    with pytest.raises(TypeError, match="write wants a fixture"):
        as_one_test(TWO(write))


@as_one_test
@TWO
def test_each_case_has_a_folder_of_its_own(number: int, tmp_path: Path) -> None:
    assert [] == [*tmp_path.iterdir()]
    (tmp_path / f"{number}").touch()


def test_no_case_may_have_marks() -> None:
    def pass_all(number: int) -> None:
        assert number

    cases: list[Callable[..., None] | object] = [1, thorough(2)]
    with pytest.raises(TypeError, match="has marks"):
        as_one_test(pytest.mark.parametrize("number", cases)(pass_all))

from cells.values import (
    checked,
    compare,
    meets,
    read_criterion,
    read_number,
    to_number,
    to_text,
    to_truth,
)
from tests.helpers import NUM, VALUE, same


def test_texts_that_read_as_numbers():
    cases = {"12": 12, " 1.5 ": 1.5, "-3": -3, ".5": 0.5, "1e3": 1000, "1,234.5": 1234.5}
    for text, number in cases.items():
        same(read_number(text), number)


def test_texts_that_read_as_percents():
    cases = {"50%": 0.5, "12.5 %": 0.125, "-3%": -0.03, "100%": 1}
    for text, number in cases.items():
        same(read_number(text), number)


def test_texts_that_are_no_numbers():
    for text in ("", "abc", "1,23", "1.2.3", "--1", "12 %%", "1e", "0x10", "inf", "nan"):
        same(read_number(text), None)


def test_everything_becomes_a_number_or_an_error_value():
    for value, number in ((None, 0), (True, 1), (False, 0), ("7", 7), ("x", VALUE), (NUM, NUM)):
        same(to_number(value), number)


def test_everything_becomes_a_text():
    cases = ((None, ""), (True, "TRUE"), (2.0, "2"), (0.1 + 0.2, "0.3"), (-7, "-7"), ("x", "x"))
    for value, text in cases:
        same(to_text(value), text)


def test_everything_becomes_a_truth_value_or_an_error_value():
    cases = ((None, False), (0, False), (2, True), ("true", True), (" FALSE ", False), ("x", VALUE))
    for value, truth in cases:
        same(to_truth(value), truth)


def test_numbers_out_of_range_are_error_values():
    for number in (float("inf"), float("nan"), 1e301, complex(1, 1)):
        same(checked(number), NUM)


def test_whole_results_are_whole_numbers():
    same(checked(4.0), 4)
    same(checked(4.5), 4.5)


def test_numbers_are_compared():
    same([compare(1, 2), compare(2, 2), compare(3, 2)], [-1, 0, 1])


def test_a_hair_makes_no_difference():
    same(compare(0.1 + 0.2, 0.3), 0)


def test_texts_are_compared_without_regard_to_case():
    same(compare("Oak", "oAK"), 0)
    same(compare("ash", "Oak"), -1)


def test_numbers_before_texts_before_truth_values():
    same([compare(9, "1") < 0, compare("x", True) < 0, compare(9, False) < 0], [True] * 3)


def test_an_empty_cell_equals_nothing_of_each_kind():
    same([compare(None, 0), compare(None, ""), compare(False, None), compare(None, None)], [0] * 4)


def found(criterion, *values):
    wanted = read_criterion(criterion)
    return [value for value in values if meets(value, wanted)]


def test_a_criterion_without_an_operator_wants_the_same():
    same(found(3, 1, 3, "3", 3.0), [3, 3.0])
    same(found("3", 1, 3, "x"), [3])
    same(found("paid", "paid", "PAID", "unpaid"), ["paid", "PAID"])


def test_criteria_with_operators():
    same(found(">2", 1, 2, 3), [3])
    same(found(">=2", 1, 2, 3), [2, 3])
    same(found("<2", 1, 2, 3), [1])
    same(found("<=2", 1, 2, 3), [1, 2])


def test_a_criterion_of_what_is_not_wanted():
    same(found("<>2", 1, 2, 3), [1, 3])
    same(found("<>paid", "paid", "open", "late"), ["open", "late"])


def test_a_criterion_of_texts_meets_no_numbers():
    same(found(">a", "b", 7, "A"), ["b"])


def test_wildcards():
    same(found("o*k", "oak", "ok", "oaks"), ["oak", "ok"])
    same(found("o?k", "oak", "ok", "oik"), ["oak", "oik"])
    same(found("o~*k", "oak", "o*k"), ["o*k"])


def test_an_empty_criterion_meets_empty_cells():
    same(found("", None, "", "x", 0), [None, ""])
    same(found("<>", None, "", "x", 0), ["x", 0])


def test_error_values_meet_nothing():
    same(found("<>2", VALUE, 3), [3])

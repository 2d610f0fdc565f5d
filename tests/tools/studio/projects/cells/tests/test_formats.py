from cells.formats import format_number, group, read_section, width_of
from tests.helpers import refused, same


def test_general_is_as_brief_as_can_be():
    for number, text in ((2, "2"), (2.5, "2.5"), (-0.1, "-0.1"), (1e20, "1e+20")):
        same(format_number(number, "General"), text)


def test_places_behind_the_point():
    for pattern, text in (("0", "3"), ("0.0", "3.1"), ("0.00", "3.14"), ("0.0000", "3.1416")):
        same(format_number(3.14159, pattern), text)


def test_leading_noughts():
    same(format_number(7, "000"), "007")
    same(format_number(0.5, "#.00"), ".50")


def test_places_that_may_be_left_out():
    same(format_number(2.5, "0.0##"), "2.5")
    same(format_number(2.0, "0.##"), "2")
    same(format_number(2.125, "0.0##"), "2.125")


def test_thousands():
    cases = {1: "1", 12: "12", 123: "123", 1234: "1,234", 123456: "123,456", 1234567: "1,234,567"}
    for number, text in cases.items():
        same(format_number(number, "#,##0"), text)


def test_thousands_below_nought():
    cases = {-1: "-1", -12: "-12", -1234: "-1,234", -12345: "-12,345", -1234567: "-1,234,567"}
    for number, text in cases.items():
        same(format_number(number, "#,##0"), text)


def test_whole_groups_below_nought():
    cases = {-123: "-123", -123456: "-123,456", -100000: "-100,000"}
    for number, text in cases.items():
        same(format_number(number, "#,##0"), text)


def test_money():
    same(format_number(1234.5, "#,##0.00"), "1,234.50")
    same(format_number(-987.654, "#,##0.00"), "-987.65")
    same(format_number(-400000, "#,##0.00"), "-400,000.00")


def test_percents():
    same(format_number(0.125, "0.0%"), "12.5%")
    same(format_number(0.07, "0 %"), "7 %")


def test_a_section_of_its_own_for_numbers_below_nought():
    same(format_number(-5, "0;(0)"), "(5)")
    same(format_number(5, "0;(0)"), "5")


def test_texts_before_and_behind():
    same(format_number(3, '"about "0" pieces"'), "about 3 pieces")
    same(format_number(3, '+0" %"'), "+3 %")


def test_patterns_that_make_no_sense_are_refused():
    assert "one group of digits" in refused(format_number, 1, "abc")
    assert "one group of digits" in refused(format_number, 1, "0 0")
    assert "more than two sections" in refused(format_number, 1, "0;0;0")
    assert "cannot show 'k'" in refused(format_number, 1, "0k")


def test_a_section_taken_apart():
    section = read_section('"x "#,##0.0# %')
    same(tuple(section), ("x ", 1, 2, 1, True, True, " %"))


def test_groups_of_digits():
    same([group(text) for text in ("", "1", "1234", "1234567")], ["", "1", "1,234", "1,234,567"])


def test_the_width_of_a_column():
    same(width_of([1, -1234.5, 12], "#,##0.00"), 9)
    same(width_of([], "0"), 0)

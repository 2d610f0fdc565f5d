from cells.addresses import Address, Range, column_letters, column_number, is_address
from tests.helpers import refused, same


def test_an_address_is_read():
    address = Address.parse("B12")
    same((address.row, address.column), (11, 1))


def test_small_letters_will_do():
    same(str(Address.parse("ab7")), "AB7")


def test_blanks_around_an_address_do_not_matter():
    same(str(Address.parse("  C3 ")), "C3")


def test_dollar_signs_are_kept():
    for text in ("A1", "$A1", "A$1", "$A$1"):
        same(str(Address.parse(text)), text)


def test_dollar_signs_do_not_make_another_place():
    same(Address.parse("$B$2") == Address.parse("B2"), True)
    same({Address.parse("$B$2"): "found"}[Address.parse("B2")], "found")


def test_what_is_no_address_is_refused():
    for text in ("", "A", "1", "A0", "1A", "AAA1", "A1B", "A-1", "$$A1", "A1:B2"):
        same(refused(Address.parse, text), f"not an address: {text!r}")


def test_a_row_too_far_is_refused():
    same(refused(Address.parse, "A65537"), "no such row: 65537")


def test_columns_count_like_letters():
    for number, letters in ((0, "A"), (25, "Z"), (26, "AA"), (51, "AZ"), (52, "BA"), (701, "ZZ")):
        same(column_letters(number), letters)
        same(column_number(letters), number)


def test_a_column_too_far_is_refused():
    same(refused(column_letters, 702), "no such column: 703")


def test_addresses_are_in_order_row_by_row():
    texts = ("B2", "A1", "A2", "C1")
    same([str(each) for each in sorted(map(Address.parse, texts))], ["A1", "C1", "A2", "B2"])


def test_a_copied_address_moves_along():
    same(str(Address.parse("B2").copied(3, 1)), "C5")


def test_a_copied_address_keeps_what_has_a_dollar_sign():
    same(str(Address.parse("$B2").copied(3, 1)), "$B5")
    same(str(Address.parse("B$2").copied(3, 1)), "C$2")
    same(str(Address.parse("$B$2").copied(3, 1)), "$B$2")


def test_a_moved_address_moves_whatever_has_a_dollar_sign():
    same(str(Address.parse("$B$2").moved(3, 1)), "$C$5")


def test_a_copy_beyond_the_edge_is_refused():
    same(refused(Address.parse("A1").copied, -1, 0), "no such row: 0")


def test_a_range_is_read():
    area = Range.parse("B2:D5")
    same((area.height, area.width, len(area)), (4, 3, 12))


def test_an_address_is_a_range_of_one_cell():
    same([str(each) for each in Range.parse("C4").addresses()], ["C4"])


def test_a_range_is_walked_row_by_row():
    same([str(each) for each in Range.parse("A1:B2").addresses()], ["A1", "B1", "A2", "B2"])


def test_a_range_may_be_written_from_any_corner():
    for text in ("A1:B3", "B3:A1", "A3:B1", "B1:A3"):
        area = Range.parse(text)
        same((text, area.height, area.width), (text, 3, 2))


def test_a_range_from_another_corner_is_written_from_the_first():
    same(str(Range.parse("B3:A1")), "A1:B3")


def test_a_range_keeps_its_dollar_signs_where_the_corners_change():
    same(str(Range.parse("B$3:$A1")), "$A1:B$3")


def test_what_lies_in_a_range():
    area = Range.parse("B2:C3")
    inside = [text for text in ("A2", "B2", "C3", "D3", "B4") if Address.parse(text) in area]
    same(inside, ["B2", "C3"])


def test_ranges_overlap_where_they_share_a_cell():
    area = Range.parse("B2:C3")
    found = [text for text in ("A1:B2", "A1:A9", "C3:D4", "B4:C9") if area.overlaps(Range.parse(text))]
    same(found, ["A1:B2", "C3:D4"])


def test_is_address_answers_for_any_text():
    same([text for text in ("A1", "A0", "sum", "$Z$9", "") if is_address(text)], ["A1", "$Z$9"])

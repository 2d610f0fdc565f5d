from cells.functions import names
from tests.helpers import DIV, NA, NAME, NUM, REF, VALUE, same, sheet_of, worked_out

STOCK = """
item  | wood | pieces | price
shelf | oak  | 4      | 31.5
table | ash  | 1      | 240
stool | oak  | 12     | 18.25
frame | elm  | 7      | 9
"""


def on_stock(formula):
    sheet = sheet_of(STOCK)
    sheet.set("H9", formula)
    return sheet.value("H9")


def test_sums():
    same(on_stock("=SUM(C2:C5)"), 24)
    same(on_stock("=SUM(C2:C5, 1, TRUE)"), 26)
    same(on_stock("=SUM(A2:B5)"), 0)


def test_a_sum_of_many_small_numbers_is_exact():
    same(worked_out("=SUM(0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1)"), 1)


def test_a_range_from_another_corner_is_added_up_like_any_other():
    same(on_stock("=SUM(C5:C2)"), 24)
    same(on_stock("=SUM(D5:C2)"), 322.75)


def test_averages():
    same(on_stock("=AVERAGE(C2:C5)"), 6)
    same(on_stock("=AVERAGE(A2:A5)"), DIV)


def test_least_and_largest():
    same(on_stock("=MIN(D2:D5)"), 9)
    same(on_stock("=MAX(D2:D5, 300)"), 300)
    same(on_stock("=MAX(A2:A5)"), 0)


def test_products():
    same(on_stock("=PRODUCT(C2:C5)"), 336)


def test_counts():
    same(on_stock("=COUNT(A1:D5)"), 8)
    same(on_stock("=COUNTA(A1:D6)"), 20)
    same(on_stock("=COUNTBLANK(A5:D6)"), 4)


def test_sums_of_what_meets_a_criterion():
    same(on_stock('=SUMIF(B2:B5, "oak", C2:C5)'), 16)
    same(on_stock('=SUMIF(C2:C5, ">4")'), 19)
    same(on_stock('=SUMIF(A2:A5, "s*", D2:D5)'), 49.75)


def test_sums_of_what_is_not_wanted():
    same(on_stock('=SUMIF(B2:B5, "<>oak", C2:C5)'), 8)
    same(on_stock('=COUNTIF(C2:C5, "<>4")'), 3)


def test_counts_and_averages_of_what_meets_a_criterion():
    same(on_stock('=COUNTIF(B2:B5, "oak")'), 2)
    same(on_stock('=AVERAGEIF(B2:B5, "oak", D2:D5)'), 24.875)
    same(on_stock('=AVERAGEIF(B2:B5, "fir", D2:D5)'), DIV)


def test_rounding():
    same(worked_out("=ROUND(2.4)"), 2)
    same(worked_out("=ROUND(3.14159, 2)"), 3.14)
    same(worked_out("=ROUND(1250, -2)"), 1300)
    same(worked_out("=ROUND(-3.7)"), -4)


def test_half_is_rounded_away_from_nought():
    cases = {"0.5": 1, "1.5": 2, "2.5": 3, "-0.5": -1, "-2.5": -3}
    for number, rounded in cases.items():
        same(worked_out(f"=ROUND({number})"), rounded)


def test_half_a_cent_is_rounded_away_from_nought():
    cases = {"0.125": 0.13, "1.005": 1.01, "2.675": 2.68, "-0.125": -0.13}
    for number, rounded in cases.items():
        same(worked_out(f"=ROUND({number}, 2)"), rounded)


def test_rounding_one_way():
    same([worked_out(f"=ROUNDUP({x})") for x in ("2.1", "-2.1", "2")], [3, -3, 2])
    same([worked_out(f"=ROUNDDOWN({x})") for x in ("2.9", "-2.9", "2")], [2, -2, 2])


def test_whole_parts_and_rests():
    same([worked_out(f"=INT({x})") for x in ("2.9", "-2.1")], [2, -3])
    same([worked_out(f"=MOD({x})") for x in ("7,3", "-7,3", "7,-3", "1,0")], [1, 2, -2, DIV])


def test_powers_and_roots():
    same(worked_out("=POWER(2,10)"), 1024)
    same(worked_out("=SQRT(2.25)"), 1.5)
    same([worked_out("=SQRT(-1)"), worked_out("=0^-1"), worked_out("=10^400")], [NUM, DIV, NUM])


def test_truth():
    same(worked_out("=AND(TRUE, 1, 2>1)"), True)
    same(worked_out("=OR(FALSE, 0)"), False)
    same(worked_out('=NOT("x")'), VALUE)


def test_a_choice_looks_only_at_the_branch_it_takes():
    same(worked_out("=IF(TRUE, 1, 1/0)"), 1)
    same(worked_out("=IF(FALSE, 1/0)"), False)
    same(worked_out("=CHOOSE(2, 1/0, 7, 1/0)"), 7)
    same(worked_out("=CHOOSE(4, 1, 2, 3)"), VALUE)


def test_errors_are_caught():
    same(worked_out("=IFERROR(1/0, 5)"), 5)
    same(worked_out("=IFERROR(4, 1/0)"), 4)
    same(worked_out("=ISERROR(NOTHING(1))"), True)


def test_texts():
    same(worked_out('=LEN("oak shelf")'), 9)
    same(worked_out('=UPPER("oak")&LOWER("ASH")'), "OAKash")
    same(worked_out('=TRIM("  oak   shelf ")'), "oak shelf")
    same(worked_out('=SUBSTITUTE("a-b-c", "-", "+")'), "a+b+c")
    same(worked_out('=CONCAT("a", 1, TRUE)'), "a1TRUE")


def test_parts_of_texts():
    same([worked_out(f'={call}') for call in ('LEFT("oak")', 'LEFT("oak",9)')], ["o", "oak"])
    same([worked_out(f'={call}') for call in ('RIGHT("oak",2)', 'RIGHT("oak",0)')], ["ak", ""])
    same([worked_out(f'={call}') for call in ('MID("shelf",2,3)', 'MID("x",0,1)')], ["hel", VALUE])


def test_numbers_as_texts_and_back():
    same(worked_out('=TEXT(1234.5, "#,##0.00")'), "1,234.50")
    same(worked_out('=VALUE("12.5%")'), 0.125)
    same(worked_out('=VALUE("twelve")'), VALUE)


def test_looking_up_the_same():
    same(on_stock('=VLOOKUP("stool", A2:D5, 4, FALSE)'), 18.25)
    same(on_stock('=VLOOKUP("chair", A2:D5, 4, FALSE)'), NA)
    same(on_stock('=VLOOKUP("stool", A2:D5, 9, FALSE)'), REF)


def test_looking_up_the_nearest():
    rates = "0|5%\n1000|7%\n5000|10%"
    sheet = sheet_of(rates)
    sheet.update({"E1": "=VLOOKUP(999, A1:B3, 2)", "E2": "=VLOOKUP(1000, A1:B3, 2)"})
    sheet.update({"E3": "=VLOOKUP(9000, A1:B3, 2)", "E4": "=VLOOKUP(-1, A1:B3, 2)"})
    same([sheet.value(f"E{row}") for row in (1, 2, 3, 4)], [0.05, 0.07, 0.1, NA])


def test_places():
    same(on_stock('=MATCH("stool", A2:A5, FALSE)'), 3)
    same(on_stock("=INDEX(A2:D5, 3, 4)"), 18.25)
    same(on_stock("=INDEX(A2:D5, 5, 1)"), REF)
    same(on_stock('=INDEX(D2:D5, MATCH("elm", B2:B5, FALSE))'), 9)


def test_unknown_functions():
    same(worked_out("=NOTHING(1)"), NAME)


def test_the_wrong_number_of_arguments():
    same(worked_out("=ABS(1, 2)"), VALUE)
    same(worked_out("=IF(1)"), VALUE)


def test_an_error_value_goes_through():
    same(worked_out("=SUM(1, 1/0, 2)"), DIV)
    same(worked_out('=LEN(VLOOKUP("x", A1:B2, 1, FALSE))'), NA)


def test_names_are_in_order():
    assert names() == sorted(names())
    assert {"IF", "SUM", "VLOOKUP"} <= set(names())

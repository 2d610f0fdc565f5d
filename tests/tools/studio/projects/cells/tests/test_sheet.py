from cells.sheet import explain
from tests.helpers import CYCLE, DIV, REF, FormulaError, Sheet, refused, same, sheet_of


def column(sheet, letter, rows):
    return [sheet.value(f"{letter}{row}") for row in range(1, rows + 1)]


def test_an_empty_sheet():
    sheet = Sheet()
    same((len(sheet), sheet.used(), sheet.value("A1"), sheet.content("A1")), (0, None, None, ""))


def test_contents_are_read():
    sheet = sheet_of("12|1.5|abc|TRUE|'12|50%")
    same([sheet.value(f"{letter}1") for letter in "ABCDEF"], [12, 1.5, "abc", True, "12", 0.5])


def test_a_formula_is_worked_out():
    sheet = sheet_of("2|3|=A1*B1+1")
    same(sheet.value("C1"), 7)
    same(sheet.content("C1"), "=A1*B1+1")


def test_what_depends_on_a_change_is_worked_out_again():
    sheet = sheet_of("2|=A1*2|=B1*2|=C1*2")
    sheet.set("A1", 5)
    same([sheet.value(f"{letter}1") for letter in "ABCD"], [5, 10, 20, 40])


def test_changes_are_told():
    sheet = sheet_of("2|=A1*2|=A1>1")
    changes = sheet.set("A1", 3)
    same([(str(c.address), c.before, c.after) for c in changes], [("A1", 2, 3), ("B1", 4, 6)])


def test_only_what_is_affected_is_worked_out():
    lines = []
    sheet = Sheet("S", lines.append)
    sheet.update({"A1": 1, "B1": 2, "A2": "=A1+1", "B2": "=B1+1"})
    lines.clear()
    sheet.set("B1", 5)
    same(lines, ["S!B2: =B1+1 -> 6"])


def test_a_refused_formula_changes_nothing():
    sheet = sheet_of("2|=A1*2")
    refused(sheet.set, "B1", "=A1*", error=FormulaError)
    same((sheet.content("B1"), sheet.value("B1")), ("=A1*2", 4))


def test_a_cell_emptied():
    sheet = sheet_of("2|=A1+1")
    sheet.clear("A1")
    same((sheet.value("A1"), sheet.value("B1"), len(sheet)), (None, 1, 1))


def test_a_range_emptied():
    sheet = sheet_of("1|2\n3|4\n=SUM(A1:B2)|x")
    sheet.clear("A1:B1")
    same(sheet.value("A3"), 7)


def test_a_cycle_is_an_error_value():
    sheet = sheet_of("=B1|=C1|=A1|=A1+1|7")
    same([sheet.value(f"{letter}1") for letter in "ABCDE"], [CYCLE, CYCLE, CYCLE, CYCLE, 7])


def test_a_cell_that_reads_itself():
    sheet = sheet_of("=SUM(A1:A3)\n2\n3")
    same(sheet.value("A1"), CYCLE)


def test_a_cycle_that_is_broken_again():
    sheet = sheet_of("=B1|=A1")
    sheet.set("B1", 4)
    same(column(sheet, "A", 1), [4])


def test_a_long_chain():
    sheet = Sheet()
    sheet.update({"A1": 1, **{f"A{row}": f"=A{row - 1}+1" for row in range(2, 3001)}})
    same(sheet.value("A3000"), 3000)


def test_errors_are_listed():
    sheet = sheet_of("=1/0|=A1+1|2")
    same([(str(address), value) for address, value in sheet.errors()], [("A1", DIV), ("B1", DIV)])


def test_a_copied_formula_moves_along():
    sheet = sheet_of("1|=A1*10\n2\n3")
    sheet.fill("B1", "B1:B3")
    same(column(sheet, "B", 3), [10, 20, 30])


def test_a_copied_formula_keeps_what_has_a_dollar_sign():
    sheet = sheet_of("2|=$A$1*B$2\n|5")
    sheet.copy("B1", "C3")
    same(sheet.content("C3"), "=$A$1*C$2")


def test_a_reference_copied_beyond_the_edge_is_broken():
    sheet = sheet_of("1|=A1")
    sheet.copy("B1", "A2")
    same(sheet.value("A2"), REF)


def test_rows_are_inserted():
    sheet = sheet_of("1|=A1\n2|=A2\n3|=SUM(A1:A3)")
    sheet.insert_rows(2)
    same([sheet.content(f"B{row}") for row in (1, 2, 3, 4)], ["=A1", "", "=A3", "=SUM(A1:A4)"])
    same(sheet.value("B4"), 6)


def test_references_with_a_dollar_sign_follow_their_cell_when_rows_are_inserted():
    sheet = sheet_of("rate|10\n1|=A2*$B$1\n2|=A3*B$1")
    sheet.insert_rows(1, 2)
    same([sheet.content(f"B{row}") for row in (4, 5)], ["=A4*$B$3", "=A5*B$3"])
    same([sheet.value(f"B{row}") for row in (4, 5)], [10, 20])


def test_areas_with_dollar_signs_grow_when_rows_are_inserted():
    sheet = sheet_of("1|=SUM($A$1:$A$3)\n2\n3")
    sheet.insert_rows(2)
    same((sheet.content("B1"), sheet.value("B1")), ("=SUM($A$1:$A$4)", 6))


def test_rows_are_deleted():
    sheet = sheet_of("1|=A1\n2|=A2\n3|=SUM(A1:A3)")
    sheet.delete_rows(2)
    same([sheet.content(f"B{row}") for row in (1, 2)], ["=A1", "=SUM(A1:A2)"])
    same(sheet.value("B2"), 4)


def test_a_reference_to_a_deleted_row_is_broken():
    sheet = sheet_of("1|=A2\n2\n3|=SUM(A2:A2)")
    sheet.delete_rows(2)
    same([sheet.value("B1"), sheet.value("B2")], [REF, REF])


def test_a_cell_explained():
    sheet = sheet_of("2|=(A1+1)|=1/0")
    same(list(explain(sheet, "B1")), ["B1: =(A1+1)", "  = 3", "  read as A1+1"])
    same(list(explain(sheet, "C1"))[1], "  = #DIV/0!: a number was divided by zero")
    same(list(explain(sheet, "D1")), ["D1: (empty)", "  = None"])

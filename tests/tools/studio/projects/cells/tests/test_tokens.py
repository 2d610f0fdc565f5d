from cells.tokens import tokenize
from tests.helpers import FormulaError, refused, same


def kinds(formula):
    return " ".join(token.kind for token in tokenize(formula))


def texts(formula):
    return [token.text for token in tokenize(formula)[:-1]]


def test_an_empty_formula_is_at_its_end():
    same(kinds(""), "end")


def test_numbers():
    same(texts("12 0.5 .5 3. 1e3 2.5E-2"), ["12", "0.5", ".5", "3.", "1e3", "2.5E-2"])
    same(kinds("12 .5 1e3"), "number number number end")


def test_texts_with_quotes_in_them():
    same(texts('"a ""b"" c"'), ['a "b" c'])


def test_a_text_may_hold_anything():
    same(texts('"=1+(2;3) <> €"'), ["=1+(2;3) <> €"])


def test_a_text_without_an_end_is_refused():
    same(refused(tokenize, '1&"abc', error=FormulaError), 'a text has no end at position 2: 1&"abc')


def test_cells_and_names():
    same(kinds("A1 $B$2 SUM TRUE total"), "cell cell name name name end")


def test_names_are_written_in_capitals():
    same(texts("sum(a1)"), ["SUM", "(", "A1", ")"])


def test_a_name_before_a_bracket_is_a_function_though_it_reads_as_a_cell():
    same(kinds("LOG10(A1)"), "name open cell close end")


def test_operators_of_two_signs_are_one_token():
    same(texts("1<>2<=3>=4<5>6=7"), ["1", "<>", "2", "<=", "3", ">=", "4", "<", "5", ">", "6", "=", "7"])


def test_areas_and_arguments():
    same(kinds("F(A1:B2, 3; 4)"), "name open cell colon cell comma number comma number close end")


def test_positions_are_those_of_the_text():
    same([token.position for token in tokenize(" 1 + A1")], [1, 3, 5, 7])


def test_what_begins_no_token_is_refused():
    same(refused(tokenize, "1+@", error=FormulaError), "unexpected character '@' at position 2: 1+@")


def test_a_broken_address_is_refused():
    same(refused(tokenize, "$A", error=FormulaError), "not an address: $A at position 0: $A")

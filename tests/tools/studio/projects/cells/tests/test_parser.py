from cells.parser import Binary, Function, Number, Percent, Sign, Text, parse, references, unparse
from tests.helpers import FormulaError, refused, same


def grouped(formula):
    """The formula with every operation in brackets, so that its grouping shows."""
    return _grouped(parse(formula))


def _grouped(tree):
    if isinstance(tree, Binary):
        return f"({_grouped(tree.left)}{tree.operator}{_grouped(tree.right)})"
    if isinstance(tree, Sign):
        return f"({tree.operator}{_grouped(tree.operand)})"
    if isinstance(tree, Percent):
        return f"({_grouped(tree.operand)}%)"
    return unparse(tree)


def test_a_number():
    same(parse("=12"), Number(12))
    same(parse("=1.5"), Number(1.5))


def test_a_text():
    same(parse('="a ""b"""'), Text('a "b"'))


def test_products_before_sums():
    same(grouped("=1+2*3-4/5"), "((1+(2*3))-(4/5))")


def test_powers_before_products():
    same(grouped("=2*3^2"), "(2*(3^2))")


def test_signs_before_powers():
    same(grouped("=-2^2"), "((-2)^2)")


def test_percents_before_powers():
    same(grouped("=2^50%"), "(2^(50%))")


def test_operators_of_the_same_binding_group_from_the_left():
    same(grouped("=8/4/2"), "((8/4)/2)")
    same(grouped("=2^3^2"), "((2^3)^2)")
    same(grouped("=1-2-3"), "((1-2)-3)")


def test_texts_are_joined_after_sums():
    same(grouped('=1+2&"x"'), '((1+2)&"x")')


def test_texts_are_joined_before_they_are_compared():
    same(grouped('="a"&"b"="ab"'), '(("a"&"b")="ab")')
    same(grouped('="ab"="a"&"b"'), '("ab"=("a"&"b"))')
    same(grouped('=A1&"-"&B1<>C1'), '(((A1&"-")&B1)<>C1)')


def test_comparisons_come_last():
    same(grouped("=1+1=2*1"), "((1+1)=(2*1))")


def test_brackets_change_the_grouping():
    same(grouped("=(1+2)*3"), "((1+2)*3)")


def test_a_function_and_its_arguments():
    same(parse("=F(1, 2)"), Function("F", (Number(1), Number(2))))
    same(parse("=F()"), Function("F", ()))


def test_a_semicolon_separates_arguments_too():
    same(parse("=F(1;2)"), parse("=F(1,2)"))


def test_the_equals_sign_may_be_left_out():
    same(parse("1+A1"), parse("=1+A1"))


def test_what_is_no_formula_is_refused():
    cases = {
        "=": "expected a value, found the end at position 0: ",
        "=1+": "expected a value, found the end at position 2: 1+",
        "=(1": "expected ), found the end at position 2: (1",
        "=1)": "expected the end, found ')' at position 1: 1)",
        "=F(1": "expected ), found the end at position 3: F(1",
        "=A1:": "expected a cell, found the end at position 3: A1:",
        "=1 2": "expected the end, found '2' at position 2: 1 2",
        "=total": "unknown name TOTAL at position 0: total",
    }
    for formula, message in cases.items():
        same(refused(parse, formula, error=FormulaError), message)


def test_nesting_has_a_limit():
    deep = "(" * 100 + "1" + ")" * 100
    assert refused(parse, deep, error=FormulaError).startswith("nested too deeply at position ")


def test_written_again_a_formula_has_no_more_brackets_than_it_needs():
    cases = {
        "(1+2)*3": "(1+2)*3",
        "(1*2)+3": "1*2+3",
        "1-(2-3)": "1-(2-3)",
        "(1-2)-3": "1-2-3",
        "-(1+2)": "-(1+2)",
        "(-2)^2": "-2^2",
        "(50%)%": "50%%",
        "F((1), (2+3))": "F(1, 2+3)",
        '"say ""no"""': '"say ""no"""',
    }
    for before, after in cases.items():
        same(unparse(parse(before)), after)


def test_a_formula_written_again_means_the_same():
    for formula in ("1-2-3", "2^3^2", "-2^2", "1&2=3", "(1&2)=3", "1&(2=3)", "F(A1:$B$2, -C3%)"):
        same(parse(unparse(parse(formula))), parse(formula))


def test_the_references_of_a_formula():
    tree = parse("=A1+SUM(B1:C2, $D$4)*-E5%")
    same([unparse(each) for each in references(tree)], ["A1", "B1:C2", "$D$4", "E5"])

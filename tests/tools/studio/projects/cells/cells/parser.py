"""Turns a formula into a tree, and a tree back into a formula.

The nodes are plain named tuples; what they mean is the evaluator's business. The parser is a
precedence climber: every operator has a binding, a number, and an operand belongs to the operator
that binds it more tightly. From loose to tight:

    comparison        =  <>  <  <=  >  >=
    joining texts     &
    sum               +  -
    product           *  /
    power             ^
    percent           %   (stands behind its operand)
    sign              -  +   (stands before its operand)

So `-2^2` is 4, as in other spreadsheets, and `1+2&"x"` joins `3` and `x`. Operators of the same
binding group from the left: `8/4/2` is 1, and `2^3^2` is 64.
"""

from collections import namedtuple

from cells.addresses import Address, Range
from cells.errors import FormulaError
from cells.tokens import tokenize

Number = namedtuple("Number", "value")
Text = namedtuple("Text", "value")
Truth = namedtuple("Truth", "value")
Cell = namedtuple("Cell", "address")
Area = namedtuple("Area", "range")
Broken = namedtuple("Broken", "kind")
"""A reference to a place that no longer exists; written as its kind, `#REF!`."""
Sign = namedtuple("Sign", "operator operand")
Percent = namedtuple("Percent", "operand")
Binary = namedtuple("Binary", "operator left right")
Function = namedtuple("Function", "name arguments")

BINDINGS = {
    "&": 1,
    "=": 2,
    "<>": 2,
    "<": 2,
    "<=": 2,
    ">": 2,
    ">=": 2,
    "+": 3,
    "-": 3,
    "*": 4,
    "/": 4,
    "^": 5,
    "%": 6,
}
"""How tightly an operator behind an operand binds it."""

SIGN_BINDING = 7

MAX_DEPTH = 64
"""Deeper nesting than this is refused, so that no formula can exhaust the stack."""


def parse(formula):
    """The tree of a formula, with its equals sign or without.

    Raises FormulaError, naming the position, where the text is no formula.
    """
    text = formula[1:] if formula.startswith("=") else formula
    parser = _Parser(text)
    tree = parser.expression(0)
    parser.expect("end")
    return tree


class _Parser:
    """Walks over the tokens of one formula."""

    def __init__(self, text):
        self._text = text
        self._tokens = tokenize(text)
        self._index = 0
        self._depth = 0

    @property
    def _token(self):
        return self._tokens[self._index]

    def _advance(self):
        token = self._token
        self._index += 1
        return token

    def expect(self, kind):
        """Take a token of this kind. Raises FormulaError where another one stands."""
        if self._token.kind != kind:
            self._fail(f"expected {_named(kind)}, found {_shown(self._token)}")
        return self._advance()

    def _fail(self, message):
        raise FormulaError(message, self._text, self._token.position)

    def expression(self, least):
        """An operand and every operator behind it that binds more tightly than `least`."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self._fail("nested too deeply")
        tree = self._operand()
        while self._token.kind == "operator" and BINDINGS[self._token.text] > least:
            operator = self._advance().text
            if operator == "%":
                tree = Percent(tree)
            else:
                tree = Binary(operator, tree, self.expression(BINDINGS[operator]))
        self._depth -= 1
        return tree

    def _operand(self):
        token = self._token
        if token.kind == "operator" and token.text in "+-":
            self._advance()
            return Sign(token.text, self.expression(SIGN_BINDING))
        reader = _OPERANDS.get(token.kind)
        if reader is None:
            self._fail(f"expected a value, found {_shown(token)}")
        return reader(self)

    def _number(self):
        text = self._advance().text
        value = float(text)
        return Number(int(value) if value.is_integer() and "e" not in text.lower() else value)

    def _literal_text(self):
        return Text(self._advance().text)

    def _group(self):
        self._advance()
        tree = self.expression(0)
        self.expect("close")
        return tree

    def _cell(self):
        start = Address.parse(self._advance().text)
        if self._token.kind != "colon":
            return Cell(start)
        self._advance()
        end = Address.parse(self.expect("cell").text)
        return Area(Range(start, end))

    def _name(self):
        token = self._advance()
        if self._token.kind == "open":
            return Function(token.text, tuple(self._arguments()))
        if token.text in ("TRUE", "FALSE"):
            return Truth(token.text == "TRUE")
        raise FormulaError(f"unknown name {token.text}", self._text, token.position)

    def _arguments(self):
        """The arguments of a call, brackets included. There may be none."""
        self.expect("open")
        if self._token.kind == "close":
            self._advance()
            return
        while True:
            yield self.expression(0)
            if self._token.kind != "comma":
                break
            self._advance()
        self.expect("close")


_OPERANDS = {
    "number": _Parser._number,
    "text": _Parser._literal_text,
    "open": _Parser._group,
    "cell": _Parser._cell,
    "name": _Parser._name,
}


def _named(kind):
    return {"end": "the end", "open": "(", "close": ")", "comma": ","}.get(kind, f"a {kind}")


def _shown(token):
    return "the end" if token.kind == "end" else repr(token.text)


# Trees back into text


def unparse(tree):
    """The formula of a tree, without its equals sign, with no more brackets than it needs."""
    return _unparse(tree, 0)


def _unparse(tree, least):
    writer = _WRITERS[type(tree)]
    text, binding = writer(tree)
    return f"({text})" if binding <= least else text


_TIGHT = 100


def _write_number(tree):
    return f"{tree.value}", _TIGHT


def _write_text(tree):
    quoted = tree.value.replace('"', '""')
    return f'"{quoted}"', _TIGHT


def _write_truth(tree):
    return ("TRUE" if tree.value else "FALSE"), _TIGHT


def _write_cell(tree):
    return str(tree.address), _TIGHT


def _write_area(tree):
    return str(tree.range), _TIGHT


def _write_broken(tree):
    return tree.kind, _TIGHT


def _write_sign(tree):
    return f"{tree.operator}{_unparse(tree.operand, SIGN_BINDING - 1)}", SIGN_BINDING


def _write_percent(tree):
    return f"{_unparse(tree.operand, BINDINGS['%'] - 1)}%", BINDINGS["%"]


def _write_binary(tree):
    binding = BINDINGS[tree.operator]
    left = _unparse(tree.left, binding - 1)
    right = _unparse(tree.right, binding)
    return f"{left}{tree.operator}{right}", binding


def _write_function(tree):
    arguments = ", ".join(_unparse(argument, 0) for argument in tree.arguments)
    return f"{tree.name}({arguments})", _TIGHT


_WRITERS = {
    Number: _write_number,
    Text: _write_text,
    Truth: _write_truth,
    Cell: _write_cell,
    Area: _write_area,
    Broken: _write_broken,
    Sign: _write_sign,
    Percent: _write_percent,
    Binary: _write_binary,
    Function: _write_function,
}


# Walking over trees


def references(tree):
    """Every cell and every area that a tree names, in the order of the formula."""
    if isinstance(tree, (Cell, Area)):
        yield tree
    for child in children(tree):
        yield from references(child)


def children(tree):
    """The operands or arguments of a node."""
    if isinstance(tree, (Sign, Percent)):
        return (tree.operand,)
    if isinstance(tree, Binary):
        return (tree.left, tree.right)
    if isinstance(tree, Function):
        return tree.arguments
    return ()


def rebuild(tree, change):
    """The same tree with `change` applied to every cell and area in it."""
    if isinstance(tree, (Cell, Area)):
        return change(tree)
    if isinstance(tree, (Sign, Percent)):
        return tree._replace(operand=rebuild(tree.operand, change))
    if isinstance(tree, Binary):
        left, right = rebuild(tree.left, change), rebuild(tree.right, change)
        return Binary(tree.operator, left, right)
    if isinstance(tree, Function):
        return Function(tree.name, tuple(rebuild(each, change) for each in tree.arguments))
    return tree

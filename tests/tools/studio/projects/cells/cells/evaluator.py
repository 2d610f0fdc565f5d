"""Works out what a formula's tree comes to.

The evaluator knows nothing of sheets: it is given a way to look up a cell. It raises nothing;
what cannot be worked out is an error value.
"""

import math

from cells.errors import CellError, first_error
from cells.functions import LAZY, Block, call, call_lazily, raise_to, single
from cells.parser import Area, Binary, Broken, Cell, Function, Number, Percent, Sign, Text, Truth
from cells.values import checked, compare, to_number, to_text


def evaluate(tree, lookup):
    """The value of a tree; `lookup` gives the value of an address, None where a cell is empty."""
    return single(Evaluation(lookup).value(tree))


class Evaluation:
    """One pass over one tree."""

    def __init__(self, lookup):
        self._lookup = lookup

    def value(self, tree):
        return _RULES[type(tree)](self, tree)

    def constant(self, tree):
        return tree.value

    def broken(self, tree):
        return CellError(tree.kind)

    def cell(self, tree):
        return self._lookup(tree.address)

    def area(self, tree):
        return Block([[self._lookup(each) for each in row] for row in tree.range.rows()])

    def sign(self, tree):
        number = to_number(single(self.value(tree.operand)))
        if isinstance(number, CellError) or tree.operator == "+":
            return number
        return -number

    def percent(self, tree):
        number = to_number(single(self.value(tree.operand)))
        return number if isinstance(number, CellError) else checked(number / 100)

    def binary(self, tree):
        left, right = single(self.value(tree.left)), single(self.value(tree.right))
        error = first_error((left, right))
        return error or _OPERATORS[tree.operator](left, right)

    def function(self, tree):
        if tree.name in LAZY:
            return call_lazily(tree.name, self.value, tree.arguments)
        return call(tree.name, [self.value(each) for each in tree.arguments])


_RULES = {
    Number: Evaluation.constant,
    Text: Evaluation.constant,
    Truth: Evaluation.constant,
    Broken: Evaluation.broken,
    Cell: Evaluation.cell,
    Area: Evaluation.area,
    Sign: Evaluation.sign,
    Percent: Evaluation.percent,
    Binary: Evaluation.binary,
    Function: Evaluation.function,
}


def _arithmetic(operation):
    """An operator on numbers, out of a function of two numbers."""

    def operate(left, right):
        numbers = to_number(left), to_number(right)
        return first_error(numbers) or operation(*numbers)

    return operate


def _divided(left, right):
    return CellError("#DIV/0!") if right == 0 else checked(left / right)


def _joined(left, right):
    return to_text(left) + to_text(right)


def _compared(test):
    return lambda left, right: test(compare(left, right))


_OPERATORS = {
    "+": _arithmetic(lambda left, right: checked(math.fsum((left, right)))),
    "-": _arithmetic(lambda left, right: checked(math.fsum((left, -right)))),
    "*": _arithmetic(lambda left, right: checked(left * right)),
    "/": _arithmetic(_divided),
    "^": _arithmetic(raise_to),
    "&": _joined,
    "=": _compared(lambda order: order == 0),
    "<>": _compared(lambda order: order != 0),
    "<": _compared(lambda order: order < 0),
    "<=": _compared(lambda order: order <= 0),
    ">": _compared(lambda order: order > 0),
    ">=": _compared(lambda order: order >= 0),
}

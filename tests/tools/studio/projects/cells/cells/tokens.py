"""Cuts the text of a formula into tokens.

A token is a kind, a text and a position. The kinds are

    number     12, 0.5, .5, 1e3
    text       "in double quotes, with "" for one of them"
    name       SUM, TRUE, anything that is followed by a bracket or stands alone
    cell       B12, $B$12
    operator   + - * / ^ & = <> < <= > >= %
    open, close, comma, colon
    end        behind the last character

Blanks between tokens mean nothing and are left out.
"""

import re
from collections import namedtuple

from cells.addresses import is_address
from cells.errors import FormulaError

Token = namedtuple("Token", "kind text position")

OPERATORS = ("<>", "<=", ">=", "<", ">", "=", "+", "-", "*", "/", "^", "&", "%")
"""The longer ones first, so that `<=` is not taken for `<` and `=`."""

SIGNS = {"(": "open", ")": "close", ",": "comma", ";": "comma", ":": "colon"}
"""A semicolon separates arguments like a comma, as in many countries."""

_BLANKS = re.compile(r"[ \t\r\n]+")
_NUMBER = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_WORD = re.compile(r"\$?[A-Za-z_][A-Za-z0-9_.]*(?:\$[0-9]+)?")
_TEXT = re.compile(r'"((?:[^"]|"")*)"')


def tokenize(formula):
    """The tokens of a formula without its equals sign, as a list that ends with an `end`.

    Raises FormulaError where a character begins no token.
    """
    return list(_tokens(formula))


def _tokens(formula):
    position = 0
    while position < len(formula):
        blanks = _BLANKS.match(formula, position)
        if blanks:
            position = blanks.end()
            continue
        token, position = _next(formula, position)
        yield token
    yield Token("end", "", len(formula))


def _next(formula, position):
    """The token at a position, and the position behind it."""
    sign = formula[position]
    if sign in SIGNS:
        return Token(SIGNS[sign], sign, position), position + 1
    for read in (_read_number, _read_text, _read_word, _read_operator):
        found = read(formula, position)
        if found:
            return found
    raise FormulaError(f"unexpected character {sign!r}", formula, position)


def _read_number(formula, position):
    found = _NUMBER.match(formula, position)
    if not found:
        return None
    return Token("number", found[0], position), found.end()


def _read_text(formula, position):
    if formula[position] != '"':
        return None
    found = _TEXT.match(formula, position)
    if not found:
        raise FormulaError("a text has no end", formula, position)
    return Token("text", found[1].replace('""', '"'), position), found.end()


def _read_word(formula, position):
    """A cell or a name. `LOG10(` is a name, although `LOG10` alone would do for neither."""
    found = _WORD.match(formula, position)
    if not found:
        return None
    word, end = found[0], found.end()
    if formula[end : end + 1] == "(":
        return Token("name", word.upper(), position), end
    if is_address(word):
        return Token("cell", word.upper(), position), end
    if "$" in word:
        raise FormulaError(f"not an address: {word}", formula, position)
    return Token("name", word.upper(), position), end


def _read_operator(formula, position):
    for operator in OPERATORS:
        if formula.startswith(operator, position):
            return Token("operator", operator, position), position + len(operator)
    return None

"""A small spreadsheet engine: formulas in, values out."""

from cells.errors import CellError, FormulaError
from cells.sheet import Sheet

__all__ = ["CellError", "FormulaError", "Sheet"]

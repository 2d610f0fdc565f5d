"""A sheet: cells with contents, formulas among them, and their values.

What a user enters is a cell's *content*, a text. A content that begins with an equals sign is a
formula; one that reads as a number or as TRUE or FALSE is that value; a leading apostrophe makes a
text of anything. Values are worked out at once, only where something has changed.
"""

from collections import namedtuple

from cells.addresses import MAX_ROWS, Address, Range
from cells.errors import CellError, FormulaError
from cells.evaluator import evaluate
from cells.graph import Graph
from cells.parser import Area, Broken, Cell, parse, rebuild, unparse
from cells.values import read_number

Change = namedtuple("Change", "address before after")
"""A cell's value before and after a recalculation."""


class Sheet:
    """The cells of one table."""

    def __init__(self, name="Sheet1", trace=None):
        self.name = name
        self._contents = {}
        self._trees = {}
        self._values = {}
        self._graph = Graph()
        self._trace = trace or (lambda line: None)

    def __len__(self):
        return len(self._contents)

    def __contains__(self, where):
        return _address(where) in self._contents

    # Entering

    def set(self, where, content):
        """Enter a content and work out what depends on it; returns the changes.

        Raises FormulaError for a formula that cannot be read; the cell then stays as it was.
        """
        return self.update({where: content})

    def update(self, contents):
        """Enter several contents at once; what depends on them is worked out once."""
        read = [(_address(where), str(content)) for where, content in contents.items()]
        trees = {
            address: parse(content)
            for address, content in read
            if content.startswith("=") and content != "="
        }
        for address, content in read:
            self._enter(address, content, trees.get(address))
        return self._recalculate([address for address, _ in read])

    def clear(self, where):
        """Empty a cell or a range; returns the changes."""
        area = Range.parse(where) if isinstance(where, str) else Range(where, where)
        return self.update({address: "" for address in area.addresses() if address in self._contents})

    def _enter(self, address, content, tree):
        self._graph.remove(address)
        self._trees.pop(address, None)
        if content == "":
            self._contents.pop(address, None)
            return
        self._contents[address] = content
        if tree is not None:
            self._trees[address] = tree
            self._graph.set(address, tree)

    # Looking

    def content(self, where):
        """What was entered into a cell; an empty text where nothing was."""
        return self._contents.get(_address(where), "")

    def value(self, where):
        """What a cell comes to; None where it is empty."""
        return self._values.get(_address(where))

    def values(self, where):
        """The values of a range, row by row."""
        return [[self._values.get(each) for each in row] for row in Range.parse(where).rows()]

    def formulas(self):
        """Every cell with a formula, and the formula, in order."""
        return [(address, self._contents[address]) for address in sorted(self._trees)]

    def errors(self):
        """Every cell that holds an error value, and the value, in order."""
        return [
            (address, value)
            for address, value in sorted(self._values.items(), key=lambda item: item[0])
            if isinstance(value, CellError)
        ]

    def used(self):
        """The smallest range that holds every content; None for an empty sheet."""
        if not self._contents:
            return None
        rows = [address.row for address in self._contents]
        columns = [address.column for address in self._contents]
        return Range(Address(min(rows), min(columns)), Address(max(rows), max(columns)))

    # Working out

    def recalculate(self):
        """Work out every formula anew; returns the changes."""
        return self._recalculate(list(self._contents))

    def _recalculate(self, changed):
        """Work out these cells and whatever depends on them."""
        before = {}
        for address in changed:
            if address not in self._trees:
                self._put(address, read_content(self._contents.get(address, "")), before)
        wanted = {address for address in changed if address in self._trees}
        wanted.update(self._graph.affected(changed))
        order, cyclic = self._graph.order(wanted)
        for address in cyclic:
            self._put(address, CellError("#CYCLE!", str(address)), before)
            self._trace(f"{self.name}!{address}: on a cycle")
        for address in order:
            value = evaluate(self._trees[address], self._values.get)
            self._put(address, value, before)
            self._trace(f"{self.name}!{address}: {self._contents[address]} -> {value!r}")
        return [
            Change(address, old, self._values.get(address))
            for address, old in sorted(before.items(), key=lambda item: item[0])
            if not _is_same(old, self._values.get(address))
        ]

    def _put(self, address, value, before):
        before.setdefault(address, self._values.get(address))
        if value is None:
            self._values.pop(address, None)
        else:
            self._values[address] = value

    # Moving things

    def copy(self, source, target):
        """Copy a cell; references in its formula move along, but for parts with a dollar sign."""
        start, end = _address(source), _address(target)
        rows, columns = end.row - start.row, end.column - start.column
        tree = self._trees.get(start)
        if tree is None:
            return self.set(end, self._contents.get(start, ""))
        return self.set(end, "=" + unparse(rebuild(tree, _copying(rows, columns))))

    def fill(self, source, area):
        """Copy a cell into every other cell of a range; returns the changes."""
        start = _address(source)
        changes = []
        for target in Range.parse(area).addresses():
            if target != start:
                changes.extend(self.copy(start, target))
        return changes

    def insert_rows(self, row, count=1):
        """Insert empty rows before a row, counted from 1; every reference follows its cell."""
        self._shift(row - 1, count, lambda tree: rebuild(tree, _inserting(row - 1, count)))

    def delete_rows(self, row, count=1):
        """Delete rows; references to them become `#REF!`, areas shrink."""
        first = row - 1
        for address in list(self._contents):
            if first <= address.row < first + count:
                self._enter(address, "", None)
                self._values.pop(address, None)
        self._shift(first + count, -count, lambda tree: rebuild(tree, _deleting(first, count)))

    def _shift(self, first, rows, change):
        """Move every content from a row on, and rewrite every formula."""
        contents = {}
        for address, content in self._contents.items():
            tree = self._trees.get(address)
            text = content if tree is None else "=" + unparse(change(tree))
            target = address.moved(rows, 0) if address.row >= first else address
            contents[target] = (text, None if tree is None else change(tree))
        self._contents.clear()
        self._trees.clear()
        self._values.clear()
        self._graph.clear()
        for address, (text, tree) in contents.items():
            self._enter(address, text, tree)
        self._recalculate(list(self._contents))


def read_content(content):
    """The value of a content that is no formula."""
    if content == "":
        return None
    if content.startswith("'"):
        return content[1:]
    word = content.strip().upper()
    if word in ("TRUE", "FALSE"):
        return word == "TRUE"
    number = read_number(content)
    return content if number is None else number


def _address(where):
    return Address.parse(where) if isinstance(where, str) else where


def _is_same(left, right):
    """Equal and of the same kind: 1 is not TRUE."""
    return type(left) is type(right) and left == right


# What becomes of a reference


def _copying(rows, columns):
    def change(reference):
        try:
            if isinstance(reference, Area):
                return Area(reference.range.copied(rows, columns))
            return Cell(reference.address.copied(rows, columns))
        except ValueError:
            return Broken("#REF!")

    return change


def _inserting(first, count):
    def follow(address):
        return address.copied(count, 0) if address.row >= first else address

    def change(reference):
        try:
            if isinstance(reference, Area):
                return Area(Range(follow(reference.range.start), follow(reference.range.end)))
            return Cell(follow(reference.address))
        except ValueError:
            return Broken("#REF!")

    return change


def _deleting(first, count):
    behind = first + count

    def change(reference):
        if isinstance(reference, Area):
            return _shrunk(reference.range, first, count)
        address = reference.address
        if first <= address.row < behind:
            return Broken("#REF!")
        return Cell(address.moved(-count, 0)) if address.row >= behind else reference

    return change


def _shrunk(area, first, count):
    """What is left of an area when rows of it are deleted."""
    behind = first + count
    start, end = area.start, area.end
    if first <= start.row and end.row < behind:
        return Broken("#REF!")
    if start.row >= behind:
        start = start.moved(-count, 0)
    elif start.row >= first:
        start = start.moved(first - start.row, 0)
    if end.row >= behind:
        end = end.moved(-count, 0)
    elif end.row >= first:
        end = end.moved(first - 1 - end.row, 0)
    return Area(Range(start, end))


def check_room(sheet, rows):
    """Raise ValueError where so many rows more would not fit."""
    used = sheet.used()
    if used is not None and used.end.row + rows >= MAX_ROWS:
        raise ValueError(f"{sheet.name} has no room for {rows} more rows")


def explain(sheet, where):
    """What a cell holds and why, line by line, for a person."""
    address = _address(where)
    yield f"{address}: {sheet.content(address) or '(empty)'}"
    value = sheet.value(address)
    yield f"  = {value.explain() if isinstance(value, CellError) else repr(value)}"
    content = sheet.content(address)
    if not content.startswith("="):
        return
    try:
        tree = parse(content)
    except FormulaError as error:
        yield f"  {error}"
        return
    yield f"  read as {unparse(tree)}"

"""Which cell depends on which, and in what order they are to be worked out.

The graph holds, for every cell with a formula, the cells and areas it reads. It answers two
questions: which cells must be worked out anew after some have changed, and in which order.
"""

from collections import defaultdict

from cells.parser import Area, references


class Graph:
    """Who reads whom. Cells without a formula appear in it only as what is read."""

    def __init__(self):
        self._reads = {}
        self._readers = defaultdict(dict)
        self._areas = {}

    def set(self, address, tree):
        """Note what a formula reads, in place of what its cell read before."""
        self.remove(address)
        cells, areas = [], []
        for reference in references(tree):
            if isinstance(reference, Area):
                areas.append(reference.range)
            else:
                cells.append(reference.address.plain)
        self._reads[address] = cells
        for each in cells:
            self._readers[each][address] = None
        if areas:
            self._areas[address] = areas

    def remove(self, address):
        """Forget a cell's formula; nothing happens where it has none."""
        for each in self._reads.pop(address, ()):
            readers = self._readers[each]
            readers.pop(address, None)
            if not readers:
                del self._readers[each]
        self._areas.pop(address, None)

    def clear(self):
        """Forget everything."""
        self._reads.clear()
        self._readers.clear()
        self._areas.clear()

    def readers(self, address):
        """The cells whose formulas read this one, directly; each once, in order."""
        found = dict(self._readers.get(address, {}))
        for reader, areas in self._areas.items():
            if any(address in area for area in areas):
                found[reader] = None
        return sorted(found)

    def precedents(self, address):
        """The cells with formulas that this one reads, directly; each once, in order."""
        found = {each: None for each in self._reads.get(address, ()) if each in self._reads}
        for area in self._areas.get(address, ()):
            if len(area) > len(self._reads):
                found.update((each, None) for each in self._reads if each in area)
            else:
                found.update((each, None) for each in area.addresses() if each in self._reads)
        return sorted(found)

    def affected(self, changed):
        """Every cell with a formula whose value may change when these cells do."""
        found = {}
        waiting = list(changed)
        while waiting:
            address = waiting.pop()
            for reader in self.readers(address):
                if reader not in found:
                    found[reader] = None
                    waiting.append(reader)
        return sorted(found)

    def order(self, wanted):
        """These cells so that each comes behind those it reads, and the cells on a cycle.

        Returns two lists. Cells that only depend on a cycle are in the first one: they are worked
        out like any other, and find the error values of the cycle.
        """
        search = _Search(self, wanted)
        for address in sorted(wanted):
            search.visit(address)
        return search.done, sorted(search.cyclic)


class _Search:
    """A depth-first search with a stack of its own, as chains of cells can be long."""

    def __init__(self, graph, wanted):
        self._graph = graph
        self._wanted = set(wanted)
        self._state = {}
        self.done = []
        self.cyclic = {}

    def visit(self, start):
        if start in self._state:
            return
        self._state[start] = "open"
        path = [start]
        stack = [iter(self._graph.precedents(start))]
        while stack:
            following = next(stack[-1], None)
            if following is None:
                stack.pop()
                address = path.pop()
                self._state[address] = "done"
                if address not in self.cyclic:
                    self.done.append(address)
            elif following not in self._wanted:
                continue
            elif self._state.get(following) == "open":
                self._mark(path, following)
            elif following not in self._state:
                self._state[following] = "open"
                path.append(following)
                stack.append(iter(self._graph.precedents(following)))

    def _mark(self, path, start):
        """Everything on the path from `start` on is on a cycle."""
        for address in path[path.index(start) :]:
            self.cyclic[address] = None

"""What replacing tool results makes of a prompt: gone on with from what was replaced before.

Between two moves of the boundary the same results are replaced, at a move more of them.
"""

from collections.abc import Sequence
from typing import NamedTuple

from masking.accounting.counted import count_placeholders
from masking.accounting.parts import Share, add_element
from masking.accounting.pieces import CountedElements
from masking.accounting.prefix_cache import Piece
from masking.history import Copyable, History
from masking.known import Known
from masking.measures.tokens import TokenCounter
from masking.model import Decision, make


class Replaced(Copyable):
    """The pieces of those elements of which results were replaced, and by how much they differ.

    pieces: by the position of the element.
    tokens, contents, chars: what is added to the tokens of the prompt, to those of its tool
        results, and to the code points of these; all of them less than 0 as a rule.
    left, squares: the tokens of these pieces; the squares of what each of them lost, summed up.
    images: how many images were replaced.
    share: what is added to each part of the prompt.
    """

    def __init__(self) -> None:
        self.pieces: dict[int, Piece] = {}
        self.tokens = self.contents = self.chars = 0
        self.left = self.squares = self.images = 0
        self.share: Share = {}
        self._contents: dict[int, tuple[int, int]] = {}
        """Of such an element the tokens of its results, and of the placeholders among them."""

    def take(
        self, decision: Decision, content: int, base: Piece, known: Known, counter: TokenCounter
    ) -> None:
        """Add the next result that is a placeholder: one of ours, or one that the client sent.

        content: the tokens that it had.
        base: the piece of its element, unmasked.
        """
        at = decision.result.element
        was = piece = self.pieces.get(at, base)
        stand_in, change = content, 0
        if decision.replacements:
            found = count_placeholders(known, decision, was.digest, counter, content)
            change = found.placeholders - found.replaced
            stand_in = min(content + change, found.placeholders)
            piece = make(Piece, (found.digest, was.tokens + change, *was[2:]))
            self._replace(at, base, was, piece)
            for replacement in decision.replacements:
                if replacement.image is None:
                    self.chars += len(replacement.placeholder) - len(replacement.text)
                else:
                    self.images += 1
        counted = known.counted
        contents, stand_ins = self._contents.get(at) or (sum(counted.results if counted else ()), 0)
        element = known.element
        add_element(self.share, element, was.tokens, contents, stand_ins, -1)
        contents, stand_ins = contents + change, stand_ins + stand_in
        add_element(self.share, element, piece.tokens, contents, stand_ins)
        self._contents[at] = contents, stand_ins
        self.contents += change

    def _replace(self, at: int, base: Piece, was: Piece, piece: Piece) -> None:
        if was is not base:  # another result of the same element was replaced, too
            self.left -= was.tokens
            self.squares -= (base.tokens - was.tokens) ** 2
        self.left += piece.tokens
        self.squares += (base.tokens - piece.tokens) ** 2
        self.tokens += piece.tokens - was.tokens
        self.pieces[at] = piece


def replace_results(
    counted: CountedElements,
    decisions: Sequence[Decision],
    known: Sequence[Known],
    counter: TokenCounter,
    history: History,
) -> Replaced:
    """Return what the decisions make of a prompt. Read-only.

    It continues the outcome of the request before, if the same results begin it.
    """
    places = [n for n, each in enumerate(decisions) if each[2] or each[1] == "already_masked"]
    taken = [decisions[n] for n in places]
    bases = [counted.pieces[decision.result.element] for decision in taken]
    outcome, count = Replaced(), 0
    last = history.recall(_LastReplaced)
    if last is not None:
        count = len(last.taken)
        if last.taken == taken[:count] and last.bases == bases[:count]:
            outcome = last.outcome
        else:
            count = 0
    if count < len(taken):
        outcome = outcome.copy()
        for n, decision, base in zip(places[count:], taken[count:], bases[count:], strict=True):
            at = decision.result.element
            outcome.take(decision, counted.contents[n], base, known[at], counter)
    history.keep(_LastReplaced(taken, bases, outcome))
    return outcome


class _LastReplaced(NamedTuple):
    """The results that were replaced in a request, the unmasked pieces of their elements, and what
    came of it."""

    taken: Sequence[Decision]
    bases: Sequence[Piece]
    outcome: Replaced

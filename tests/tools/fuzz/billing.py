"""The promise of `max_loss`, billed by a prefix cache of its own over a growing conversation.

A request was sent before each answer of the model. Tokens are those of the code's own estimate, in
which the promise is given; what is read from a cache is worked out from what was sent alone.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from masking.prices import LATEST_ENDS
from masking.wire.format import WireFormat
from tests.spec.readers import Where
from tests.support.priced import PricedPolicy


class Piece(NamedTuple):
    """A part of a prompt: its text, and its tokens."""

    text: str
    tokens: int


class Prompt(NamedTuple):
    """What a request sends, in order; up to `marked` tokens there is a cache mark of its own."""

    pieces: Sequence[Piece]
    marked: int

    @property
    def tokens(self) -> int:
        return sum(piece.tokens for piece in self.pieces)


def cut(document: Any, wire: WireFormat, path: Where) -> Prompt:  # noqa: ANN401 - JSON
    """Return a request as a prompt: its head, its elements, and in these their results."""
    holder = document
    for key in path[:-1]:
        holder = holder[key]
    head = wire.measure_head(holder)
    pieces = [Piece("head", head.total)]
    for element in holder[path[-1]]:
        total, results = wire.measure_element(element)
        spelled = repr(element)
        texts = (
            [spelled][: len(results)] if len(results) < 2 else [*map(repr, _find_blocks(element))]
        )
        at = 0
        for (before, own), text in zip(results, texts, strict=True):
            pieces += [Piece("before", before - at), Piece(text, own)]
            at = before + own
        pieces.append(Piece("end" if results else spelled, total - at))
    return Prompt(pieces, head.marked)


def find_worst(
    whole: Sequence[Prompt], sent: Sequence[Prompt], policy: PricedPolicy
) -> tuple[float, float, int]:
    """Return by how much the promise is broken, and the bill then, at the worst request.

    In tokens: what was paid above `1 + max_loss` times the bill of sending everything; less than 0
    if it holds. The last is the number of that request.
    """
    everything, paid = _Cache(policy), _Cache(policy)
    worst = (-float("inf"), 0.0, 0)
    for number, (one, other) in enumerate(zip(whole, sent, strict=True)):
        everything.send(one)
        paid.send(other)
        over = paid.bill - (1 + policy.max_loss) * everything.bill
        worst = max(worst, (over, everything.bill, number))
    return worst


class _Cache:
    """All prompts so far, and what they cost at a policy's prices."""

    def __init__(self, policy: PricedPolicy) -> None:
        self.bill = 0.0
        self._policy = policy
        self._prompts: list[Prompt] = []

    def send(self, prompt: Prompt) -> None:
        policy, size = self._policy, prompt.tokens
        read = max(
            (self._find_read(each, prompt) for each in self._prompts[-LATEST_ENDS:]), default=0
        )
        if policy.reads_at == "marks" and self._prompts:
            read = max(read, min(prompt.marked, size))
        if read < policy.shortest_prefix:
            read = 0
        factor = max((s.factor for s in policy.price_steps if size > s.above), default=1.0)
        tokens = policy.cache_read_ratio * read + policy.cache_write_ratio * (size - read)
        self.bill += factor * tokens
        self._prompts.append(prompt)

    def _find_read(self, before: Prompt, prompt: Prompt) -> int:
        """Return the tokens that an earlier prompt has put into the cache."""
        common = 0
        for one, other in zip(before.pieces, prompt.pieces, strict=False):
            if one.text != other.text:
                return common if self._policy.reads_at == "any prefix" else 0
            common += one.tokens
        return common


def _find_blocks(element: Any) -> Iterator[object]:  # noqa: ANN401 - JSON
    """Yield the blocks of an element that are results, by which they are told apart."""
    names = ("toolResult", "functionResponse", "function_response")
    for block in element.get("content") or element.get("parts"):
        if isinstance(block, dict) and (
            block.get("type") == "tool_result" or any(isinstance(block.get(n), dict) for n in names)
        ):
            yield block

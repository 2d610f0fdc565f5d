"""The sizes in a request: what stands before each request of the conversation, and each result."""

from typing import Self

from masking.conversation import Conversation
from masking.folds import MARKED_ELEMENTS, duplicate, fold, map_each
from masking.known import Known
from masking.model import Layout, Request
from masking.wire_format import HeadSize, WireFormat


def lay_out(conversation: Conversation) -> Layout:
    """Return the sizes in a request, in estimated tokens. Each answer stands for a request."""
    head = _measure_head(conversation)
    laid = fold(
        lambda: _Layout(conversation.wire, head.total),
        conversation.known,
        conversation.progress,
        "layout",
        MARKED_ELEMENTS,
        under=head.total,
    )
    last = Request(laid.size, laid.turns, len(laid.offsets))
    return Layout(
        (*laid.requests, last),
        tuple(laid.offsets),
        tuple(laid.turns_before),
        tuple(laid.sizes),
        head.marked,
    )


def _measure_head(conversation: Conversation) -> HeadSize:
    cut = conversation.cut
    if cut is None:
        return conversation.wire.measure_head(conversation.body)
    (size,) = map_each(
        lambda _: conversation.wire.measure_head(conversation.body),
        (cut.frame,),
        cut.progress,
        "head",
    )
    return size


class _Layout:
    """The sizes up to an element: those before each answer, and before and in each result."""

    def __init__(self, wire: WireFormat, size: int) -> None:
        self.size = size
        self.turns = 0
        self.requests: list[Request] = []
        self.offsets: list[int] = []
        self.turns_before: list[int] = []
        self.sizes: list[int] = []
        self._wire = wire
        self._counts_on = self._has_turn = False

    def copy(self) -> Self:
        """Return another one that goes on by itself."""
        other = duplicate(self)
        other.requests, other.offsets = [*self.requests], [*self.offsets]
        other.turns_before, other.sizes = [*self.turns_before], [*self.sizes]
        return other

    def take(self, known: Known) -> None:
        """Add the next element."""
        if known.size is None:
            known.size = self._wire.measure_element(known.item)
        total, contents = known.size
        element = known.element
        if element.speaker == "assistant":
            if not self._counts_on:
                self.requests.append(Request(self.size, self.turns, len(self.offsets)))
                self._has_turn = False
            self._counts_on = self._wire.answers_in_runs
            if element.is_turn and not self._has_turn:
                self.turns += 1
                self._has_turn = True
        else:
            self._counts_on = False
        for before, own in contents:
            self.offsets.append(self.size + before)
            self.turns_before.append(self.turns)
            self.sizes.append(own)
        self.size += total

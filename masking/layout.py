"""The sizes in a request: what stands before each request of the conversation, and each result."""

from masking.conversation import Conversation
from masking.history import UNSTABLE_TAIL, Fold
from masking.known import Known
from masking.model import Layout, Request
from masking.wire_format import WireFormat


def lay_out(conversation: Conversation) -> Layout:
    """Return the sizes in a request, in estimated tokens. Each answer stands for a request."""
    if conversation.head.size is None:
        conversation.head.size = conversation.wire.measure_head(conversation.body)
    head = conversation.head.size
    laid = conversation.history.fold(
        _Layout,
        conversation.known,
        conversation.wire,
        head.total,
        unstable_tail=UNSTABLE_TAIL,
    )
    last = Request(laid.size, laid.turns, len(laid.offsets))
    return Layout(
        (*laid.requests, last),
        tuple(laid.offsets),
        tuple(laid.turns_before),
        tuple(laid.sizes),
        head.marked,
    )


class _Layout(Fold[Known]):
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

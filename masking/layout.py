"""The sizes in a request: what stands before each request of the conversation, and each result."""

from masking.conversation import Conversation
from masking.model import Layout, Request


def lay_out(conversation: Conversation) -> Layout:
    """Return the sizes in a request, in estimated tokens. Each answer stands for a request."""
    wire = conversation.wire
    size, marked = wire.measure_head(conversation.body)
    requests: list[Request] = []
    offsets: list[int] = []
    turns_before: list[int] = []
    sizes: list[int] = []
    turns = 0
    counts_on = has_turn = False
    for element, known in zip(conversation.elements, conversation.known, strict=True):
        if known.size is None:
            known.size = wire.measure_element(known.item)
        total, contents = known.size
        if element.speaker == "assistant":
            if not counts_on:
                requests.append(Request(size, turns, len(offsets)))
                has_turn = False
            counts_on = wire.answers_in_runs
            if element.is_turn and not has_turn:
                turns += 1
                has_turn = True
        else:
            counts_on = False
        for before, own in contents:
            offsets.append(size + before)
            turns_before.append(turns)
            sizes.append(own)
        size += total
    requests.append(Request(size, turns, len(offsets)))
    return Layout(tuple(requests), tuple(offsets), tuple(turns_before), tuple(sizes), marked)

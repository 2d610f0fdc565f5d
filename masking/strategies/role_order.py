"""Who may speak when: what providers ask of the order of elements that a reduction leaves.

The one rule: what is left is in an order that the provider takes, if what was there was. More is
kept for that, never less.
"""

from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise

from masking.conversation import Conversation, find_answers
from masking.elements import Element
from masking.strategies.pairs import Pairs, close_over_pairs


def keep_answers_whole(conversation: Conversation, kept: frozenset[int]) -> frozenset[int]:
    """Return the positions in `kept`, and those of each answer that one of them is a part of.

    A provider refuses reasoning without the words or calls that it led to, and these without it.
    """
    if not conversation.wire.answers_in_runs:
        return kept
    answers = find_answers(conversation.elements, in_runs=True)
    return kept.union(*(answer for answer in answers if not kept.isdisjoint(answer)))


def keep_before_summary(
    conversation: Conversation, kept: frozenset[int], pairs: Pairs
) -> frozenset[int]:
    """Return what is to be kept after a summary, which the user says.

    Where roles alternate, an answer of the assistant must come next.
    """
    if conversation.wire.role_order != "alternating":
        return kept
    elements = conversation.elements
    while (first := _find_first(elements, kept)) is not None:
        if elements[first].speaker == "assistant":
            break
        before = [at for at in range(first) if elements[at].speaker == "assistant"]
        if not before:
            break
        longer = keep_answers_whole(conversation, kept | {before[-1]})
        kept = close_over_pairs(longer, pairs)
    return kept


def keep_opening(conversation: Conversation, kept: frozenset[int]) -> frozenset[int]:
    """Return what is to be kept without a summary: also the last words of the user's before it.

    Unless the user speaks first anyway, or the provider lets anybody do so.
    """
    elements = conversation.elements
    first = _find_first(elements, kept)
    if conversation.wire.role_order == "any" or first is None or _opens(elements[first]):
        return kept
    openings = [at for at in range(first) if _opens(elements[at])]
    return kept | {*openings[-1:]}


def keeps_order(
    conversation: Conversation, after: Sequence[Element], origins: Sequence[int | None]
) -> bool:
    """Whether roles that must alternate do so wherever something was dropped.

    `origins` are the positions that the elements had; None for the summary.
    """
    if conversation.wire.role_order != "alternating":
        return True
    return not any(_find_repeats(after, origins))


def _find_repeats(after: Sequence[Element], origins: Sequence[int | None]) -> Iterator[bool]:
    """Yield for each new pair of neighbours whether the same side speaks twice."""
    for (one, at), (other, then) in pairwise(zip(after, origins, strict=True)):
        if at is None or then is None or then != at + 1:
            yield (one.speaker == "assistant") == (other.speaker == "assistant")


def _find_first(elements: Sequence[Element], kept: Collection[int]) -> int | None:
    """Return the first position that is kept after the leading elements of the system."""
    leading = True
    for at, element in enumerate(elements):
        leading = leading and element.speaker == "system"
        if at in kept and not leading:
            return at
    return None


def _opens(element: Element) -> bool:
    """Whether the user speaks, and answers no call."""
    return element.speaker == "user" and not element.results

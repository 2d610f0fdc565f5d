"""Texts, as the budget counts them and as a summary clips them."""

from collections.abc import Iterable

from masking.elements import Element


def count_chars(elements: Iterable[Element]) -> int:
    """Return the size of the elements: the code points of all their texts."""
    chars = 0
    for element in elements:
        chars += sum(map(len, element.texts))
        for result in element.results:
            chars += sum(map(len, (*result.texts, *result.tails)))
    return chars


def clip(text: str, max_chars: int) -> str:
    """Return at most `max_chars` code points of a text; if it is cut, three dots end it.

    If there is no room for the dots, the text's first code points; below 1, nothing.
    """
    if len(text) <= max_chars:
        return text
    room = max_chars - len(_DOTS)
    return text[:room] + _DOTS if room >= 0 else text[: max(0, max_chars)]


_DOTS = "..."

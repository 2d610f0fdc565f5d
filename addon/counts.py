"""Counts with their nouns, as the log, the commands and the page say them."""


def pluralize(count: int, noun: str) -> str:
    """Return a count with its noun: `1 request`, `2,000 requests`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def pluralize_part(count: int, whole: int, noun: str) -> str:
    """Return how many of some things: `3 of 4 requests`, `all 4 requests`, `1 request` of one."""
    if count < whole:
        return f"{count:,} of {pluralize(whole, noun)}"
    return pluralize(whole, noun) if whole == 1 else f"all {pluralize(whole, noun)}"

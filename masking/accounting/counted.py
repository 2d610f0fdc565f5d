"""Counts what one element of a request comes to, once for as long as the element is known."""

from hashlib import blake2b

import orjson

from masking.conversation import Conversation
from masking.elements import Result
from masking.known import CountedElement, CountedPlaceholders, Known
from masking.measures.tokens import TokenCounter
from masking.model import Decision
from masking.wire.mark_places import count_blocks, is_marked
from masking.wire_format import WireFormat


def count_element(wire: WireFormat, known: Known, counter: TokenCounter) -> CountedElement:
    """Count an element, and keep the outcome with it. A wrong type has no tokens."""
    item = known.item
    texts, others = wire.count_parts(item)
    known.counted = counted = CountedElement(
        digest=digest_element(wire, item),
        tokens=others + sum(map(counter.count, texts)),
        blocks=count_blocks(item),
        is_marked=is_marked(item),
        results=tuple(_count_content(result, counter) for result in known.element.results),
    )
    return counted


def count_placeholders(
    known: Known, decision: Decision, digest: bytes, counter: TokenCounter
) -> CountedPlaceholders:
    """Count the replacements of a result, of which there is one at least.

    `digest` is that of its element before them. What was counted last is kept with the element.
    """
    replacements, start = decision.replacements, len(decision.result.at)
    edits = tuple([(r.path[start:], r.text, r.placeholder) for r in replacements])
    slot = edits[0][0]
    found = known.placeholders.get(slot)
    if found is None or found.digest_before != digest or found.edits != edits:
        mark = digest_of([[list(path), placeholder] for path, _, placeholder in edits])
        found = CountedPlaceholders(
            edits=edits,
            digest_before=digest,
            digest=blake2b(digest + mark, digest_size=16).digest(),
            replaced=sum(r.count_replaced(counter.count) for r in replacements),
            placeholders=sum(counter.count(r.placeholder) for r in replacements),
        )
        known.placeholders = {**known.placeholders, slot: found}
    return found


def digest_elements(conversation: Conversation) -> list[bytes]:
    """Return the digest of each element of a request, as far as possible without its tokens."""
    wire = conversation.wire
    return [
        known.counted.digest if known.counted else digest_element(wire, known.item)
        for known in conversation.known
    ]


def digest_element(wire: WireFormat, item: object) -> bytes:
    """Return the digest of an element, whatever cache marks it carries."""
    return digest_of(wire.unmark(item))


def digest_of(value: object) -> bytes:
    """Return a digest of a decoded JSON value."""
    return blake2b(_spell(value), digest_size=16).digest()


def _count_content(result: Result, counter: TokenCounter) -> int:
    """Return the tokens of a result's texts and images."""
    return sum(map(counter.count, result.texts)) + sum(image.tokens for image in result.images)


def _spell(value: object) -> bytes:
    try:
        return orjson.dumps(value)
    except (TypeError, RecursionError):  # lone surrogates, numbers beyond 64 bits, too deep
        pass
    try:
        return repr(value).encode("utf-8", "backslashreplace")
    except (ValueError, RecursionError):  # numbers of thousands of digits, too deep
        return b""

"""Counts what one element of a request comes to, once for as long as the element is known."""

from collections.abc import Mapping
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
    tokens = {text: counter.count(text) for text in texts}  # those of results are among them
    known.counted = counted = CountedElement(
        digest=digest_element(wire, item),
        tokens=others + sum([tokens[text] for text in texts]),
        blocks=count_blocks(item),
        is_marked=is_marked(item),
        results=tuple([_count_content(each, tokens, counter) for each in known.element.results]),
    )
    return counted


def count_placeholders(
    known: Known,
    decision: Decision,
    digest: bytes,
    counter: TokenCounter,
    content: int | None = None,
) -> CountedPlaceholders:
    """Count the replacements of a result, of which there is one at least.

    `digest` is that of its element before them, `content` the tokens of the result if they are
    known. What was counted last is kept with the element.
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
            replaced=_count_replaced(decision, counter, content),
            placeholders=sum([counter.count(r.placeholder) for r in replacements]),
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


def _count_content(result: Result, known: Mapping[str, int], counter: TokenCounter) -> int:
    """Return the tokens of a result's texts and images; those of some texts are known."""
    tokens = sum([image.tokens for image in result.images])
    for text in result.texts:
        found = known.get(text)
        tokens += counter.count(text) if found is None else found
    return tokens


def _count_replaced(decision: Decision, counter: TokenCounter, content: int | None) -> int:
    """Return the tokens of what is replaced; `content` are those of the whole result, if known."""
    result, replacements = decision.result, decision.replacements
    if content is not None and not result.images and result.texts == (replacements[0].text,):
        return content  # there is one text, and it is replaced
    return sum([r.count_replaced(counter.count) for r in replacements])


def _spell(value: object) -> bytes:
    try:
        return orjson.dumps(value)
    except (TypeError, RecursionError):  # lone surrogates, numbers beyond 64 bits, too deep
        pass
    try:
        return repr(value).encode("utf-8", "backslashreplace")
    except (ValueError, RecursionError):  # numbers of thousands of digits, too deep
        return b""

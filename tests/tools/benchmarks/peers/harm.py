"""Calls that refer to what a side did not send: signs of harm, from the bytes that arrived.

What a model answered to a request stands in the client's next one. A call of the answer re-reads
if it repeats an earlier call, with the same tool and the same arguments, and the request as it
arrived shows none of the results of that any more. It quotes if it has a whole line, of at least
16 characters, that the client's request shows in a tool result, and the request as it arrived
nowhere.

Texts are looked for in all of what arrived, wherever they stand. So it matters neither into which
format a side translates, nor whether it writes JSON anew.
"""

import json
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import takewhile
from typing import NamedTuple

from addon.replay.replay import RecordedRequest
from addon.replay.reread import find_quoted_lines, find_shown_lines
from masking.accounting import LatestRequests, digest_elements, hash_prefixes
from masking.conversation import Conversation
from masking.model import Call
from masking.request_cache import RequestCache
from masking.window import call_key


class Harm(NamedTuple):
    """How many calls there were, and how many of them re-read or quote what was not sent."""

    calls: int = 0
    rereads: int = 0
    quotes: int = 0

    def plus(self, other: "Harm") -> "Harm":
        """Return the counts of two groups of calls together."""
        return Harm(*(one + another for one, another in zip(self, other, strict=True)))


class Reference(NamedTuple):
    """What a call refers to in the request that it answers, as the client wrote that.

    repeats: for each result of an equal call before it, its texts.
    quotes: those of its lines that some result shows.
    """

    repeats: Sequence[Sequence[str]] = ()
    quotes: frozenset[str] = frozenset()


References = Sequence[Sequence[Reference]]
"""For each request of a conversation, what each call refers to that answers it."""


def find_references(requests: Sequence[RecordedRequest]) -> References:
    """Return what the calls refer to that answer the requests of a client."""
    cache, latest = RequestCache(), LatestRequests[int]()
    conversations = [request.read(cache) for request in requests]
    found: list[Sequence[Reference]] = [()] * len(requests)
    for number, conversation in enumerate(conversations):
        prefixes = hash_prefixes(b"", digest_elements(conversation))
        before, messages = latest.find(prefixes)
        if before is not None:
            new = conversation.elements[messages:]
            answer = takewhile(lambda element: element.speaker == "assistant", new)
            calls = [call for element in answer for call in element.calls]
            found[before] = [*_refer(calls, conversations[before])]
        latest.replace(prefixes, messages, number)
    return found


def count_harm(references: References, arrived: Sequence[bytes | None]) -> Harm:
    """Count the calls that refer to what is not in the bodies that arrived.

    `arrived` has a body for each request; None where there is none, and nothing is counted.
    """
    calls = rereads = quotes = 0
    for answer, body in zip(references, arrived, strict=True):
        if body is None:
            continue
        shown = Shown(body)
        for reference in answer:
            calls += 1
            rereads += bool(reference.repeats) and not any(
                all(map(shown.has_text, texts)) for texts in reference.repeats
            )
            quotes += not all(map(shown.has_line, reference.quotes))
    return Harm(calls, rereads, quotes)


class Shown:
    """The texts that a request shows; decoded once something is asked."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def has_line(self, line: str) -> bool:
        """Whether a line stands in one of its texts."""
        return any(line in text for text in self._texts)

    def has_text(self, text: str) -> bool:
        """Whether a text stands in one of its texts, whatever blanks it is written with."""
        squeezed = _squeeze(text)
        return any(squeezed in each for each in self._squeezed)

    @cached_property
    def _texts(self) -> Sequence[str]:
        return [*_find_texts(json.loads(self._body))]

    @cached_property
    def _squeezed(self) -> Sequence[str]:
        return [*map(_squeeze, self._texts)]


def _refer(calls: Sequence[Call], before: Conversation) -> Iterator[Reference]:
    """Yield what each of these calls refers to in the request that they answer."""
    keys = [call_key(result.tool, result.arguments) for result in before.results]
    shown = frozenset(line for each in before.results for line in find_shown_lines(each.texts))
    for call in calls:
        wanted = call_key(call.tool, call.arguments)
        yield Reference(
            [
                result.texts
                for key, result in zip(keys, before.results, strict=True)
                if key == wanted and result.turn is not None
            ],
            shown.intersection(find_quoted_lines(_find_texts(call.arguments))),
        )


def _find_texts(value: object) -> Iterator[str]:
    """Yield all texts in a decoded value, also those in a text that is JSON."""
    left = [value]
    while left:
        match left.pop():
            case dict() as members:
                left += members.values()
            case list() as items:
                left += items
            case str() as text:
                yield text
                if text.lstrip()[:1] in ("{", "["):
                    try:
                        left.append(json.loads(text))
                    except ValueError:
                        continue


def _squeeze(text: str) -> str:
    return "".join(text.split())

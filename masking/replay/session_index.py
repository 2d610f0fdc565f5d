"""A session, decoded once, so that many policies can be tried on it.

It is cut into stretches: requests that each begin with all the messages of the one before, under
the same tools. What is found in the last request of a stretch holds for all of them.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import accumulate
from typing import NamedTuple

from masking.accounting.prefix_cache import Piece, chain
from masking.accounting.prompt import digest_of, digest_of_message, read_prompt
from masking.errors import WireError
from masking.measures.pricing import Pricing, find_pricing, heed_marks
from masking.measures.tokens import TokenCounter
from masking.model import Layout, ToolHistory
from masking.replay.replay import RecordedRequest, ReplaySettings, Session
from masking.replay.reread import Reference, find_references
from masking.rewrite import read_request
from masking.wire.chat import find_tool_results, lay_out


class Send(NamedTuple):
    """A request of a stretch: how many of the last one's messages it had, and what was in them.

    `answers` are messages of the assistant, `turns` and `results` those of tools.
    """

    when: datetime
    messages: int
    answers: int
    turns: int
    results: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Requests of which each continues the one before; all but `sends` is the last one's.

    `seed` tells prompts apart that have nothing in common, `pieces` are the tool schemas and the
    messages, and `follows` is the stretch whose conversation this one goes on with other tools.
    """

    seed: bytes
    pricing: Pricing
    follows: int | None
    sends: tuple[Send, ...]
    pieces: tuple[Piece, ...]
    history: ToolHistory
    layout: Layout
    references: tuple[Reference, ...]


class Place(NamedTuple):
    """A request of a session: its stretch, and its number in that."""

    stretch: int
    request: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """The stretches of a session, and its requests in the order in which they were sent."""

    stretches: tuple[Stretch, ...]
    order: tuple[Place, ...]

    @property
    def conversations(self) -> list[int]:
        """For each request, in order, the number of its conversation: its first stretch's."""
        roots: list[int] = []
        for number, stretch in enumerate(self.stretches):
            roots.append(number if stretch.follows is None else roots[stretch.follows])
        return [roots[place.stretch] for place in self.order]

    def references_by_request(self) -> Mapping[Place, Sequence[Reference]]:
        """Return what the calls refer to that answer each request."""
        found: defaultdict[Place, list[Reference]] = defaultdict(list)
        for number, stretch in enumerate(self.stretches):
            for reference in stretch.references:
                found[Place(number, reference.request)].append(reference)
        return found


def read_transcript(
    session: Session, settings: ReplaySettings, counter: TokenCounter
) -> Transcript:
    """Decode a session; of the settings only prices, model and time to live matter.

    A body that is no Chat Completions request is passed over. Cache markers in messages are of no
    account: a message is taken as the last request spells it. Takes as long as decoding and
    digesting all the requests; the tokens of a message are counted once.
    """
    reader = _Reader(settings)
    for recorded in session.requests():
        document = _read_request(recorded)
        if document is not None:
            reader.take(recorded, document)
    targets = settings.policy.target_arguments
    return Transcript(
        stretches=tuple(growth.finish(counter, targets) for growth in reader.growths),
        order=tuple(reader.order),
    )


def _read_request(recorded: RecordedRequest) -> Mapping[str, object] | None:
    if recorded.passed_over is not None:
        return None
    try:
        document = read_request(recorded.body)
    except WireError:
        return None
    return document if isinstance(document.get("messages"), list) else None


@dataclass(slots=True, kw_only=True)
class _Growth:
    """A stretch as it grows."""

    seed: bytes
    pricing: Pricing
    tools: bytes
    follows: int | None
    document: Mapping[str, object] = field(default_factory=dict)
    sent: list[tuple[datetime, int]] = field(default_factory=list)

    def finish(self, counter: TokenCounter, target_arguments: Sequence[str]) -> Stretch:
        history = find_tool_results(self.document, target_arguments)
        layout = lay_out(self.document)
        messages = _messages(self.document)
        answers = {
            count: request
            for request, (_, count) in enumerate(self.sent)
            if count < len(messages) and _has_role(messages[count], "assistant")
        }
        return Stretch(
            seed=self.seed,
            pricing=self.pricing,
            follows=self.follows,
            sends=tuple(self._count_sends(messages, layout)),
            pieces=read_prompt(self.document, (), counter).before,
            history=history,
            layout=layout,
            references=find_references(self.document, history.results, answers),
        )

    def _count_sends(self, messages: list[object], layout: Layout) -> list[Send]:
        answers = _count_role(messages, "assistant")
        results = _count_role(messages, "tool")
        return [
            Send(when, n, answers[n], layout.requests[answers[n]].turns, results[n])
            for when, n in self.sent
        ]


class _Reader:
    """Cuts a session into stretches. A request continues the latest conversation it begins with."""

    def __init__(self, settings: ReplaySettings) -> None:
        self.growths: list[_Growth] = []
        self.order: list[Place] = []
        self._settings = settings
        self._latest: dict[bytes, int] = {}

    def take(self, recorded: RecordedRequest, document: Mapping[str, object]) -> None:
        """Take in a request, the next of the session."""
        model = self._settings.model or _string(document.get("model"))
        seed = digest_of([recorded.host, model, recorded.account])
        prefixes = chain(seed, [digest_of_message(message) for message in _messages(document)])
        found = self._find_latest(prefixes)
        tools = digest_of(document.get("tools"))
        if found is None or self.growths[found].tools != tools:
            pricing = self._find_pricing(recorded, model)
            self.growths.append(_Growth(seed=seed, pricing=pricing, tools=tools, follows=found))
            found = len(self.growths) - 1
        growth = self.growths[found]
        self.order.append(Place(found, len(growth.sent)))
        growth.document = document
        growth.sent.append((recorded.when, len(prefixes)))
        if prefixes:
            self._latest[prefixes[-1]] = found

    def _find_pricing(self, recorded: RecordedRequest, model: str | None) -> Pricing:
        settings = self._settings
        host = None if settings.model else recorded.host
        pricing = heed_marks(
            find_pricing(settings.price_settings, host, model), host, recorded.body
        )
        return (
            pricing
            if settings.ttl is None
            else replace(pricing, rules=replace(pricing.rules, ttl=settings.ttl))
        )

    def _find_latest(self, prefixes: list[bytes]) -> int | None:
        for prefix in reversed(prefixes):
            if prefix in self._latest:
                return self._latest.pop(prefix)
        return None


def _messages(document: Mapping[str, object]) -> list[object]:
    messages = document.get("messages")
    return messages if isinstance(messages, list) else []


def _count_role(messages: list[object], role: str) -> list[int]:
    """Return how many messages of a role there are before each place."""
    return [*accumulate((_has_role(message, role) for message in messages), initial=0)]


def _has_role(message: object, role: str) -> bool:
    return isinstance(message, dict) and message.get("role") == role


def _string(value: object) -> str | None:
    return value if isinstance(value, str) else None

"""A conversation under three policies: everything sent, a sliding window, and the chosen one."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from addon.replay.first_masked import NEVER
from addon.replay.replay import ReplayedRequest, ReplaySettings, Session, replay
from addon.replay.reread import NO_REREADS, Reference, Rereads, count_rereads
from addon.replay.session_index import index_session
from masking.model import CHANGES
from masking.tokens import TokenCounter


class ComparedRequest(NamedTuple):
    """A request with the window sliding and under the chosen policy, and what its calls refer to.

    Both have the bill of sending everything, as the bill before masking.
    """

    sliding: ReplayedRequest
    chosen: ReplayedRequest
    sliding_rereads: Rereads = NO_REREADS
    chosen_rereads: Rereads = NO_REREADS

    @property
    def conversation(self) -> int:
        """The number of its conversation, which is unique in a session."""
        return self.chosen.entry.conversation


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A conversation's requests in order, with the window sliding and under the chosen policy."""

    name: str
    window_turns: int
    sliding: tuple[ReplayedRequest, ...]
    chosen: tuple[ReplayedRequest, ...]
    sliding_rereads: Rereads
    chosen_rereads: Rereads


def compare(
    session: Session,
    settings: ReplaySettings,
    counter: TokenCounter,
    passed_over: Counter[str] | None = None,
) -> list[Comparison]:
    """Replay a session and keep its requests; return its conversations.

    Requests that cannot be replayed are counted in `passed_over`, by reason.
    """
    found: defaultdict[int, list[ComparedRequest]] = defaultdict(list)
    for compared in compare_requests(session, settings, counter, passed_over):
        found[compared.conversation].append(compared)
    names = name_conversations(session.name, found)
    return [gather(names[number], settings, requests) for number, requests in found.items()]


def name_conversations(name: str, numbers: Collection[int]) -> dict[int, str]:
    """Return the names of a session's conversations: the session's, numbered if it has several."""
    return {number: f"{name} #{number}" if len(numbers) > 1 else name for number in numbers}


def gather(name: str, settings: ReplaySettings, requests: Sequence[ComparedRequest]) -> Comparison:
    """Return a conversation of these requests."""
    return Comparison(
        name=name,
        window_turns=settings.policy.window_turns,
        sliding=tuple(request.sliding for request in requests),
        chosen=tuple(request.chosen for request in requests),
        sliding_rereads=sum((each.sliding_rereads for each in requests), start=NO_REREADS),
        chosen_rereads=sum((each.chosen_rereads for each in requests), start=NO_REREADS),
    )


def compare_requests(
    session: Session,
    settings: ReplaySettings,
    counter: TokenCounter,
    passed_over: Counter[str] | None = None,
) -> Iterator[ComparedRequest]:
    """Replay a session; yield its requests in order.

    The session is read once to index it, and then twice at the same time. In between, memory holds
    the last request of each conversation, and what the calls of each request refer to.
    """
    index = index_session(session, settings, counter)
    order, references = index.order, index.references_by_request()
    del index
    chosen = replay(session, settings, counter, passed_over)
    sliding = replay(session, replace(settings, slides=True), counter)
    for place, slid, chose in zip(order, sliding, chosen, strict=True):
        found = references.get(place, ())
        yield ComparedRequest(slid, chose, _count(found, slid), _count(found, chose))


def _count(references: Sequence[Reference], request: ReplayedRequest) -> Rereads:
    """Return the calls that refer to what their request no longer showed.

    Each request is looked at, because some strategies show a result again that they had replaced.
    """
    if not references:
        return NO_REREADS
    return count_rereads(
        references, [0 if reason in CHANGES else NEVER for reason in request.reasons]
    )

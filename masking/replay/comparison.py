"""A conversation under three policies: everything sent, the window sliding, and the chosen one."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from masking.measures.tokens import TokenCounter
from masking.reasons import CHANGES
from masking.replay.first_masked import NEVER
from masking.replay.replay import ReplayedRequest, ReplaySettings, Session, replay
from masking.replay.reread import Rereads, count_rereads
from masking.replay.session_index import SessionIndex, index_session


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A conversation's requests in order, with the window sliding and under the chosen policy.

    Both have the bill of sending everything, as the bill before masking.
    """

    name: str
    window_turns: int
    sliding: tuple[ReplayedRequest, ...]
    chosen: tuple[ReplayedRequest, ...]
    sliding_rereads: Rereads
    chosen_rereads: Rereads

    @property
    def was_masked_before(self) -> bool:
        """Whether results were masked already when they were recorded.

        Looked for where the window slides, and so judges all results that it has left behind.
        """
        return any("already_masked" in request.reasons for request in self.sliding)


def compare(
    session: Session,
    settings: ReplaySettings,
    counter: TokenCounter,
    passed_over: Counter[str] | None = None,
) -> list[Comparison]:
    """Replay a session; return its conversations, numbered if there are several.

    Requests that cannot be replayed are counted in `passed_over`, by reason.
    """
    chosen = [*replay(session, settings, counter, passed_over)]
    sliding = [*replay(session, replace(settings, slides=True), counter)]
    index = index_session(session, settings, counter)
    rereads = [_count_rereads(requests, index) for requests in (sliding, chosen)]
    slid, chose = _split(sliding), _split(chosen)
    return [
        Comparison(
            name=f"{session.name} #{number}" if len(chose) > 1 else session.name,
            window_turns=settings.policy.window_turns,
            sliding=tuple(slid[number]),
            chosen=tuple(requests),
            sliding_rereads=rereads[0][number],
            chosen_rereads=rereads[1][number],
        )
        for number, requests in chose.items()
    ]


def _split(requests: Iterable[ReplayedRequest]) -> dict[int, list[ReplayedRequest]]:
    split: defaultdict[int, list[ReplayedRequest]] = defaultdict(list)
    for request in requests:
        split[request.entry.conversation].append(request)
    return split


def _count_rereads(requests: Sequence[ReplayedRequest], index: SessionIndex) -> dict[int, Rereads]:
    """Return, by conversation, the calls that refer to what their request no longer showed.

    Each request is looked at, because some strategies show a result again that they had replaced.
    """
    references = index.references_by_request()
    found: defaultdict[int, Rereads] = defaultdict(Rereads)
    for request, place in zip(requests, index.order, strict=True):
        hidden = [0 if reason in CHANGES else NEVER for reason in request.reasons]
        found[request.entry.conversation] += count_rereads(references[place], hidden)
    return found

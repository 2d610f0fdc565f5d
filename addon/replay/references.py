"""What the calls of a session refer to, request by request, whatever is masked of them."""

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from addon.replay.replay import ReplaySettings, Session
from addon.replay.reread import Reference, find_references
from masking.accounting import LatestRequests, digest_elements, hash_prefixes
from masking.arrival import ArrivalPolicy
from masking.conversation import Conversation
from masking.errors import WireError
from masking.request_cache import RequestCache
from masking.rewrite import Strategies
from masking.window import is_summary_request


class SessionReferences:
    """The references of a session, by the number of the request that a call answers.

    They are found once for all settings that shorten results alike when these arrive.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._found: dict[Hashable, Mapping[int, Sequence[Reference]]] = {}

    def find(self, settings: ReplaySettings) -> Mapping[int, Sequence[Reference]]:
        """Return what the calls that answer each request refer to."""
        ruled = (_find_arrival(own.strategies) for _, own in settings.rules)
        key = settings.model, _find_arrival(settings.strategies), *ruled
        if key not in self._found:
            self._found[key] = find_session_references(self._session, settings)
        return self._found[key]


def find_session_references(
    session: Session, settings: ReplaySettings
) -> Mapping[int, Sequence[Reference]]:
    """Read a session; return, by request, what the calls that answer it refer to.

    Requests are numbered from 1. Only model and arrival of the settings matter. Memory holds the
    last request of each conversation: it has all calls.
    """
    talks: list[_Talk] = []
    latest: LatestRequests[_Talk] = LatestRequests()
    cache = RequestCache()
    for number, recorded in enumerate(session.requests(), 1):
        try:
            conversation = recorded.read(cache)
        except WireError:
            continue
        strategies = settings.choose(recorded, conversation).strategies
        if settings.model is not None:
            conversation.request.name_model(settings.model)
        prefixes = hash_prefixes(
            settings.cache_scope(recorded, conversation), digest_elements(conversation)
        )
        talk, continued = latest.find(prefixes)
        if talk is None:
            talks.append(talk := _Talk(conversation))
        elif is_summary_request(conversation):
            continue  # the conversation goes on as if it had not been
        talk.last, talk.arrival = conversation, _find_arrival(strategies)
        talk.requests[len(prefixes)] = number
        latest.replace(prefixes, continued, talk)
    found: defaultdict[int, list[Reference]] = defaultdict(list)
    for talk in talks:
        for reference in talk.find_references():
            found[reference.request].append(reference)
    return found


def _find_arrival(strategies: Strategies) -> ArrivalPolicy | None:
    """Return by which policy results are shortened; None if none is."""
    arrival = strategies.arrival
    return arrival if strategies.shortens and arrival.enabled else None


@dataclass(slots=True)
class _Talk:
    """A conversation: its last request, and the number of each by how many elements it had."""

    last: Conversation
    requests: dict[int, int] = field(default_factory=dict)
    arrival: ArrivalPolicy | None = None

    def find_references(self) -> Sequence[Reference]:
        speakers = [element.speaker for element in self.last.elements]
        answers = {
            count: number
            for count, number in self.requests.items()
            if speakers[count : count + 1] == ["assistant"]
        }
        return find_references(self.last, answers, self.arrival)

"""Policies with the prices that a test plays them at, and the core's functions for these."""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property

from masking import messages_api, window
from masking.conversation import Conversation
from masking.history import History
from masking.memory import ConversationContext
from masking.model import ChatMessage, Decision
from masking.prices import PriceStep, ReadsAt
from masking.proof import Prover
from masking.rewrite import Rewrite, Step, Strategies, read_request
from masking.window import FREE, BoundaryPosition, BoundaryPrices, MaskPolicy
from masking.window.boundary import Boundary, Candidate, Layout, RequestSize, SentMoves
from masking.window.decide import evaluate as evaluate_results
from masking.window.decide import measure_candidates as measure_results
from masking.wire.chat import CHAT
from masking.wire.format import WireFormat


@dataclass(frozen=True, kw_only=True)
class PricedPolicy(MaskPolicy):
    """A policy, and the prices by which its boundary moves: by default the window slides."""

    cache_read_ratio: float = 1.0
    cache_write_ratio: float = 1.0
    price_steps: tuple[PriceStep, ...] = ()
    shortest_prefix: int = 0
    reads_at: ReadsAt = "any prefix"
    model_window: int | None = None

    @cached_property
    def prices(self) -> BoundaryPrices:
        return BoundaryPrices(
            self.cache_read_ratio,
            self.cache_write_ratio,
            self.price_steps,
            self.shortest_prefix,
            self.reads_at,
            self.model_window,
        )


def at_prices(policy: MaskPolicy, /, **changes: object) -> PricedPolicy:
    """Return a policy with some fields changed; with its own prices if it has any."""
    own = {field.name: getattr(policy, field.name) for field in fields(policy)}
    return PricedPolicy(**own | changes)


def prices_of(policy: MaskPolicy) -> BoundaryPrices:
    return policy.prices if isinstance(policy, PricedPolicy) else FREE


def rewrite_request(
    request: bytes | Conversation,
    strategies: MaskPolicy | Strategies,
    wire: WireFormat = CHAT,
    path: str = "",
    prices: BoundaryPrices | None = None,
    *,
    only: Container[int] | None = None,
    context: ConversationContext | None = None,
    account_accepts_edits: bool = False,
    prover: Prover | None = None,
) -> Rewrite:
    """Rewrite a request, or a conversation that was read, with a past that a test has made."""
    if isinstance(strategies, MaskPolicy):
        strategies = Strategies(schema1=strategies)
    client = read_request(request, wire, path) if isinstance(request, bytes) else request
    prices = prices_of(strategies.schema1) if prices is None else prices
    step = Step(client, strategies, prices, only=only, prover=prover or Prover())
    step.context = context
    return step.rewrite(account_accepts_edits=account_accepts_edits)


def mask_old_tool_results(messages: list[ChatMessage], policy: MaskPolicy) -> list[ChatMessage]:
    return messages_api.mask_old_tool_results(messages, policy, prices_of(policy))


def decide(conversation: Conversation, policy: MaskPolicy) -> tuple[Decision, ...]:
    return window.decide(conversation, policy, prices_of(policy)).decisions


def evaluate(conversation: Conversation, policy: MaskPolicy) -> list[Decision]:
    slides = prices_of(policy).slides
    rendering = policy.rendering if slides else policy.shrinking_rendering
    return evaluate_results(conversation.results, policy, rendering, conversation.history)


def measure_candidates(evaluated: Sequence[Decision], layout: Layout) -> list[Candidate]:
    return measure_results(evaluated, layout, History())


def find_boundary(
    requests: Iterable[RequestSize],
    results: Sequence[Candidate],
    policy: MaskPolicy,
    marked: int = 0,
    history: History | None = None,
) -> BoundaryPosition:
    """Return where the boundary stands at the last of a conversation's requests."""
    boundary = _begin_last(requests, results, policy, None, marked, history)
    boundary.decide()
    return boundary.position


def find_boundaries(
    requests: Iterable[RequestSize],
    results: Sequence[Candidate],
    policy: MaskPolicy,
    marked: int = 0,
) -> list[BoundaryPosition]:
    """Return where it stands at each of them, in one pass."""
    boundary = Boundary(results, policy, prices_of(policy), marked)
    positions = []
    for request in requests:
        boundary.begin(request)
        boundary.decide()
        boundary.send()
        positions.append(boundary.position)
    return positions


def allows_whole(
    requests: Iterable[RequestSize],
    results: Sequence[Candidate],
    policy: MaskPolicy,
    sent: SentMoves | None = None,
    marked: int = 0,
) -> bool:
    """Whether the last request may be sent with nothing masked."""
    return _begin_last(requests, results, policy, sent, marked, None).allows_whole()


def _begin_last(
    requests: Iterable[RequestSize],
    results: Sequence[Candidate],
    policy: MaskPolicy,
    sent: SentMoves | None,
    marked: int,
    history: History | None,
) -> Boundary:
    layout = Layout((*requests,), marked=marked)
    history = History() if history is None else history
    return Boundary.at_last(layout, results, policy, prices_of(policy), sent, history)

"""The roads: what can be done about old tool results, what each gives up, what each would cost.

One road is on as shipped. The others give up something that not everybody wants to lose, so a user
chooses them. `OtherRoads` goes along those that are open to a conversation and not taken, so that
they can be billed beside it.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Literal, NamedTuple

from masking.accounting import Bill, Entry, Ledger, Prompt, Sent, read_prompt
from masking.conversation import take_apart
from masking.errors import WireError
from masking.memory import BoundaryMemory, Memories
from masking.model import places_masked
from masking.prices import Pricing
from masking.rewrite import Rewrite, Step, Strategies
from masking.tokens import TokenCounter
from masking.wire import OnHistoryEdit

RoadName = Literal["mask", "shorten", "clear", "drop"]


@dataclass(frozen=True, kw_only=True)
class Road:
    """A way to save, for people and for the code that takes it.

    option, help: of `obsmask run`; empty for what is on as shipped.
    settings: what switches it on for good, by the setting's path.
    gives_up: what it costs besides money.
    open_to: for whom it is there.
    bindings: what the provider may do to changed results where the model binds its reasoning.
    adds_output: whether its answers may grow.
    adapt: returns the strategies with which a request goes this way.
    asks: what `Step.rewrite` is called with.
    is_open: whether a request can go this way.
    """

    name: RoadName
    option: str = ""
    help: str = ""
    settings: Mapping[str, object] = field(default_factory=dict)
    gives_up: str
    open_to: str
    bindings: tuple[OnHistoryEdit, ...] = ("refuses", "may_refuse", "drops")
    adds_output: bool = False
    adapt: Callable[[Strategies], Strategies] = lambda strategies: strategies
    asks: Mapping[str, bool] = field(default_factory=dict)
    is_open: Callable[[Step], bool] = lambda _: True

    def is_taken(self, settings: object) -> bool:
        """Whether settings switch it on; they are `Settings`, or alike."""
        return all(attrgetter(path)(settings) == value for path, value in self.settings.items())


def _shorten(strategies: Strategies) -> Strategies:
    return replace(strategies, arrival=replace(strategies.arrival, enabled=True))


def _drop(strategies: Strategies) -> Strategies:
    return replace(strategies, schema1=replace(strategies.schema1, bound_reasoning="drop"))


ROADS: Mapping[str, Road] = {
    road.name: road
    for road in (
        Road(
            name="mask",
            gives_up="The old results, which the agent may ask for again.",
            open_to="Models that don't bind their reasoning, and accounts that accept changed "
            "results all the same.",
        ),
        Road(
            name="shorten",
            option="--shorten",
            help="Also cut long tool output down to its beginning and end, from the first time it "
            "is sent.",
            settings={"arrival.enabled": True},
            gives_up="The middle of long results.",
            open_to="Every model.",
            adapt=_shorten,
        ),
        Road(
            name="clear",
            option="--provider-clearing",
            help="For models that reject changed tool results: have Anthropic clear old ones (a "
            "beta).",
            settings={"schema1.provider_clearing": True},
            gives_up="The old results, with errors and short ones among them.",
            open_to="Claude models that bind their reasoning, at Anthropic's own API or one like "
            "it; not at Bedrock or Vertex, behind Envoy, or in LiteLLM.",
            bindings=("refuses", "may_refuse"),
            asks={"clears": True},
            is_open=lambda step: step.can_clear,
        ),
        Road(
            name="drop",
            option="--drop-reasoning",
            help="For models that bind their reasoning to tool results: mask old ones, and give up "
            "the reasoning after them.",
            settings={"schema1.bound_reasoning": "drop"},
            gives_up="The model's earlier reasoning. It may think anew, which is more output: "
            "threefold in one published test.",
            open_to="As `clear`; and OpenAI's models from gpt-5.6.",
            adds_output=True,
            adapt=_drop,
            asks={"drops": True},
            is_open=lambda step: step.can_drop or step.conversation.binding == "drops",
        ),
    )
}
"""All roads, in the order in which people read them."""

OPTIONAL_ROADS = tuple(road for road in ROADS.values() if road.option)
"""Those that a user may switch on."""


class Untaken(NamedTuple):
    """A request as it would go out by another road; its prompt is counted."""

    road: RoadName
    rewrite: Rewrite
    prompt: Prompt


class OtherRoads:
    """Goes along the roads that were not taken, request by request, and bills them; in one thread.

    Each has a memory and a ledger of its own, as if its user had chosen it from the start.
    """

    def __init__(self) -> None:
        self._memories = {road.name: Memories(BoundaryMemory()) for road in OPTIONAL_ROADS}
        self._ledgers = {road.name: Ledger() for road in OPTIONAL_ROADS}

    def go(
        self,
        step: Step,
        taken: Collection[RoadName],
        counter: TokenCounter,
        *,
        account_accepts_edits: bool = False,
    ) -> Iterator[Untaken]:
        """Yield a request as it would go out by each road that is open to it and not `taken`.

        step: one that shows all of its conversation.
        account_accepts_edits: as in `Step.rewrite`; there is nothing to be cleared or dropped then.

        One that cannot be made and proven is left out.
        """
        for road in OPTIONAL_ROADS:
            if (
                road.name in taken
                or not road.is_open(step)
                or (account_accepts_edits and road.asks)
            ):
                continue
            with suppress(WireError):
                own = Step(
                    take_apart(step.client, road.name),
                    road.adapt(step.strategies),
                    step.prices,
                    self._memories[road.name],
                    purpose=step.purpose,
                    now=step.now,
                    lifetime=step.lifetime,
                )
                rewrite = own.rewrite(account_accepts_edits=account_accepts_edits, **road.asks)
                own.remember(rewrite)
                yield Untaken(road.name, rewrite, read_prompt(rewrite, counter))

    def enter(
        self, entry: Entry, untaken: Sequence[Untaken], sent: Sent, pricing: Pricing
    ) -> Entry:
        """Return the entry of a request with its bill beside those of other roads.

        sent: the request as it was sent, with what the provider counted of that.
        """
        if not untaken:
            return entry
        pieces = sent.pieces
        if pieces is None and sent.is_masked and sent.prompt.altered:
            pieces = sent.prompt.after
        sent = replace(sent, is_masked=False, removed=None, pieces=pieces)
        bills: dict[str, Bill] = {}
        for road, rewrite, prompt in untaken:
            masked, left_unmasked = places_masked(rewrite.decisions), rewrite.left_unmasked
            own = replace(sent, prompt=prompt, masked=masked, left_unmasked=left_unmasked)
            bills[road] = self._ledgers[road].enter(own, pricing).bill
        return replace(entry, bill=entry.bill.set_beside(bills))

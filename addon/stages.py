"""The stages that a request passes through: received, rewritten, answered. None is ever changed.

They exist in memory only, and hold what no record may tell: whose request it is, its settings, the
digests of its prompt.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import blake2b
from typing import Literal, NamedTuple

from addon.accounts import Verdict
from addon.quota import QuotaWindow
from masking.accounting import Places, Prompt, Sizes
from masking.arrival import Truncated
from masking.config import RequestFacts, Settings, find_settings
from masking.memory import PrefixState
from masking.prices import Pricing
from masking.roads import Untaken
from masking.window import BoundaryPrices
from masking.wire import Cleared, OnHistoryEdit, Purpose, Usage, WireFormat

Group = Literal["holdout"]
"""The group of a conversation that is observed only, so that the others can be compared with it."""

Resent = Literal["accepted", "refused"]
"""What came of sending a request as the client wrote it after a 400; no answer is a refusal."""

Clearing = Literal["possible", "asked", "refused"]
"""Whether a provider could clear old results, was asked to, or refused the request that asked."""

Dropping = Literal["asked", "refused"]
"""Whether a provider was asked to drop reasoning that no longer fits, or refused to."""

Interruption = Literal["client left", "provider failed", "proxy ended", "broken off"]
"""Why a response ended early; "broken off" where the engine does not say by whom."""


class Run(NamedTuple):
    """A run of the proxy: its random name, and the tag that its user gave it."""

    name: str
    tag: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A request as it arrived; its names are `printable`.

    run: the run of the proxy that it came to.
    wire, purpose: its format, and what it asks for.
    client: the program that sent it; None if it does not say.
    subscription: whether its credential is a subscription's.
    account: tells its credential apart from others.
    credential: the same for good; a digest of the credential itself.
    headers: those that rules ask for, by their names in lower case.
    session: the id that its client gives the session; None if it gives none.
    settings: those in force; once its model is known, those of the first rule that fits it.
    replay: whether it comes from a recording.
    answers_masked: whether its answer is one to the masked prompt; that of a recording is one to
        the prompt before masking.
    """

    time: datetime
    run: Run
    host: str
    path: str
    wire: WireFormat
    purpose: Purpose
    client: str | None
    subscription: bool
    account: bytes
    settings: Settings
    replay: bool
    answers_masked: bool
    headers: Mapping[str, str] = field(default_factory=dict)
    session: str | None = None
    credential: bytes = b""

    @property
    def place(self) -> bytes:
        """What tells its host and its account apart from others, at most 64 bytes."""
        return blake2b(self.host.encode("utf-8", "replace") + b"\n" + self.account).digest()[:32]

    def choose_settings(self, model: str | None) -> "Received":
        """Return the request with the settings that hold for it, given its model, if known."""
        facts = RequestFacts(self.host, model, self.path, self.client, self.headers)
        settings = find_settings(self.settings, facts)
        return self if settings is self.settings else replace(self, settings=settings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Priced:
    """What a request says about itself, and what its tokens cost.

    `cache_scope` tells host, model and credential apart. The boundary moves by the `prices`. After
    `lifetime`, in seconds, the provider has most likely forgotten the prompt.
    """

    model: str | None
    stream: bool
    cache_scope: bytes
    pricing: Pricing
    prices: BoundaryPrices
    lifetime: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewritten:
    """A request as it goes on; bytes as on the wire.

    priced: None if the request could not be read.
    prefix: None if nothing is remembered of conversations.
    binding: what becomes of the model's reasoning if a text before it has changed.
    masked: the places of the tool results that are masked.
    left_unmasked: whether the window masks nothing, because an agent asks for a summary.
    passed_through: why it goes on untouched; None if it does not.
    observed: whether it goes on untouched though all was decided; what is after masking is then
        reckoned.
    group: the group of its conversation, where there is a hold-out; None if it is masked.
    hook_us: the microseconds that it waited for the addon.
    resent: what came of sending it whole once it was refused masked; None if it was sent once.
    tried: whether it went out masked to find out whether its account takes that.
    account: what is known of that, where it matters and is known.
    clearing: whether the provider was, or could be, asked to clear old results; None if not.
    clearing_tokens: how many tokens that takes out of the prompt, by estimate.
    dropping: whether the provider was asked to drop reasoning, or refused the request that asked.
    left_out: what is left out of it though it passes through, as its provider holds the history.
    """

    received: Received
    bytes_before: int
    bytes_after: int
    priced: Priced | None = None
    prefix: PrefixState | None = None
    binding: OnHistoryEdit | None = None
    masked: frozenset[int] = frozenset()
    left_unmasked: bool = False
    passed_through: str | None = None
    observed: bool = False
    group: Group | None = None
    hook_us: int | None = None
    resent: Resent | None = None
    tried: bool = False
    account: Verdict | None = None
    clearing: Clearing | None = None
    clearing_tokens: int = 0
    dropping: Dropping | None = None
    left_out: Truncated | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What was measured of a request; `prompt` is None if its tokens were not counted.

    `conversation_id` is the digest of its conversation. `repeated` has, for each call of its newest
    answer that repeats earlier ones, the places of their results. `shortened` are the places of the
    results that are sent shortened, and `quotes` counts the calls of that answer which quote what
    was left out of them. `folder` is the last part of the name of the one that the agent says it
    works in, and `user` what it says of its user. `untaken` is the request by the roads that were
    not taken.
    """

    sizes: Sizes
    conversation_id: str
    prompt: Prompt | None
    repeated: tuple[Places, ...] = ()
    shortened: frozenset[int] = frozenset()
    quotes: int = 0
    folder: str | None = None
    user: str | None = None
    untaken: Sequence[Untaken] = ()

    def without_clearing(self) -> "Measured":
        """Return what is true if the provider has cleared nothing of what it was asked to."""
        sizes, prompt = self.sizes, self.prompt
        cleared = sum(count for count, reason in sizes.result_reasons if reason == "cleared")
        reasons = ((n, "bound" if each == "cleared" else each) for n, each in sizes.result_reasons)
        return replace(
            self,
            prompt=prompt and replace(prompt, after=prompt.before),
            sizes=replace(
                sizes,
                masked=sizes.masked - cleared,
                masked_images=0,
                kept=Counter(sizes.kept) + Counter(bound=cleared),
                result_reasons=tuple(reasons),
                tool_chars_after=sizes.tool_chars_before,
                request_tokens_after=sizes.request_tokens_before,
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A request that has ended, with an answer or without one.

    `measured` is None if it could not be read, `conversation_id` if its history is not known,
    `usage` if the provider reported none, `first_chunk_seconds` if the answer was no stream.
    `transformations` counts what the provider says it changed about the request, by its kind, and
    `cleared` has what it says it cleared, None if it says nothing. `quota` is what it tells of the
    plan's, and `quota_account` a tag of the account whose it is.
    """

    rewritten: Rewritten
    measured: Measured | None = None
    conversation_id: str | None = None
    status: int | None = None
    error: Interruption | None = None
    usage: Usage | None = None
    first_chunk_seconds: float | None = None
    transformations: Mapping[str, int] = field(default_factory=dict)
    cleared: Cleared | None = None
    quota: tuple[QuotaWindow, ...] = ()
    quota_account: str | None = None

    def complete(
        self,
        measured: Measured | None,
        conversation_id: str | None,
        usage: Usage | None,
        transformations: Mapping[str, int],
        cleared: Cleared | None,
        quota: tuple[QuotaWindow, ...],
        quota_account: str | None,
    ) -> "Answered":
        """Return the request with what was measured of it, and read of its answer.

        Where the provider was asked to clear and did not, nothing was masked.
        """
        complete = replace(
            self,
            measured=measured,
            conversation_id=conversation_id,
            usage=usage,
            transformations=transformations,
            cleared=cleared,
            quota=quota,
            quota_account=quota_account,
        )
        if complete.was_cleared is not False or measured is None:
            return complete
        rewritten = replace(self.rewritten, masked=frozenset())
        return replace(complete, rewritten=rewritten, measured=measured.without_clearing())

    @property
    def was_cleared(self) -> bool | None:
        """Whether the provider cleared anything; None if it was not asked, or nobody knows."""
        rewritten = self.rewritten
        is_answer = rewritten.received.purpose == "answer" and self.was_taken
        if rewritten.clearing != "asked" or not is_answer or self.cleared is None:
            return None
        return self.cleared.tool_uses > 0

    @property
    def was_taken(self) -> bool:
        """Whether the provider took the request, to its end or until the answer stopped."""
        return self.error in (None, "client left", "broken off") and 200 <= (self.status or 0) < 300

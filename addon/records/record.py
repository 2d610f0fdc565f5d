"""The record of a request, and that of an MCP response: their fields, and what each means.

A record is a line of the file of records, and what the log, `obsmask status`, the page and
Prometheus are fed with. It never has content. The meanings are also the documentation
(`docs/reference.md`, by `python -m tests.tools.make_docs`).

A new field has its line here, and one in `build.py`, which every engine's requests pass.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue
from pydantic.fields import FieldInfo

from addon.accounts import Verdict
from addon.quota import QuotaWindow
from addon.stages import Clearing, Dropping, Group, Interruption, Resent
from masking.accounting import Basis
from masking.memory import PrefixState
from masking.prices import Source
from masking.reduction import ReductionStage
from masking.wire import OnHistoryEdit, Purpose

Unit = Literal[
    "characters", "tokens", "input tokens", "US dollars", "bytes", "microseconds", "seconds"
]
"""`input tokens` are equivalents: what as many plain input tokens would cost."""

_LIMIT = 10**24
"""No number of a request is near it. Of larger ones, sums and squares could overflow."""

Count = Annotated[int, Field(ge=-_LIMIT, le=_LIMIT)]
Amount = Annotated[float, Field(ge=-_LIMIT, le=_LIMIT)]


def _or(default: object) -> BeforeValidator:
    """Read null as a default. Records up to schema 3 have it where newer ones have nothing."""
    return BeforeValidator(lambda value: default if value is None else value)


Some = Annotated[Count, _or(0)]
"""How many there are of what most requests have none of."""

Error = Annotated[Amount, _or(0.0)]
"""By how much an amount may be off."""

Flag = Annotated[bool, _or(False)]


def means(meaning: str, unit: Unit | None = None, topic: str | None = None) -> FieldInfo:
    """Return what a field means, in a sentence, and the unit of its value.

    meaning: if empty, the sentence of the field before says it of this one, too.
    topic: what this field tells of, and those after it.
    """
    extra: dict[str, JsonValue] = {"unit": unit, "topic": topic}
    info: FieldInfo = Field(description=meaning, json_schema_extra=extra)
    return info


def _read_reasons(row: object) -> object:
    """Return reasons in run lengths; none where they are letters, as before version 0.3.0."""
    return None if isinstance(row, str) else row


REPLACED = ("masked", "redacted", "reduced", "dropped")
"""The fields that count tool results of which the model does not get the text."""

Bound = OnHistoryEdit | Literal["account"]
"""What the provider does once a text before reasoning has changed.

"account": it refuses the request, as this account has found out.
"""


_KIND = means(
    "`chat` is a request to a model, `mcp` an [MCP response](#mcp-responses).",
    topic="Which request it is",
)


class _Record(BaseModel):
    """What all records have."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False, defer_build=True)

    kind: Annotated[str, _KIND]
    record_schema: Annotated[Count, means("The version of these fields.")] = 1
    software_version: Annotated[
        str | None,
        means(
            "The version that wrote it, a digest of its settings, a random name of its run, and "
            "that run's `--tag` or `mask_tag`. Records with the same digest can be compared."
        ),
    ] = None
    config_digest: Annotated[str | None, means("")] = None
    run: Annotated[str | None, means("")] = None
    tag: Annotated[str | None, means("")] = None
    time: Annotated[str, means("When the request arrived, or the MCP response ended, in UTC.")]
    host: Annotated[str, means("Where it was sent; the path is without its query.")]
    path: Annotated[str, means("")]

    def dump(self) -> dict[str, object]:
        """Return what a line has of it: its kind, and each field that is not as by default.

        Most fields say what few requests have. With all of them, a line would be twice as long.
        """
        fields, defaults = vars(self), _find_defaults(type(self))
        told = {name: value for name, value in fields.items() if value != defaults[name]}
        return {"kind": fields["kind"], **told}


@cache
def _find_defaults(record: type[_Record]) -> Mapping[str, object]:
    return {name: field.default for name, field in record.model_fields.items()}


class RequestRecord(_Record):
    """One request and what became of it; None is what is not known.

    Made from a mapping, or from a line of a file: older ones lack the newer fields. Raises
    ValueError for what is no record.
    """

    kind: Annotated[Literal["chat"], _KIND] = "chat"
    format: Annotated[str | None, means("The wire format, such as `messages`.")] = None
    purpose: Annotated[
        Purpose,
        _or("answer"),
        means("`count` asks for the number of its tokens, `compact` for its history in short."),
    ] = "answer"
    client: Annotated[
        str | None,
        means(
            "The program (`User-Agent`), the ID that it gives its session, and the last part of "
            "its working directory."
        ),
    ] = None
    session: Annotated[str | None, means("")] = None
    folder: Annotated[
        str | None,
        means(""),
    ] = None
    label: Annotated[
        str | None, means("The label of the [rule](configuration.md#rules) that applied.")
    ] = None
    subscription: Annotated[
        Flag,
        means(
            "Whether a plan pays, by the form of the credential or the address; dollars are then "
            "what the API would cost."
        ),
    ] = False
    model: Annotated[str | None, means("The model, and whether a stream is asked for.")] = None
    stream: Annotated[Flag, means("")] = False
    masking: Annotated[
        Literal["on", "observed", "off"],
        means(
            "Whether a strategy is `on`, or all are `off`. `observed`: it left as the agent wrote "
            "it, and figures after masking are estimates.",
            topic="What was done to it",
        ),
    ]
    group: Annotated[
        Group | None,
        means("`holdout`: only observed, to compare the others with it."),
    ] = None
    passed_through: Annotated[str | None, means("Why it was sent untouched.")] = None
    resent: Annotated[
        Resent | None,
        means(
            "After a 400, it was sent again, unmasked or masked as before: `accepted`, or "
            "`refused` (or not answered). The record is of the one that was taken."
        ),
    ] = None
    replay: Annotated[bool, means("Whether it comes from a recording.")] = False
    prefix: Annotated[
        PrefixState | None,
        means(
            "With a memory: the conversation is `first met`, or its prompt is most likely still in "
            "the cache (`warm`) or not (`cold`)."
        ),
    ] = None
    binding: Annotated[
        OnHistoryEdit | None,
        means(
            "What happens once a text before reasoning changes: the provider `refuses` the "
            "request, `drops` the reasoning, or `may_refuse`, by account.",
            topic="Bound reasoning",
        ),
    ] = None
    account: Annotated[
        Verdict | None,
        means(
            "This account then `takes` or `refuses` such a request; `refuses_drop`: also with the "
            "reasoning dropped."
        ),
    ] = None
    tried: Annotated[Flag, means("Whether it was masked to find that out.")] = False
    clearing: Annotated[
        Clearing | None,
        means(
            "Whether the provider was `asked` to clear old results, and `refused` (the record is "
            "of the request without). `possible`: it wasn't asked, and could have cleared results "
            "that stay for reasoning."
        ),
    ] = None
    dropping: Annotated[
        Dropping | None,
        means("The same for dropping reasoning that no longer fits: `asked`, `refused`."),
    ] = None
    slides: Annotated[
        Flag,
        means(
            "Whether the window slides every turn, because moving the boundary costs nothing.",
            topic="At which prices",
        ),
    ] = False
    price_source: Annotated[Source | None, means("Where the billed prices come from.")] = None
    price_read_ratio: Annotated[
        Amount | None,
        means("The billed prices of a cache read and a cache write; 1 is an uncached token."),
    ] = None
    price_write_ratio: Annotated[Amount | None, means("")] = None
    price_entry: Annotated[
        tuple[str, str] | None,
        means("The seller and the model in the price list."),
    ] = None
    price_borrowed_from: Annotated[
        str | None,
        means("Whose dollar price it is, if the host's isn't known; dollars are then about right."),
    ] = None
    service_tier: Annotated[
        str | None,
        means("The tier asked for, if that has its own price: `fast`, `priority`, or `flex`."),
    ] = None
    price_is_standard: Annotated[
        Flag,
        means("Whether dollars are at the standard tier's price, because that tier's isn't known."),
    ] = False
    model_window_tokens: Annotated[
        Count | None,
        means("The model's context window, for prompt and answer.", "tokens"),
    ] = None
    fits_unmasked: Annotated[
        bool | None,
        means("Whether the unmasked request and its answer would fit that."),
    ] = None
    status: Annotated[Count | None, means("The HTTP status.", topic="What came back")] = None
    error: Annotated[Interruption | None, means("Why the response ended early.")] = None
    input_transformations: Annotated[
        Mapping[str, Count] | None,
        means("What the provider says it changed, by kind, such as `thinking_dropped`."),
    ] = None
    cleared_tool_uses: Annotated[
        Count | None,
        means("The tool uses that the provider says it cleared, and their tokens."),
    ] = None
    cleared_tokens: Annotated[Count | None, means("", "tokens")] = None
    messages: Annotated[Count | None, means("How many it has.", topic="What was masked")] = None
    tool_turns: Annotated[Count | None, means("")] = None
    tool_results: Annotated[Count | None, means("")] = None
    masked: Annotated[
        Count | None, means("Tool results that the window masked or the provider cleared.")
    ] = None
    shortened: Annotated[
        Some,
        means("Tool results sent shortened, masked by now or not."),
    ] = 0
    long_kept: Annotated[
        Mapping[str, Count] | None,
        means(
            "Long tool results left whole at arrival, by reason: `error`, `file` (its call names "
            "one), `sent_whole` (earlier), `asked_again`, `recalled`, `unknown_call`, `kept_tool`, "
            "`unlisted_tool`, `dispatch`, `already_shortened`."
        ),
    ] = None
    left_out_tokens: Annotated[
        Some, means("What was left out of the shortened results.", "tokens")
    ] = 0
    masked_images: Annotated[Some, means("Images in masked results.")] = 0
    redacted: Annotated[
        Some,
        means("Tool results that redaction replaced, reduction replaced, and it dropped."),
    ] = 0
    reduced: Annotated[Some, means("")] = 0
    dropped: Annotated[Some, means("")] = 0
    kept: Annotated[
        Mapping[str, Count] | None, means("Tool results that stayed, by [reason](#reasons).")
    ] = None
    result_reasons: Annotated[
        tuple[tuple[Count, str], ...] | None,
        BeforeValidator(_read_reasons),
        means(
            'The reason of each, oldest first, in run lengths: `[[12, "masked"], '
            '[7, "in_window"]]`.'
        ),
    ] = None
    tool_chars_before: Annotated[Count | None, means("All tool results.", "characters")] = None
    tool_chars_after: Annotated[Count | None, means("", "characters")] = None
    request_tokens_before: Annotated[
        Count | None,
        means(
            "The whole request, by estimate.",
            "tokens",
        ),
    ] = None
    request_tokens_after: Annotated[Count | None, means("", "tokens")] = None
    composition: Annotated[
        Mapping[str, Count] | None,
        means(
            "The request after masking, by part: `system`, `tools` (schemas), `user`, `assistant`, "
            "`results`, `placeholders`, and `unknown`.",
            "tokens",
        ),
    ] = None
    redaction_scenarios: Annotated[
        tuple[Count, ...] | None,
        means(
            "With redaction: tool results followed by an answer, calls, nothing, the user and "
            "calls, calls and an answer."
        ),
    ] = None
    reduction_stage: Annotated[ReductionStage | None, means("How far reduction had to go.")] = None
    dropped_messages: Annotated[Some, means("Messages that reduction dropped.")] = 0
    bytes_before: Annotated[Count | None, means("The body on the wire.", "bytes")] = None
    bytes_after: Annotated[Count | None, means("", "bytes")] = None
    hook_us: Annotated[
        Count | None,
        means(
            "How long the request waited for the addon.", "microseconds", topic="How long it took"
        ),
    ] = None
    first_chunk_seconds: Annotated[
        Amount | None,
        means("From its arrival to the first piece of a streamed answer.", "seconds"),
    ] = None
    prompt_tokens: Annotated[
        Count | None, means("The prompt.", "tokens", topic="What the provider counted")
    ] = None
    cached_tokens: Annotated[
        Count | None,
        means("Of these: read from the cache, written to it, and written for an hour.", "tokens"),
    ] = None
    written_tokens: Annotated[Count | None, means("", "tokens")] = None
    written_long_tokens: Annotated[Count | None, means("", "tokens")] = None
    completion_tokens: Annotated[
        Count | None, means("The answer, and the reasoning in it.", "tokens")
    ] = None
    reasoning_tokens: Annotated[Count | None, means("", "tokens")] = None
    quota: Annotated[
        tuple[QuotaWindow, ...] | None,
        means(
            "Each window of a plan's quota: name, part used, reset (seconds since 1970), length in "
            "minutes."
        ),
    ] = None
    quota_account: Annotated[
        str | None,
        means("A tag of its account, the same in every run on this machine."),
    ] = None
    learns_quota: Annotated[
        Flag, means("Whether to learn from it what masking did to that quota.")
    ] = False
    answer_dollars: Annotated[
        Amount | None,
        means("What the answer cost; no other cost includes it.", "US dollars"),
    ] = None
    conversation: Annotated[
        Count | None,
        means(
            "Its number in this run.", topic="Which conversation, and what the agent asks for again"
        ),
    ] = None
    conversation_id: Annotated[
        str | None,
        means(
            "A digest of its texts up to the first user message, in any run: whoever has the texts "
            "can recognize it."
        ),
    ] = None
    rereads: Annotated[
        Some,
        means(
            "Calls in the newest answer that repeat earlier ones (same tool, same arguments) whose "
            "results were all masked, or would have been if `observed`: agents repeat calls "
            "without masking, too. Each counts once, in the first accepted request that holds it."
        ),
    ] = 0
    arrival_rereads: Annotated[
        Some,
        means("The same for results that were shortened, or only partly masked."),
    ] = 0
    arrival_quotes: Annotated[
        Some,
        means(
            "Calls in the newest answer with a line, of at least 16 characters, that is only in "
            "what was left out."
        ),
    ] = 0
    boundary_moved: Annotated[
        Flag,
        means("Whether more is masked than in the request before.", topic="Why the boundary moved"),
    ] = False
    move_price_tokens: Annotated[
        Amount | None,
        means(
            "What that cost: what follows is written to the cache anew.",
            "input tokens",
        ),
    ] = None
    boundary_held: Annotated[
        Flag,
        means("Whether it is held because the cache did not return after a move."),
    ] = False
    predicted_cached_tokens: Annotated[
        Count | None, means("What should have come from the cache.", "tokens")
    ] = None
    cached_tokens_basis: Annotated[
        Basis | None,
        means(
            "Whether cost goes by the provider's report or by a simulation.", topic="What it cost"
        ),
    ] = None
    tokens_by_kind_before: Annotated[
        tuple[Count, Count, Count] | None,
        means(
            "Tokens of the prompt unmasked, and as sent: neither cached nor written, read from the "
            "cache, written to it.",
            "tokens",
        ),
    ] = None
    tokens_by_kind_after: Annotated[tuple[Count, Count, Count] | None, means("", "tokens")] = None
    cost_tokens_before: Annotated[
        Amount | None,
        means(
            "What the prompt would have cost unmasked, and what it cost as sent.", "input tokens"
        ),
    ] = None
    cost_dollars_before: Annotated[Amount | None, means("", "US dollars")] = None
    cost_tokens_after: Annotated[Amount | None, means("", "input tokens")] = None
    cost_dollars_after: Annotated[Amount | None, means("", "US dollars")] = None
    saved_tokens_error: Annotated[
        Error,
        means(
            "How far the cost of the prompt that wasn't sent may be off, and the part of that "
            "which evens out over many requests.",
            "input tokens",
        ),
    ] = 0.0
    saved_tokens_error_by_chance: Annotated[Error, means("", "input tokens")] = 0.0
    roads: Annotated[
        Mapping[str, tuple[Amount, Error]] | None,
        means(
            "What it would have cost by other [ways](agents.md#roads) open to it (`shorten`, "
            "`clear`, `drop`), and how far that may be off, if the model binds reasoning.",
            "input tokens",
        ),
    ] = None
    arrival_saved_tokens: Annotated[
        Amount | None,
        means(
            "What shortening at arrival saved, by estimate, and how far that may be off; masking "
            "saved the rest.",
            "input tokens",
        ),
    ] = None
    arrival_saved_tokens_error: Annotated[Amount | None, means("", "input tokens")] = None
    arrival_saved_dollars: Annotated[Amount | None, means("", "US dollars")] = None

    @property
    def when(self) -> datetime | None:
        """When it arrived, in the user's time zone; None if its time is none."""
        try:
            found = datetime.fromisoformat(self.time)
            return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone()
        except (ValueError, OverflowError):
            return None

    @property
    def failed(self) -> bool:
        """Whether the provider failed, by its answer or by the lack of one."""
        return self.error == "provider failed" or (self.status or 0) >= 400

    @property
    def bound(self) -> Bound | None:
        """Why results stay that reasoning is bound to; None where nothing is, or nobody minds."""
        if self.binding != "may_refuse" or self.account is None:
            return self.binding
        return None if self.account == "takes" else "account"

    @property
    def replaced(self) -> int:
        """The tool results of which the model does not get the text."""
        return (self.masked or 0) + self.redacted + self.reduced + self.dropped

    @property
    def outgrew(self) -> bool:
        """Whether it was changed, and would not fit its model as the agent wrote it."""
        changed = self.replaced or self.shortened
        return self.masking == "on" and changed > 0 and self.fits_unmasked is False


class McpRecord(_Record):
    """A response of an MCP server and what became of it; None is what is not known."""

    kind: Annotated[Literal["mcp"], _KIND] = "mcp"
    status: Annotated[int | None, means("The HTTP status.")] = None
    passed_through: Annotated[str | None, means("Why it was sent untouched.")] = None
    replay: Annotated[bool, means("Whether it comes from a recording.")] = False
    observed: Annotated[
        bool, means("Whether nothing was cut; the figures are of what would have been.")
    ] = False
    cut_strings: Annotated[int, means("How many strings were cut, and their characters.")] = 0
    cut_chars_before: Annotated[int, means("", "characters")] = 0
    cut_chars_after: Annotated[int, means("", "characters")] = 0

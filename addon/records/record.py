"""The record of a request, and that of an MCP response: their fields, and what each means.

A record is a line of the file of records, and what the log, `obsmask status`, the page and
Prometheus are fed with. It never has content. The meanings are also the documentation
(`docs/reference.md`, by `python -m tests.tools.make_docs`).

A new field has its line here, and one in `build.py`, which every engine's requests pass.
"""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
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


def means(meaning: str, unit: Unit | None = None) -> FieldInfo:
    """Return what a field means, in a sentence, and the unit of its value."""
    info: FieldInfo = Field(description=meaning, json_schema_extra={"unit": unit})
    return info


_OLD_LETTERS = {
    "m": "masked",
    "r": "redacted",
    "b": "reduced",
    "d": "dropped",
    "x": "off",
    "i": "bad_id",
    "o": "orphan",
    "w": "in_window",
    "h": "held",
    "k": "last_k",
    "c": "kept_tool",
    "z": "unlisted_tool",
    "v": "kept_argument",
    "p": "last_images",
    "l": "latest",
    "q": "reread",
    "g": "bound",
    "y": "summary",
    "j": "refused",
    "e": "error",
    "n": "not_string",
    "a": "already_masked",
    "t": "too_short",
    "s": "not_shorter",
    "f": "other_tool",
    "u": "in_use",
}
"""The reasons of records up to schema 2, by their letters."""

_OLD_RUN = re.compile(r"(\d*)(\D)")


def _read_reasons(row: object) -> object:
    """Return reasons in run lengths; those of an older record are a text, such as `12m7w`."""
    if not isinstance(row, str):
        return row
    runs = _OLD_RUN.findall(row)
    return tuple((int(count or 1), _OLD_LETTERS.get(letter, letter)) for count, letter in runs)


REPLACED = ("masked", "redacted", "reduced", "dropped")
"""The fields that count tool results of which the model does not get the text."""

Bound = OnHistoryEdit | Literal["account"]
"""What the provider does once a text before reasoning has changed.

"account": it refuses the request, as this account has found out.
"""


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, allow_inf_nan=False, defer_build=True)

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

    kind: Annotated[Literal["chat"], means("A chat request; `mcp` is an MCP response.")] = "chat"
    record_schema: Annotated[Count, means("The version of these fields.")] = 1
    software_version: Annotated[
        str | None, means("The version of observation-masking that made the record.")
    ] = None
    config_digest: Annotated[
        str | None,
        means("A digest of the settings. Records with the same digest can be compared."),
    ] = None
    run: Annotated[
        str | None, means("A random name of the run of the proxy that made the record.")
    ] = None
    tag: Annotated[str | None, means("The tag that its user gave that run (`mask_tag`).")] = None
    time: Annotated[str, means("When the request arrived, in UTC (ISO 8601).")]
    host: Annotated[str, means("The host of the request.")]
    path: Annotated[str, means("The path, without its query.")]
    format: Annotated[str | None, means("The wire format, such as `chat` or `messages`.")] = None
    purpose: Annotated[
        Purpose,
        _or("answer"),
        means(
            "Whether it asks for an answer, for the tokens that it would have (`count`), or for "
            "its history in short (`compact`)."
        ),
    ] = "answer"
    client: Annotated[
        str | None, means("The program that sent the request, by its `User-Agent`, unversioned.")
    ] = None
    session: Annotated[
        str | None, means("The id that the client gives its session, in a header.")
    ] = None
    folder: Annotated[
        str | None,
        means(
            "The last part of the name of the folder that the agent says it works in; no other "
            "part of it is kept."
        ),
    ] = None
    label: Annotated[
        str | None, means("The label of the rule whose settings held for the request.")
    ] = None
    subscription: Annotated[
        Flag,
        means("Whether a subscription pays for it, so that dollars are what the API would cost."),
    ] = False
    model: Annotated[str | None, means("The model that is asked for.")] = None
    stream: Annotated[Flag, means("Whether a stream is asked for.")] = False
    masking: Annotated[
        Literal["on", "observed", "off"],
        means(
            "Whether any strategy is on. If `observed`, the request left as the agent wrote it, "
            "and all figures after masking are estimates."
        ),
    ]
    group: Annotated[
        Group | None,
        means("`holdout` if its conversation is observed only to compare the others with it."),
    ] = None
    passed_through: Annotated[str | None, means("Why the request was sent untouched.")] = None
    resent: Annotated[
        Resent | None,
        means(
            "What came of sending the request once more, after a 400 to the masked one: as the "
            "agent wrote it, or masked as before; `refused` also where no answer came. What the "
            "record says of masking is then true of the one that was taken."
        ),
    ] = None
    replay: Annotated[bool, means("Whether the request comes from a recording.")] = False
    prefix: Annotated[
        PrefixState | None,
        means(
            "With a memory: whether the conversation is first met, or else whether the provider "
            "most likely still has its prompt in the cache (`warm`) or not (`cold`)."
        ),
    ] = None
    binding: Annotated[
        OnHistoryEdit | None,
        means(
            "What the provider does with the model's reasoning once a text before it has changed; "
            "`may_refuse` where that depends on the account. Null if that changes nothing."
        ),
    ] = None
    account: Annotated[
        Verdict | None,
        means(
            "Where that depends on the account: whether this one `takes` or `refuses` such a "
            "request, or `refuses_drop`, which is also one that has the reasoning dropped; null if "
            "that is not known."
        ),
    ] = None
    tried: Annotated[Flag, means("Whether the request was masked to find that out.")] = False
    clearing: Annotated[
        Clearing | None,
        means(
            "Whether the provider was `asked` to clear older results itself; `refused` if it "
            "refused that request, and the record is of the one without; `possible` if it could "
            "have been asked, and was not, to clear results that stay for reasoning."
        ),
    ] = None
    dropping: Annotated[
        Dropping | None,
        means(
            "Whether the provider was `asked` to drop reasoning that no longer fits what precedes "
            "it; `refused` if it refused that request, and the record is of the one without."
        ),
    ] = None
    slides: Annotated[
        Flag,
        means(
            "Whether the window slides at every turn, because moving the boundary costs nothing: "
            "by the settings, or where no message of the request is cached."
        ),
    ] = False
    price_source: Annotated[Source | None, means("Where the billed prices come from.")] = None
    price_read_ratio: Annotated[
        Amount | None, means("The billed cache-read price; 1 is an uncached token.")
    ] = None
    price_write_ratio: Annotated[Amount | None, means("The billed cache-write price.")] = None
    price_entry: Annotated[
        tuple[str, str] | None,
        means("The seller and the model of the entry of the price list that gave them."),
    ] = None
    price_borrowed_from: Annotated[
        str | None,
        means(
            "Whose price all amounts in dollars are at, where what the host charges is not known: "
            "mostly that of the model's maker. They are about right then. Null where the price is "
            "the host's own."
        ),
    ] = None
    service_tier: Annotated[
        str | None,
        means(
            "The tier of service that the request asked for, where that has a price of its own: "
            "`fast`, `priority`, or `flex`."
        ),
    ] = None
    price_is_standard: Annotated[
        Flag,
        means(
            "Whether all amounts in dollars are at the price of the standard tier, because that of "
            "the tier asked for isn't known."
        ),
    ] = False
    model_window_tokens: Annotated[
        Count | None,
        means(
            "The model's context window, for prompt and answer, by the price list or the "
            "configuration.",
            "tokens",
        ),
    ] = None
    fits_unmasked: Annotated[
        bool | None,
        means(
            "Whether the request as the agent wrote it would fit that window, with room for the "
            "answer; null if either size is not known."
        ),
    ] = None
    status: Annotated[Count | None, means("The status of the answer.")] = None
    error: Annotated[Interruption | None, means("Why the response ended early.")] = None
    input_transformations: Annotated[
        Mapping[str, Count] | None,
        means(
            "What the provider says that it changed about the request, counted by kind, such as "
            "`thinking_dropped`."
        ),
    ] = None
    cleared_tool_uses: Annotated[
        Count | None, means("Tool uses whose results the provider says that it cleared.")
    ] = None
    cleared_tokens: Annotated[
        Count | None, means("What that took out of the prompt, as it counted.", "tokens")
    ] = None
    messages: Annotated[Count | None, means("Messages.")] = None
    tool_turns: Annotated[Count | None, means("Tool turns.")] = None
    tool_results: Annotated[Count | None, means("Tool results.")] = None
    masked: Annotated[
        Count | None, means("Tool results that the window masked, or the provider cleared.")
    ] = None
    shortened: Annotated[
        Some,
        means("Tool results that were sent shortened, whether or not they are masked by now."),
    ] = 0
    long_kept: Annotated[
        Mapping[str, Count] | None,
        means(
            "Long tool results that arrival left whole, by reason: `error`, `file` (its call names "
            "one), `sent_whole` (before it was on, or before the conversation was first seen), "
            "`asked_again`, `recalled`, `unknown_call`, `kept_tool`, `unlisted_tool`, `dispatch`, "
            "`already_shortened`."
        ),
    ] = None
    left_out_tokens: Annotated[
        Some, means("What was left out of the shortened results.", "tokens")
    ] = 0
    masked_images: Annotated[Some, means("Images that the window masked in them.")] = 0
    redacted: Annotated[Some, means("Tool results that were redacted.")] = 0
    reduced: Annotated[Some, means("Tool results that a reduction replaced.")] = 0
    dropped: Annotated[Some, means("Tool results that a reduction dropped.")] = 0
    kept: Annotated[Mapping[str, Count] | None, means("Tool results that stayed, by reason.")] = (
        None
    )
    result_reasons: Annotated[
        tuple[tuple[Count, str], ...] | None,
        BeforeValidator(_read_reasons),
        means(
            "The reason of each tool result, the oldest first, in run lengths: "
            '`[[12, "masked"], [7, "in_window"]]`. Up to schema 2, a letter each: `12m7w`.'
        ),
    ] = None
    tool_chars_before: Annotated[
        Count | None, means("All tool results, before masking.", "characters")
    ] = None
    tool_chars_after: Annotated[Count | None, means("The same, after masking.", "characters")] = (
        None
    )
    request_tokens_before: Annotated[
        Count | None, means("The whole request, before masking.", "tokens")
    ] = None
    request_tokens_after: Annotated[Count | None, means("The same, after masking.", "tokens")] = (
        None
    )
    composition: Annotated[
        Mapping[str, Count] | None,
        means(
            "The request after masking, by part: `system`, `tools` (schemas), `user`, `assistant`, "
            "`results`, `placeholders`, and `unknown` for what no format knows.",
            "tokens",
        ),
    ] = None
    redaction_scenarios: Annotated[
        tuple[Count, ...] | None,
        means(
            "With redaction: tool results by what follows them, an answer, calls, nothing, the "
            "user and calls, calls and an answer."
        ),
    ] = None
    reduction_stage: Annotated[ReductionStage | None, means("How far a reduction had to go.")] = (
        None
    )
    dropped_messages: Annotated[Some, means("Messages that a reduction dropped.")] = 0
    bytes_before: Annotated[
        Count | None, means("The body on the wire, before masking.", "bytes")
    ] = None
    bytes_after: Annotated[Count | None, means("The same, after masking.", "bytes")] = None
    hook_us: Annotated[
        Count | None, means("How long the request waited for the addon.", "microseconds")
    ] = None
    first_chunk_seconds: Annotated[
        Amount | None,
        means("From the request's arrival to the first piece of a streamed answer.", "seconds"),
    ] = None
    prompt_tokens: Annotated[
        Count | None, means("The prompt, as the provider counted it.", "tokens")
    ] = None
    cached_tokens: Annotated[
        Count | None, means("Prompt tokens that were read from the cache.", "tokens")
    ] = None
    written_tokens: Annotated[
        Count | None, means("Prompt tokens that were written to the cache.", "tokens")
    ] = None
    written_long_tokens: Annotated[
        Count | None, means("Those of them that were written for an hour.", "tokens")
    ] = None
    completion_tokens: Annotated[
        Count | None, means("The answer, as the provider counted it.", "tokens")
    ] = None
    reasoning_tokens: Annotated[
        Count | None, means("The part of the answer that is reasoning.", "tokens")
    ] = None
    quota: Annotated[
        tuple[QuotaWindow, ...] | None,
        means(
            "What the answer tells of the quota of a plan, a window each: its name, the part of it "
            "that is used, when it resets in seconds since 1970, and how many minutes it is long."
        ),
    ] = None
    quota_account: Annotated[
        str | None,
        means("A tag of the account whose quota that is, the same in every run on this machine."),
    ] = None
    learns_quota: Annotated[
        Flag, means("Whether to learn from it what masking did to that quota (`quota_saving`).")
    ] = False
    answer_dollars: Annotated[
        Amount | None,
        means(
            "What the answer cost, which masking does not change; no other cost has it in it.",
            "US dollars",
        ),
    ] = None
    conversation: Annotated[Count | None, means("The number of the conversation in this run.")] = (
        None
    )
    conversation_id: Annotated[
        str | None,
        means("A digest of the conversation's texts up to the first user message, in any run."),
    ] = None
    rereads: Annotated[
        Some,
        means(
            "Tool calls in the newest answer that repeat earlier ones, with the same tool and the "
            "same arguments, whose results the request before masked. A call counts once, in the "
            "request that first holds it and that the provider took. Agents repeat calls without "
            "masking, too: if `observed`, these are repeats of what would have been masked."
        ),
    ] = 0
    arrival_rereads: Annotated[
        Some,
        means(
            "Tool calls in the newest answer that repeat earlier ones whose results were shortened "
            "(or masked, but not all of them). Counted like `rereads`."
        ),
    ] = 0
    arrival_quotes: Annotated[
        Some,
        means(
            "Tool calls in the newest answer with a whole line, of at least 16 characters, that "
            "the request shows nowhere but in what was left out of shortened results."
        ),
    ] = 0
    boundary_moved: Annotated[
        Flag, means("Whether more was masked than in the request before.")
    ] = False
    move_price_tokens: Annotated[
        Amount | None,
        means(
            "What that cost: what follows the newly masked results is written to the cache anew.",
            "input tokens",
        ),
    ] = None
    boundary_held: Annotated[
        Flag,
        means("Whether the boundary is held because the cache did not return after a move."),
    ] = False
    predicted_cached_tokens: Annotated[
        Count | None, means("What should have come from the cache.", "tokens")
    ] = None
    cached_tokens_basis: Annotated[
        Basis | None, means("Whether the cost is by the provider's report or by a simulation.")
    ] = None
    tokens_by_kind_before: Annotated[
        tuple[Count, Count, Count] | None,
        means(
            "The prompt unmasked, as the provider counts: the tokens that are not cached, those "
            "read from the cache, and those written to it.",
            "tokens",
        ),
    ] = None
    tokens_by_kind_after: Annotated[
        tuple[Count, Count, Count] | None, means("The same, of the prompt masked.", "tokens")
    ] = None
    cost_tokens_before: Annotated[
        Amount | None, means("What the prompt would have cost unmasked.", "input tokens")
    ] = None
    cost_dollars_before: Annotated[Amount | None, means("The same.", "US dollars")] = None
    cost_tokens_after: Annotated[
        Amount | None, means("What the prompt cost masked.", "input tokens")
    ] = None
    cost_dollars_after: Annotated[Amount | None, means("The same.", "US dollars")] = None
    saved_tokens_error: Annotated[
        Error,
        means(
            "By how much the cost of the prompt that was not sent may be off, either way.",
            "input tokens",
        ),
    ] = 0.0
    saved_tokens_error_by_chance: Annotated[
        Error, means("The part of that which evens out over many requests.", "input tokens")
    ] = 0.0
    roads: Annotated[
        Mapping[str, tuple[Amount, Error]] | None,
        means(
            "What the prompt would have cost by other roads that are open to it and not taken "
            "(`shorten`, `clear`, `drop`), each with by how much that may be off; null if the "
            "model binds no reasoning.",
            "input tokens",
        ),
    ] = None
    arrival_saved_tokens: Annotated[
        Amount | None,
        means(
            "What shortening results when they arrived saved of the cost at this request, by "
            "estimate; masking saved the rest.",
            "input tokens",
        ),
    ] = None
    arrival_saved_tokens_error: Annotated[
        Amount | None, means("By how much that may be off, either way.", "input tokens")
    ] = None
    arrival_saved_dollars: Annotated[Amount | None, means("The same.", "US dollars")] = None

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

    kind: Annotated[Literal["mcp"], means("An MCP response; `chat` is a chat request.")] = "mcp"
    record_schema: Annotated[int, means("The version of these fields.")] = 1
    software_version: Annotated[
        str | None, means("The version of observation-masking that made the record.")
    ] = None
    config_digest: Annotated[str | None, means("A digest of the settings in force.")] = None
    run: Annotated[
        str | None, means("A random name of the run of the proxy that made the record.")
    ] = None
    tag: Annotated[str | None, means("The tag that its user gave that run (`mask_tag`).")] = None
    time: Annotated[str, means("When the response ended, in UTC (ISO 8601).")]
    host: Annotated[str, means("The host of the server.")]
    path: Annotated[str, means("The path of the request, without the query.")]
    status: Annotated[int | None, means("The status of the response.")] = None
    passed_through: Annotated[str | None, means("Why it, or a part of it, was sent untouched.")] = (
        None
    )
    replay: Annotated[bool, means("Whether it comes from a recording.")] = False
    observed: Annotated[
        bool, means("Whether nothing was cut, and the strings are those that would have been.")
    ] = False
    cut_strings: Annotated[int, means("Strings that were cut.")] = 0
    cut_chars_before: Annotated[int, means("Their characters before.", "characters")] = 0
    cut_chars_after: Annotated[int, means("Their characters after.", "characters")] = 0


class RecordField(NamedTuple):
    """A field of the records: its name, the types of its value, its unit, a sentence.

    left_out: what it is if it is left out, in JSON; None if it is unknown then.
    """

    name: str
    type: str
    unit: Unit | None
    left_out: str | None
    meaning: str


def describe_fields(record: type[BaseModel]) -> list[RecordField]:
    """Return all fields of a record, in the order in which a JSON line has them."""
    properties: Mapping[str, Mapping[str, Any]] = record.model_json_schema()["properties"]
    return [
        RecordField(
            name,
            _render_type(schema),
            schema["unit"],
            None if name == "kind" else _render_default(schema.get("default")),
            schema["description"],
        )
        for name, schema in properties.items()
    ]


def _render_type(schema: Mapping[str, Any]) -> str:
    """Return the type of a value in JSON's words, without null: `integer`, `"on" or "off"`."""
    kinds = [each for each in schema.get("anyOf", [schema]) if each.get("type") != "null"]
    (kind,) = kinds
    if "enum" in kind:
        return " or ".join(f'"{value}"' for value in kind["enum"])
    return f'"{kind["const"]}"' if "const" in kind else str(kind["type"])


def _render_default(default: object) -> str | None:
    return None if default is None else json.dumps(default).removesuffix(".0")

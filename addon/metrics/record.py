"""The record of one request: all that its JSON line, its log line and the totals tell of it.

It never has content. Every field says what it means, and the documentation lists them from here.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field
from pydantic.fields import FieldInfo

from addon.metrics.stages import Interruption
from masking.accounting.cost import Basis
from masking.measures.pricing import Source
from masking.memory.boundary_memory import PrefixState
from masking.strategies.reduction_plan import InvariantStatus, ReductionStage

Unit = Literal["characters", "tokens", "input tokens", "US dollars", "bytes", "microseconds"]
"""`input tokens` are equivalents: what as many plain input tokens would cost."""


def _means(meaning: str, unit: Unit | None = None) -> FieldInfo:
    info: FieldInfo = Field(description=meaning, json_schema_extra={"unit": unit})
    return info


class RequestRecord(BaseModel):
    """One request and what became of it; null is what is not known.

    Made from a mapping, or from a line of an older file, which lacks the newer fields. Raises
    ValueError for what is no record.
    """

    model_config = ConfigDict(frozen=True)

    kind: Annotated[Literal["chat"], _means("A chat request; `mcp` is an MCP response.")] = "chat"
    record_schema: Annotated[int, _means("The version of these fields; 1 if it is left out.")] = 1
    software_version: Annotated[
        str | None, _means("The version of observation-masking that made the record.")
    ] = None
    config_digest: Annotated[
        str | None,
        _means("A digest of the settings. Records with the same digest can be compared."),
    ] = None
    price_list_date: Annotated[str | None, _means("The date of the price list.")] = None
    time: Annotated[str, _means("When the request arrived, in UTC (ISO 8601).")]
    host: Annotated[str, _means("The host of the request.")]
    path: Annotated[str, _means("The path, without its query.")]
    model: Annotated[str | None, _means("The model that is asked for.")] = None
    stream: Annotated[bool | None, _means("Whether a stream is asked for.")] = None
    masking: Annotated[Literal["on", "off"], _means("Whether any strategy is on.")]
    passed_through: Annotated[str | None, _means("Why the request was sent untouched.")] = None
    replay: Annotated[bool, _means("Whether the request comes from a recording.")] = False
    prefix: Annotated[
        PrefixState | None,
        _means(
            "With a memory: whether the conversation is first met, or else whether the provider "
            "most likely still has its prompt in the cache (`warm`) or not (`cold`)."
        ),
    ] = None
    cache_read_ratio: Annotated[
        float,
        _means("The price of a cached token, in plain ones, by which the boundary was drawn."),
    ] = 1.0
    cache_write_ratio: Annotated[
        float,
        _means("The same for a written token. Where the two are equal, the window slides."),
    ] = 1.0
    price_source: Annotated[Source | None, _means("Where the billed prices come from.")] = None
    price_read_ratio: Annotated[
        float | None, _means("The billed price of a cached token, in plain ones.")
    ] = None
    price_write_ratio: Annotated[float | None, _means("The same for a written token.")] = None
    price_entry: Annotated[
        tuple[str, str] | None,
        _means("The seller and the model of the price list's entry from which they come."),
    ] = None
    status: Annotated[int | None, _means("The status of the answer.")] = None
    error: Annotated[Interruption | None, _means("Why the answer did not come to its end.")] = None
    messages: Annotated[int | None, _means("Messages.")] = None
    tool_turns: Annotated[int | None, _means("Tool turns.")] = None
    tool_results: Annotated[int | None, _means("Tool results.")] = None
    masked: Annotated[int | None, _means("Tool results that the window masked.")] = None
    redacted: Annotated[int | None, _means("Tool results that were redacted.")] = None
    reduced: Annotated[int | None, _means("Tool results that a reduction replaced.")] = None
    dropped: Annotated[int | None, _means("Tool results that a reduction dropped.")] = None
    kept: Annotated[Mapping[str, int] | None, _means("Tool results that stayed, by reason.")] = None
    tool_chars_before: Annotated[
        int | None, _means("All tool results, before masking.", "characters")
    ] = None
    tool_chars_after: Annotated[int | None, _means("The same, after masking.", "characters")] = None
    json_chars_before: Annotated[
        int | None, _means("The whole request, before masking.", "characters")
    ] = None
    json_chars_after: Annotated[int | None, _means("The same, after masking.", "characters")] = None
    tool_tokens_before: Annotated[
        int | None, _means("All tool results, before masking.", "tokens")
    ] = None
    tool_tokens_after: Annotated[int | None, _means("The same, after masking.", "tokens")] = None
    request_tokens_before: Annotated[
        int | None, _means("The whole request, before masking.", "tokens")
    ] = None
    request_tokens_after: Annotated[int | None, _means("The same, after masking.", "tokens")] = None
    redaction_scenarios: Annotated[
        tuple[int, ...] | None,
        _means(
            "With redaction: tool results by what follows them, an answer, calls, nothing, the "
            "user and calls, calls and an answer."
        ),
    ] = None
    reduction_stage: Annotated[ReductionStage | None, _means("How far a reduction had to go.")] = (
        None
    )
    reduction_status: Annotated[
        InvariantStatus | None,
        _means("`fallback` if the last stage was reached."),
    ] = None
    dropped_messages: Annotated[int | None, _means("Messages that a reduction dropped.")] = None
    bytes_before: Annotated[
        int | None, _means("The body on the wire, before masking.", "bytes")
    ] = None
    bytes_after: Annotated[int | None, _means("The same, after masking.", "bytes")] = None
    hook_us: Annotated[
        int | None, _means("How long the request waited for the addon.", "microseconds")
    ] = None
    tokenizer: Annotated[str | None, _means("The tokenizer that counted the tokens.")] = None
    tokenizer_exact: Annotated[bool | None, _means("Whether that is the model's own.")] = None
    prompt_tokens: Annotated[
        int | None, _means("The prompt, as the provider counted it.", "tokens")
    ] = None
    cached_tokens: Annotated[
        int | None, _means("Prompt tokens that were read from the cache.", "tokens")
    ] = None
    written_tokens: Annotated[
        int | None, _means("Prompt tokens that were written to the cache.", "tokens")
    ] = None
    completion_tokens: Annotated[
        int | None, _means("The answer, as the provider counted it.", "tokens")
    ] = None
    conversation: Annotated[int | None, _means("The number of the conversation in this run.")] = (
        None
    )
    boundary_moved: Annotated[
        bool | None, _means("Whether more was masked than in the request before.")
    ] = None
    boundary_held: Annotated[
        bool | None,
        _means("Whether the boundary is held because the cache did not return after a move."),
    ] = None
    predicted_cached_tokens: Annotated[
        int | None, _means("What should have come from the cache.", "tokens")
    ] = None
    cached_tokens_basis: Annotated[
        Basis | None, _means("Whether the cost is by the provider's report or by a simulation.")
    ] = None
    cost_tokens_before: Annotated[
        float | None, _means("What the prompt would have cost unmasked.", "input tokens")
    ] = None
    cost_dollars_before: Annotated[float | None, _means("The same.", "US dollars")] = None
    cost_tokens_before_warm: Annotated[
        float | None,
        _means("The same if the provider's cache had lost nothing.", "input tokens"),
    ] = None
    cost_dollars_before_warm: Annotated[float | None, _means("The same.", "US dollars")] = None
    cost_tokens_after: Annotated[
        float | None, _means("What the prompt cost as it was sent.", "input tokens")
    ] = None
    cost_dollars_after: Annotated[float | None, _means("The same.", "US dollars")] = None
    saved_tokens_error: Annotated[
        float | None,
        _means("By how much the unmasked cost may be off, either way.", "input tokens"),
    ] = None
    saved_dollars_error: Annotated[float | None, _means("The same.", "US dollars")] = None
    net_tokens: Annotated[
        float | None,
        _means("What masking saved in the conversation; below 0 a loss.", "input tokens"),
    ] = None
    net_tokens_error: Annotated[
        float | None, _means("By how much that may be off, either way.", "input tokens")
    ] = None
    net_dollars: Annotated[
        float | None, _means("What it saved where the price is known.", "US dollars")
    ] = None
    net_dollars_error: Annotated[
        float | None, _means("By how much that may be off, either way.", "US dollars")
    ] = None
    net_unpriced: Annotated[
        int | None, _means("Requests of the conversation without a known price.")
    ] = None
    total_net_tokens: Annotated[
        float | None, _means("What masking saved in all conversations.", "input tokens")
    ] = None
    total_net_tokens_error: Annotated[
        float | None, _means("By how much that may be off, either way.", "input tokens")
    ] = None
    total_net_dollars: Annotated[
        float | None, _means("What it saved where the price is known.", "US dollars")
    ] = None
    total_net_dollars_error: Annotated[
        float | None, _means("By how much that may be off, either way.", "US dollars")
    ] = None
    total_unpriced: Annotated[int | None, _means("Requests without a known price.")] = None

    @property
    def failed(self) -> bool:
        """Whether the provider failed, by its answer or by the lack of one."""
        return self.error == "provider failed" or (self.status or 0) >= 400


class RecordField(NamedTuple):
    """A field of the records: its name, the types of its value, its unit, a sentence."""

    name: str
    type: str
    unit: Unit | None
    meaning: str


def describe_fields() -> list[RecordField]:
    """Return all fields of a record, in the order in which a JSON line has them."""
    properties: Mapping[str, Mapping[str, Any]] = RequestRecord.model_json_schema()["properties"]
    return [
        RecordField(name, _render_type(schema), schema["unit"], schema["description"])
        for name, schema in properties.items()
    ]


def _render_type(schema: Mapping[str, Any]) -> str:
    """Return the type of a value in JSON's words, but for null: `integer`, `"on" or "off"`."""
    kinds = [each for each in schema.get("anyOf", [schema]) if each.get("type") != "null"]
    (kind,) = kinds
    if "enum" in kind:
        return " or ".join(f'"{value}"' for value in kind["enum"])
    return f'"{kind["const"]}"' if "const" in kind else str(kind["type"])

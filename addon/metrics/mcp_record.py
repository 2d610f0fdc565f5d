"""The record of one response of an MCP server. It never has content."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict

from addon.metrics.record_fields import means


class McpRecord(BaseModel):
    """A response of an MCP server and what became of it; null is what is not known."""

    model_config = ConfigDict(frozen=True)

    kind: Annotated[Literal["mcp"], means("An MCP response; `chat` is a chat request.")] = "mcp"
    record_schema: Annotated[int, means("The version of these fields; 1 if it is left out.")] = 1
    software_version: Annotated[
        str | None, means("The version of observation-masking that made the record.")
    ] = None
    config_digest: Annotated[str | None, means("A digest of the settings in force.")] = None
    price_list_date: Annotated[str | None, means("The date of the price list.")] = None
    run: Annotated[
        str | None, means("A random name of the run of the proxy that made the record.")
    ] = None
    tag: Annotated[str | None, means("The tag that its user gave that run (`mask_tag`).")] = None
    time: Annotated[str, means("When the response came to its end, in UTC (ISO 8601).")]
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

"""Fields of records that say what they mean, so that the documentation can list them."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, Field
from pydantic.fields import FieldInfo

Unit = Literal[
    "characters", "tokens", "input tokens", "US dollars", "bytes", "microseconds", "seconds"
]
"""`input tokens` are equivalents: what as many plain input tokens would cost."""

_LIMIT = 10**24
"""No number of a request is near it. Of larger ones, sums and squares could overflow."""

Count = Annotated[int, Field(ge=-_LIMIT, le=_LIMIT)]
Amount = Annotated[float, Field(ge=-_LIMIT, le=_LIMIT)]


def means(meaning: str, unit: Unit | None = None) -> FieldInfo:
    """Return what a field means, in a sentence, and the unit of its value."""
    info: FieldInfo = Field(description=meaning, json_schema_extra={"unit": unit})
    return info


class RecordField(NamedTuple):
    """A field of the records: its name, the types of its value, its unit, a sentence."""

    name: str
    type: str
    unit: Unit | None
    meaning: str


def describe_fields(record: type[BaseModel]) -> list[RecordField]:
    """Return all fields of a record, in the order in which a JSON line has them."""
    properties: Mapping[str, Mapping[str, Any]] = record.model_json_schema()["properties"]
    return [
        RecordField(name, _render_type(schema), schema["unit"], schema["description"])
        for name, schema in properties.items()
    ]


def _render_type(schema: Mapping[str, Any]) -> str:
    """Return the type of a value in JSON's words, without null: `integer`, `"on" or "off"`."""
    kinds = [each for each in schema.get("anyOf", [schema]) if each.get("type") != "null"]
    (kind,) = kinds
    if "enum" in kind:
        return " or ".join(f'"{value}"' for value in kind["enum"])
    return f'"{kind["const"]}"' if "const" in kind else str(kind["type"])

"""What the parts of a page say, as a reader sees it."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

Parts = Iterable[Mapping[str, Any]]


def as_told(parts: object) -> Any:  # noqa: ANN401 - JSON
    """Return parts as a page gets them."""
    return json.loads(json.dumps(parts))


def say(cell: str | Mapping[str, Any]) -> str:
    """Return what a cell says, a line each: what it says first, and what stands below."""
    if isinstance(cell, str):
        return cell
    return "\n".join([cell["text"], *(map(say, cell.get("below", ())))])


def read_rows(table: Mapping[str, Any]) -> list[list[str]]:
    """Return the rows of a table, the foot last."""
    rows = [*table["rows"], *([table["foot"]] if table["foot"] else [])]
    return [[say(cell) for cell in row] for row in rows]


def find_table(parts: Parts, caption: str) -> list[list[str]]:
    """Return the rows of the only table whose caption begins so."""
    (found,) = [each for each in walk(parts) if each.get("caption", "").startswith(caption)
                and each["part"] == "table"]  # fmt: skip
    return read_rows(found)


def find_chart(parts: Parts, title: str) -> Mapping[str, Any]:
    """Return the only chart with this title."""
    charts = [chart for each in walk(parts) for chart in each.get("charts", ())]
    found: Mapping[str, Any]
    (found,) = [chart for chart in charts if chart["title"] == title]
    return found


def list_texts(parts: Parts) -> list[str]:
    """Return the headings and paragraphs."""
    return [each["text"] for each in parts if each["part"] in ("title", "text")]


def walk(parts: Parts) -> Iterator[Mapping[str, Any]]:
    for each in parts:
        yield each
        yield from walk(each.get("parts", ()))

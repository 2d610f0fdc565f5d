"""The lines of a file of records, with all their fields."""

import json
from pathlib import Path
from typing import Any

from addon.records.record import McpRecord, RequestRecord


def fill(line: str) -> dict[str, Any]:
    """Return a record as JSON has it, and in it what its line leaves out."""
    written: dict[str, Any] = json.loads(line)
    model = McpRecord if written["kind"] == "mcp" else RequestRecord
    fields = model.model_fields.items()
    return {n: field.default for n, field in fields if not field.is_required()} | written


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the records of a file so far; there may be none."""
    lines = path.read_text("utf-8").splitlines(keepends=True) if path.exists() else []
    return [fill(line) for line in lines if line.endswith("\n")]

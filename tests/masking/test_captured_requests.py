"""Requests of real clients after a long session: what the shipped window does to them.

They hold fillers in place of texts. Where they are absent, this is skipped.
"""

import gzip
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from masking.config import parse_settings
from masking.errors import WireError
from masking.window import MaskPolicy
from masking.wire import find_format
from masking.wire.format import WireFormat
from tests.support.marks import as_one_test
from tests.support.places import CAPTURED, CONFIG
from tests.support.priced import rewrite_request

pytestmark = pytest.mark.skipif(not CAPTURED.exists(), reason="these requests are not here")

BOUND = "thinking is bound to all before it"
HELD = "the provider holds the history"

WHOLE = {
    "claude-code-opus-5-5": BOUND,
    "openai-sdk-previous-response": HELD,
    "codex-websocket": HELD,
    "codex-chatgpt-websocket": HELD,
}
"""What passes whole, and why; claude-code's is as it goes to other hosts, without a signature."""


class Captured(NamedTuple):
    name: str
    path: str
    bodies: tuple[dict[str, Any], ...]
    """One, or all that a client sent over a WebSocket."""


def find_captured() -> Iterator[Captured]:
    for file in sorted(CAPTURED.glob("*.json*.gz")):
        lines = gzip.decompress(file.read_bytes()).decode().splitlines()
        found = [json.loads(line) for line in lines] if file.suffixes[0] == ".jsonl" else None
        entries = found or [json.loads("".join(lines))]
        sent = (each["body"] for each in entries if each.get("kind", "ws-client") == "ws-client")
        path = entries[0]["path"].partition("?")[0]
        yield Captured(file.name.partition(".")[0], path, tuple(sent))


ALL = [*find_captured()]


@pytest.mark.parametrize(
    "captured",
    [
        pytest.param(each, id=f"{each.name} whole: {WHOLE[each.name]}")
        for each in ALL
        if each.name in WHOLE
    ],
)
def test_what_passes_whole(captured: Captured) -> None:
    for body in map(_spell, captured.bodies):
        if WHOLE[captured.name] == BOUND:
            found = rewrite_request(body, _shipped(), *_read_path(captured))
            assert body is found.body
            assert "bound" in {decision.reason for decision in found.decisions}
        elif b'"previous_response_id"' in body:
            with pytest.raises(WireError, match=HELD):
                rewrite_request(body, _shipped(), *_read_path(captured))
        else:  # the first message of a socket: no history yet
            assert not rewrite_request(body, _shipped(), *_read_path(captured)).decisions


@as_one_test
@pytest.mark.parametrize("captured", [e for e in ALL if e.name not in WHOLE], ids=lambda e: e.name)
def test_all_others_have_results_masked(captured: Captured) -> None:
    (body,) = map(_spell, captured.bodies)
    found = rewrite_request(body, _shipped(), *_read_path(captured))
    masked = sum(decision.reason == "masked" for decision in found.decisions)
    recent = sum(decision.reason == "in_window" for decision in found.decisions)
    assert 8 <= recent < masked
    assert len(found.body) < len(body)
    assert found.body is rewrite_request(found.body, _shipped(), *_read_path(captured)).body


def _spell(body: dict[str, Any]) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def _shipped() -> MaskPolicy:
    """Return the shipped window where nothing is cached, so that the boundary always moves."""
    settings = parse_settings(CONFIG.read_bytes())
    assert settings is not None
    return settings.policy


def _read_path(captured: Captured) -> tuple[WireFormat, str]:
    match = find_format("POST", captured.path)
    assert match is not None
    return match.wire, captured.path

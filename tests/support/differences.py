"""Where the strings of two JSON documents differ that are otherwise the same, byte for byte."""

from collections.abc import Iterator

from masking.conversation import Conversation
from masking.edit.json_text import find_strings
from masking.model import Path


def compare(before: bytes, after: bytes) -> Iterator[Path]:
    """Yield where strings differ. Raises AssertionError if anything else does."""
    old, new = before.decode(), after.decode()
    done = done_in_new = 0
    for was, now in zip(find_strings(old), find_strings(new), strict=True):
        assert was.path == now.path
        assert old[done : was.start] == new[done_in_new : now.start]
        done, done_in_new = was.end, now.end
        if was.value != now.value:
            yield was.path
        else:
            assert old[was.start : was.end] == new[now.start : now.end]
    assert old[done:] == new[done_in_new:]


def list_slots(conversation: Conversation) -> Iterator[Path]:
    """Yield the path of each text of a tool result in a request."""
    for result in conversation.results:
        for slot in result.slots:
            yield (*conversation.list_path, result.element, *slot)

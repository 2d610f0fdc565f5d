"""OpenAI's prompt cache, as Responses reports it.

Older models find any prefix again, in steps of 128 tokens. Those from gpt-5.6 on find only the ends
of earlier prompts, as no request here asks for breakpoints of its own, and report what they write.
Source: https://platform.openai.com/docs/guides/prompt-caching.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

from addon.recordings.provider.received import JsonDict, Received, Spell
from addon.recordings.provider.responses_items import items_of, render_head, render_item
from addon.recordings.provider.script import Reply

_CHARS_PER_TOKEN = 4
_STEP = 128
_LEAST = 1024

_FINDS_ENDS = re.compile(r"gpt-(5\.[6-9]|[6-9])")


class PromptCache:
    """Remembers the prompts that it has seen, as digests; four characters count as a token.

    `spell` is applied to each item before it is counted.
    """

    def __init__(self, spell: Spell = str) -> None:
        self._seen: set[bytes] = set()
        self._spell = spell

    def usage(self, received: Received, reply: Reply) -> JsonDict:
        """Return the usage of a request, and remember its prompt."""
        finds_ends = bool(_FINDS_ENDS.match(str(received.request.get("model"))))
        prefixes = [*_prefixes(received.request, self._spell)]
        prompt = prefixes[-1][1] // _CHARS_PER_TOKEN
        cached = max((n for digest, n in prefixes if digest in self._seen), default=0)
        cached = cached // _CHARS_PER_TOKEN
        cached = (cached if finds_ends else cached // _STEP * _STEP) if cached >= _LEAST else 0
        self._seen.update(digest for digest, _ in (prefixes[-1:] if finds_ends else prefixes))
        written = prompt - cached if finds_ends and prompt >= _LEAST else 0
        thought = len(reply.thinking or "") // _CHARS_PER_TOKEN
        said = (reply.content or "") + "".join(each.tool + each.arguments for each in reply.calls)
        output = max(1, len(said) // _CHARS_PER_TOKEN) + thought
        return {
            "input_tokens": prompt,
            "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": written},
            "output_tokens": output,
            "output_tokens_details": {"reasoning_tokens": thought},
            "total_tokens": prompt + output,
        }


def count_tokens(received: Received) -> JsonDict:
    """Return the answer to `POST …/responses/input_tokens`."""
    *_, (_, chars) = _prefixes(received.request, str)
    return {"object": "response.input_tokens", "input_tokens": chars // _CHARS_PER_TOKEN}


def _prefixes(request: Mapping[str, Any], spell: Spell) -> Iterator[tuple[bytes, int]]:
    """Yield a digest and the length in characters of a prompt's head, and up to each item."""
    head = render_head(request)
    digest, chars = hashlib.sha256(head.encode()), len(head)
    yield digest.digest(), chars
    for item in items_of(request):
        text = spell(render_item(item))
        digest.update(text.encode())
        chars += len(text)
        yield digest.digest(), chars

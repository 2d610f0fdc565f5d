"""The implicit prompt cache and the usage of Gemini.

Any prefix is found again, if it is long enough. Four characters count as a token.
Source: https://ai.google.dev/gemini-api/docs/caching
"""

import json
from collections.abc import Iterator

from addon.recordings.provider.any_prefix import CHARS_PER_TOKEN, AnyPrefix, count_said
from addon.recordings.provider.gemini import read_body, read_model
from addon.recordings.provider.received import JsonDict, Received, Spell
from addon.recordings.provider.script import Reply

_LEAST_OF_2 = 2048
_LEAST = 4096


class PromptCache:
    """The cache of all models; `spell` is applied to each content before it is counted."""

    def __init__(self, spell: Spell = str) -> None:
        self._prefixes = AnyPrefix(spell)

    def usage(self, received: Received, reply: Reply) -> JsonDict:
        """Return the usage of a request, and remember its prefixes."""
        prompt, cached = self._prefixes.count(_read_pieces(received))
        least = _LEAST_OF_2 if read_model(received).startswith("gemini-2") else _LEAST
        said = count_said(reply)
        thought = len(reply.thinking or "") // CHARS_PER_TOKEN
        usage: JsonDict = {"promptTokenCount": prompt, "candidatesTokenCount": said}
        if cached >= least:
            usage["cachedContentTokenCount"] = cached
        if thought:
            usage["thoughtsTokenCount"] = thought
        return usage | {"totalTokenCount": prompt + thought + said}


def count_tokens(received: Received) -> JsonDict:
    """Return the answer to a count of tokens."""
    prompt, _ = AnyPrefix(str).count(_read_pieces(received))
    return {"totalTokens": prompt}


def _read_pieces(received: Received) -> Iterator[str]:
    """Yield the prompt: what stands before the contents, then the contents without signatures."""
    body = read_body(received.request)
    head = [read_model(received)]
    head += [
        json.dumps(body[key])
        for key in ("systemInstruction", "system_instruction", "tools")
        if key in body
    ]
    yield "".join(head)
    for content in body.get("contents") or ():
        parts = [
            {key: value for key, value in part.items() if key != "thoughtSignature"}
            for part in content.get("parts") or ()
        ]
        yield json.dumps([content.get("role"), parts])

"""The usage of an answer as LiteLLM reports it: in one spelling, whoever the provider is."""

from collections.abc import Mapping

import orjson

_DETAILS = "prompt_tokens_details"
_LIFETIMES = "cache_creation_token_details"


def find_usage(answer: object) -> Mapping[str, object] | None:
    """Return the usage in an answer, an object of a class or a dictionary; None without one."""
    usage = _as_mapping(_find(answer, "usage"))
    if usage is None:
        return None
    details = _as_mapping(usage.get(_DETAILS)) or {}
    written = _as_mapping(details.get(_LIFETIMES))
    return {**usage, "cache_creation": written} if written else usage


def spell_usage(usage: object) -> bytes | None:
    """Spell a usage as an answer that holds nothing else; None if there is none."""
    try:
        return orjson.dumps({"usage": usage}) if usage else None
    except TypeError:
        return None


def _find(answer: object, name: str) -> object:
    return answer.get(name) if isinstance(answer, Mapping) else getattr(answer, name, None)


def _as_mapping(value: object) -> Mapping[str, object] | None:
    if isinstance(value, Mapping):
        return value
    dump = getattr(value, "model_dump", None)
    dumped = None if dump is None else dump()
    return dumped if isinstance(dumped, Mapping) else None

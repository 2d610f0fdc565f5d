"""Values as TOML spells them, on one line."""

import json
import re
from collections.abc import Mapping

from masking.errors import printable

_BARE_KEY = re.compile(r"[\w-]+", re.ASCII)


def dump_toml(value: object) -> str:
    """Return a value as it can stand in a file; a key without a value, None, is left out."""
    if isinstance(value, Mapping):
        given = ((key, each) for key, each in value.items() if each is not None)
        inner = (f"{_dump_key(key)} = {dump_toml(each)}" for key, each in given)
        return f"{{ {', '.join(inner)} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(dump_toml, value))}]"
    if isinstance(value, float):
        return repr(value)  # JSON has no words for what is infinite
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def render_toml(value: object) -> str:
    """Return the same for a screen, without characters that steer one."""
    return printable(dump_toml(value))


def _dump_key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else dump_toml(key)

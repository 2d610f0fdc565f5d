"""Values as TOML spells them, on one line and fit for a screen."""

import json
from collections.abc import Mapping

from masking.printable import printable


def render_toml(value: object) -> str:
    """Return a value of a configuration as it could stand in its file; null is left out."""
    if isinstance(value, Mapping):
        inner = (f"{key} = {render_toml(each)}" for key, each in value.items() if each is not None)
        return f"{{ {', '.join(inner)} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(render_toml, value))}]"
    return printable(json.dumps(value, ensure_ascii=False))

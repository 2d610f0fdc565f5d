"""Pages of one look: a template of each, one style sheet, and scripts that draw what they are told.

A page loads its assets from the server, or is one file that contains them and its data. Names come
from elsewhere and are hostile until shown: templates escape every text, data are one block of JSON
in which no `<` is left, and scripts write texts only, never markup.
"""

import base64
import hashlib
from functools import cache
from importlib.resources import files

from jinja2 import Environment, FunctionLoader, StrictUndefined

from addon.version import VERSION
from masking.errors import printable

_STYLES = ("uPlot.min.css", "look.css")
_SCRIPTS = ("uPlot.iife.min.js", "elements.js", "charts.js", "masking_map.js")
_OWN = {
    "live": ("live.js",),
    "history": ("history.js",),
    "report": ("report.js",),
}
"""The scripts of each page, which it loads after those of all."""

ASSETS = {
    **dict.fromkeys(_STYLES, "text/css"),
    **dict.fromkeys((*_SCRIPTS, *_OWN["live"], *_OWN["history"]), "text/javascript"),
}
"""The type of each file that is served beside a page."""


def read_asset(name: str) -> bytes:
    """Return the content of a file that belongs to pages."""
    return (files("addon.look") / "assets" / name).read_bytes()


def render_page(name: str, **context: object) -> str:
    """Return a page, `live` or `history`, which needs nothing but what is served beside it."""
    return _render(name, {"styles": _STYLES, "scripts": (*_SCRIPTS, *_OWN[name])}, context)


def render_file(name: str, data: str, **context: object) -> str:
    """Return a page, `report`, as one file that needs nothing from the network or the disk.

    data: what its scripts draw, as JSON in ASCII. A policy in the page forbids every other source.
    """
    style = _join(_STYLES)
    script = _join((*_SCRIPTS, *_OWN[name]))
    inside = {
        "style": style,
        "script": script,
        "data": data.replace("<", "\\u003c").replace(">", "\\u003e"),
        "style_hash": _hash(style),
        "script_hash": _hash(script),
    }
    return _render(name, {"inside": inside}, context)


def _render(name: str, assets: dict[str, object], context: dict[str, object]) -> str:
    template = _environment().get_template(f"{name}.html.jinja")
    return template.render(**{"inside": None, **assets}, version=VERSION, **context)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(lambda name: read_asset(name).decode()),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["printable"] = printable
    return environment


def _join(names: tuple[str, ...]) -> str:
    return "\n".join(read_asset(name).decode() for name in names)


def _hash(text: str) -> str:
    """Return the name of an inline script or style sheet in a Content-Security-Policy."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

"""The page itself, which is empty until its script has heard of something, and its parts."""

from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from importlib.resources import files

from jinja2 import Environment, FunctionLoader, StrictUndefined

from masking.accounting import PARTS, label_reasons

_REPORT, _OWN = "addon.replay.report", "addon.dashboard"

ASSETS: Mapping[str, tuple[str, str]] = {
    "uPlot.min.css": (_REPORT, "text/css"),
    "report.css": (_REPORT, "text/css"),
    "live.css": (_OWN, "text/css"),
    "uPlot.iife.min.js": (_REPORT, "text/javascript"),
    "elements.js": (_REPORT, "text/javascript"),
    "charts.js": (_REPORT, "text/javascript"),
    "masking_map.js": (_REPORT, "text/javascript"),
    "composition.js": (_OWN, "text/javascript"),
    "conversation.js": (_OWN, "text/javascript"),
    "live.js": (_OWN, "text/javascript"),
}
"""The room and the type of each file, in the order in which the page loads them."""

_COLOURS = {"chosen": "with masking", "everything": "without"}


@cache
def render_page() -> str:
    """Return the page, which needs nothing but what is served beside it."""
    environment = Environment(
        loader=FunctionLoader(lambda name: (files(_OWN) / "assets" / name).read_text("utf-8")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"sort_keys": False}  # the order of legends
    return environment.get_template("live.html.jinja").render(
        data={"reasons": label_reasons(), "policies": _COLOURS, "parts": PARTS},
        version=version("observation-masking"),
        styles=[name for name, (_, kind) in ASSETS.items() if kind == "text/css"],
        scripts=[name for name, (_, kind) in ASSETS.items() if kind == "text/javascript"],
    )

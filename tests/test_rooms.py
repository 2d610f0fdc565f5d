"""The arrows between rooms: who may import whom, read from the sources.

An import inside a function counts like any other.
"""

import ast
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.places import ROOT

ROOMS = {
    # The core, from the ground up.
    "nouns": ("masking.errors", "masking.patterns", "masking.model", "masking.history"),
    "tokens": ("masking.tokens",),
    "prices": ("masking.prices",),
    "wire": ("masking.wire",),
    "edit": ("masking.edit",),
    "index": ("masking.conversation", "masking.request_cache"),
    "window": ("masking.window",),
    "strategies": (
        *("masking.redaction", "masking.reduction", "masking.history_summary", "masking.mcp"),
    ),
    "memory": ("masking.memory",),
    "road": ("masking.rewrite", "masking.messages_api"),
    "accounting": ("masking.accounting",),
    "config": ("masking.config",),
    "face": ("masking",),
    # What carries requests to it, and shows what became of them.
    "replay": ("addon.replay",),
    "metrics": ("addon.metrics",),
    "dashboard": ("addon.page",),
    "shared": ("addon.shared",),
    "gateways": ("addon.gateways",),
    "proxy": ("addon.proxy",),
    "mask": ("addon.mask",),
    "recordings": ("addon.recordings",),
    "commands": ("addon.commands", "addon"),
}
"""The modules and folders of each room."""

GROUND = ("nouns", "tokens", "prices", "wire", "edit", "index")
CORE = (*GROUND, "window", "strategies", "memory", "road", "accounting", "config", "face")

ALLOWED: Mapping[str, tuple[str, ...]] = {
    "nouns": (),
    # Leaves: they know a text, a price or an element, and no strategy.
    "tokens": ("nouns",),
    "prices": ("nouns",),
    "edit": ("nouns",),
    "wire": ("nouns", "tokens"),
    "index": ("nouns", "edit", "wire"),
    # A strategy gets a conversation, and a format does not know what becomes of it. A new one of
    # either must need no change of the other.
    "window": GROUND,
    "strategies": (*GROUND, "window"),
    # What was sent before is remembered in the window's terms, whatever format it was in.
    "memory": (*GROUND, "window"),
    # Where formats, strategies and what is remembered meet: for bytes, and for a list of messages.
    "road": (*GROUND, "window", "strategies", "memory"),
    # Nothing that works knows where its settings came from.
    "config": (*GROUND, "window", "strategies", "road"),
    "accounting": (*GROUND, "window", "strategies", "memory", "road"),
    # The public face: nothing inside imports it.
    "face": CORE[:-1],
    # Only commands replay. Metrics decide nothing and know no engine.
    "replay": CORE,
    "metrics": CORE,
    "dashboard": (*CORE, "metrics"),
    # What every engine uses, and each engine upon that.
    "shared": (*CORE, "metrics"),
    "gateways": (*CORE, "metrics", "shared", "dashboard"),
    "proxy": (*CORE, "metrics", "shared"),
    "mask": (*CORE, "metrics", "dashboard", "shared", "proxy"),
    "recordings": (*CORE, "replay", "shared", "proxy", "metrics"),
    "commands": (
        *(*CORE, "replay", "recordings", "proxy", "shared", "metrics"),
        *("dashboard", "gateways"),
    ),
}
"""For each room, those it may import from beside itself."""

MITMPROXY = ("mask", "proxy", "recordings")
"""Where mitmproxy may be imported: the core and the commands' own work do without it."""


def find_modules() -> dict[str, Path]:
    """Return the program's modules by name, without the projects that recorded agents work on."""
    files = (path for top in ("addon", "masking") for path in (ROOT / top).rglob("*.py"))
    found = {path.relative_to(ROOT): path for path in files if "projects" not in path.parts}
    return {
        ".".join(place.with_suffix("").parts).removesuffix(".__init__"): path
        for place, path in found.items()
    }


MODULES = find_modules()


def find_imports(module: str) -> Iterator[str]:
    """Yield what a module imports: modules of ours by their full names, and other packages."""
    for node in ast.walk(ast.parse(MODULES[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} has a relative import"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in MODULES else str(node.module)


IMPORTS = {module: set(find_imports(module)) for module in MODULES}


def room_of(module: str) -> str:
    """Return the room of one of our modules; of another package's, the package."""
    top, *inner = module.split(".")
    if top not in ("addon", "masking"):
        return top
    place = ".".join((top, *inner[:1]))
    return next(room for room, places in ROOMS.items() if place in places)


def test_an_arrow_is_allowed() -> None:
    """Also fails with StopIteration for a module without a room."""
    wrong = {
        f"{module} imports {imported}"
        for module, others in IMPORTS.items()
        for imported in others
        if (room := room_of(module)) != (target := room_of(imported))
        and target in (*ROOMS, "mitmproxy")
        and target not in (*ALLOWED[room], *(("mitmproxy",) if room in MITMPROXY else ()))
    }
    assert set() == wrong


def test_a_room_of_the_core_is_entered_by_its_face() -> None:
    """What is inside of a folder of `masking` is for that folder and the rest of the core."""
    wrong = {
        f"{module} imports {imported}"
        for module, others in IMPORTS.items()
        for imported in others
        if module.startswith("addon")
        and imported.startswith("masking.")
        and imported.count(".") > 1
    }
    assert set() == wrong


def find_circle(graph: Mapping[str, set[str]]) -> list[str]:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        circle: list[str] = error.args[1]
        return circle
    return []


def test_modules_do_not_go_in_a_circle() -> None:
    ours = {module: imported & MODULES.keys() for module, imported in IMPORTS.items()}
    assert [] == find_circle(ours)


def test_the_allowed_arrows_do_not_go_in_a_circle() -> None:
    assert [] == find_circle({room: set(others) for room, others in ALLOWED.items()})


FORMAT_KEYS = {"messages", "role", "tool_calls", "function", "cache_control", "cachePoint"}
"""As Chat Completions spells them; `tool_call_id` is the name of a placeholder's field, too."""

SPELLS = (
    *("masking.wire", "masking.messages_api", "addon.recordings", "addon.commands.demo"),
    "addon.replay.files",
)
"""Who may spell a format: its own room, the functions of a list of messages, and the studio."""


def find_texts(module: str) -> set[object]:
    """Return the texts in a module that are keys: whole strings, neither docstrings nor parts."""
    tree = ast.parse(MODULES[module].read_text(encoding="utf-8"))
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}


@pytest.mark.parametrize("module", [m for m in sorted(MODULES) if not m.startswith(SPELLS)])
def test_a_format_is_spelled_in_its_own_room(module: str) -> None:
    assert set() == FORMAT_KEYS & find_texts(module)

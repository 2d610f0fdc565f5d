"""The arrows between rooms: who may import whom, read from the sources.

An import inside a function counts like any other. A room is a folder of `addon` or `masking`, or a
module beside the folders.
"""

import ast
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.places import ROOT

NAMES = (
    *("masking.errors", "masking.errors", "masking.model", "masking.model"),
    *("masking.patterns", "masking.patterns"),
)
INDEX = (
    *(
        "masking.model",
        "masking.history",
        "masking.request_cache",
        "masking.conversation",
        "masking.decoded",
    ),
    *("masking.wire_format", "masking.conversation", "masking.conversation"),
)
LEAVES = (*NAMES, *INDEX, "masking.measures", "masking.window", "masking.edit")
PATH = (
    *(*LEAVES, "masking.strategies", "masking.memory", "masking.wire", "masking.request_cache"),
    "masking.rewrite",
)
UP_TO_REPLAY = (*PATH, "masking.accounting", "addon.replay")
CORE = (
    *(*UP_TO_REPLAY, "addon.replay.tune", "addon.replay.report"),
    *("masking.config", "masking.config", "masking.config", "masking.config"),
    *("masking.config", "masking.config.mistakes", "masking.config"),
    *("masking.config", "masking.messages_api"),
)
SEES_MASKING = ("masking", *CORE)

ALLOWED: Mapping[str, tuple[str, ...]] = {
    # Nouns and errors, which everybody may name.
    "masking.errors": (),
    "masking.model": ("masking.errors", "masking.model"),
    "masking.model": (),
    "masking.patterns": ("masking.errors",),
    "masking.patterns": ("masking.errors",),
    "masking.config": NAMES,
    # Leaves: they know a text, a path or a price, and no strategy.
    "masking.measures": NAMES,
    "masking.model": NAMES,
    # What is remembered of a list; each knows bytes or values, and no format.
    "masking.history": (),
    "masking.request_cache": NAMES,
    "masking.conversation": (*NAMES, "masking.model", "masking.history", "masking.request_cache"),
    "masking.decoded": ("masking.history", "masking.request_cache", "masking.conversation"),
    "masking.request_cache": (*NAMES, *INDEX),
    "masking.wire_format": (*NAMES, "masking.model"),
    "masking.conversation": (*NAMES, "masking.model", "masking.history", "masking.wire_format"),
    "masking.conversation": (*NAMES, *INDEX[:-1]),
    "masking.window": (*NAMES, *INDEX),
    "masking.edit": (*NAMES, "masking.conversation", "masking.decoded"),
    # A strategy gets a conversation, and a format does not know what becomes of it. A new one of
    # either must need no change of the other.
    "masking.strategies": LEAVES,
    "masking.wire": LEAVES,
    # What was sent before is remembered in the strategies' terms, whatever format it was in.
    "masking.memory": (*LEAVES, "masking.strategies"),
    # Where formats, strategies and what is remembered meet: for bytes, and for a list of messages.
    "masking.rewrite": PATH[:-1],
    "masking.messages_api": (*LEAVES, "masking.strategies", "masking.wire"),
    # The settings of the strategies; nothing that works knows where its settings came from.
    "masking.config": (*NAMES, "masking.measures", "masking.config"),
    "masking.config": (*LEAVES, "masking.strategies", "masking.config"),
    "masking.config": (
        *(*LEAVES, "masking.strategies", "masking.config", "masking.config"),
        "masking.config",
    ),
    "masking.config.mistakes": (*("masking.errors", "masking.config", "masking.config"),),
    "masking.config": ("masking.errors",),
    "masking.config": (
        *(*LEAVES, "masking.strategies"),
        *("masking.config", "masking.config", "masking.config.mistakes"),
        *("masking.config", "masking.config"),
    ),
    "masking.config": (
        *("masking.strategies", "masking.config", "masking.config", "masking.config"),
    ),
    # Off a request's path, each upon the one before.
    "masking.accounting": PATH,
    "addon.replay": (*PATH, "masking.accounting", "masking.config"),
    "addon.replay.tune": UP_TO_REPLAY,
    "addon.replay.report": UP_TO_REPLAY,
    # The public face: nothing inside imports it.
    "masking": CORE,
    # The engines' side. Metrics decide nothing and know no engine.
    "addon.metrics": SEES_MASKING,
    "addon.dashboard": (*SEES_MASKING, "addon.metrics"),
    # What every engine takes, and each engine upon that.
    "addon.shared": (*SEES_MASKING, "addon.metrics"),
    "addon.gateways": (*SEES_MASKING, "addon.metrics", "addon.shared", "addon.dashboard"),
    "addon.proxy": (*SEES_MASKING, "addon.metrics", "addon.shared"),
    "addon.mask": (
        *(*SEES_MASKING, "addon.metrics", "addon.dashboard", "addon.shared", "addon.proxy"),
    ),
    "addon.recordings": (*SEES_MASKING, "addon.shared", "addon.proxy", "addon.metrics"),
    "addon.commands": (
        *(*SEES_MASKING, "addon.recordings", "addon.proxy", "addon.shared", "addon.metrics"),
        *("addon.dashboard", "addon.gateways"),
    ),
    "addon": (),
}
"""For each room, those it may import from beside itself."""

MITMPROXY = ("addon.mask", "addon.proxy", "addon.recordings")
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
    return ".".join((top, *inner[:1])) if top in ("addon", "masking") else top


def find_arrows() -> dict[tuple[str, str], set[str]]:
    """Return the arrows between rooms and to mitmproxy, with the modules that they start from."""
    arrows: dict[tuple[str, str], set[str]] = {}
    for module, imported in IMPORTS.items():
        for target in map(room_of, imported):
            if target != room_of(module) and target.startswith(("addon", "masking", "mitmproxy")):
                arrows.setdefault((room_of(module), target), set()).add(module)
    return arrows


ARROWS = find_arrows()


def is_allowed(start: str, end: str) -> bool:
    return start in MITMPROXY if end == "mitmproxy" else end in ALLOWED[start]


def test_every_room_has_its_place() -> None:
    assert {room_of(module) for module in MODULES} <= ALLOWED.keys()


@pytest.mark.parametrize("arrow", sorted(ARROWS), ids=" to ".join)
def test_an_arrow_is_allowed(arrow: tuple[str, str]) -> None:
    assert is_allowed(*arrow), sorted(ARROWS[arrow])


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

"""Who may import whom, read from the sources. An import inside a function counts like any other."""

import ast
from collections.abc import Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

from tests.support.places import ROOT

ROOMS = {
    # The core, from the ground up.
    "nouns": (
        *("masking.errors", "masking.patterns", "masking.model", "masking.history"),
        "masking.setting",
    ),
    "tokens": ("masking.tokens",),
    "prices": ("masking.prices",),
    "wire": ("masking.wire",),
    "edit": ("masking.edit",),
    "index": ("masking.conversation", "masking.request_cache"),
    "proof": ("masking.proof", "masking.written"),
    "window": ("masking.window",),
    "strategies": (
        *("masking.arrival", "masking.redaction", "masking.reduction"),
        *("masking.history_summary", "masking.mcp"),
    ),
    "memory": ("masking.memory", "masking.server_history"),
    "road": ("masking.rewrite", "masking.messages_api"),
    "accounting": ("masking.accounting",),
    "roads": ("masking.roads",),
    "config": ("masking.config",),
    "face": ("masking",),
    # What carries requests to it, and shows what became of them: from the ground floor up.
    "ground": (
        *(
            "addon.accounts",
            "addon.quota",
            "addon.agents",
            "addon.network",
            "addon.places",
            "addon.once",
            "addon.version",
        ),
        *("addon.config", "addon.config_commands", "addon.memory", "addon.recall", "addon.request"),
        *(
            "addon.content",
            "addon.counts",
            "addon.stored_prices",
            "addon.threads",
            "addon.stages",
            "addon.store",
            "addon.skip_reasons",
            "addon.vendors",
        ),
    ),
    "masker": (*("addon.masker", "addon.attempts", "addon.refusals", "addon.ledgers"),),
    "records": ("addon.records",),
    "engine": ("addon.engine",),
    "look": ("addon.look",),
    "page": ("addon.page",),
    "gateways": ("addon.gateways",),
    "proxy": ("addon.proxy",),
    "mask": ("addon.mask",),
    "replay": ("addon.replay",),
    "recordings": ("addon.recordings",),
    "commands": ("addon.commands", "addon"),
}
"""The modules and folders of each room; one that is in none is a `KeyError` here."""

LEAVES = ("nouns", "tokens", "prices", "wire", "edit", "index")
CORE = (
    *(*LEAVES, "proof", "window", "strategies", "memory"),
    *("road", "accounting", "roads", "config", "face"),
)

ALLOWED: Mapping[str, tuple[str, ...]] = {
    "nouns": (),
    # Leaves: they know a text, a price or an element, and no strategy.
    "tokens": ("nouns",),
    "prices": ("nouns",),
    "edit": ("nouns",),
    "wire": ("nouns", "tokens"),
    "index": ("nouns", "edit", "wire"),
    # What proves a request knows nothing of those who have decided it.
    "proof": ("nouns", "tokens", "edit", "wire", "index"),
    # A strategy gets a conversation, and a format does not know what becomes of it. A new one of
    # either must need no change of the other.
    "window": LEAVES,
    "strategies": (*LEAVES, "window"),
    # What was sent before is remembered in the window's terms, whatever format it was in.
    "memory": (*LEAVES, "window", "strategies"),
    # Where formats, strategies and what is remembered meet: for bytes, and for a list of messages.
    "road": (*LEAVES, "proof", "window", "strategies", "memory"),
    # Nothing that works knows where its settings came from.
    "config": (*LEAVES, "window", "strategies", "road"),
    "accounting": (*LEAVES, "window", "strategies", "memory", "road"),
    # All ways to save beside each other, with what each would cost.
    "roads": (*LEAVES, "window", "strategies", "memory", "road", "accounting"),
    # The public face: nothing inside imports it.
    "face": CORE[:-1],
    # The ground floor: a request, the configuration, files, threads. It decides nothing.
    "ground": CORE,
    # What decides knows nothing of those who watch it: records are above the masker.
    "masker": (*CORE, "ground"),
    "records": (*CORE, "ground"),
    # A request from arrival to record, whatever carries it; each that carries one upon that.
    "engine": (*CORE, "ground", "masker", "records"),
    # What pages are made of, in the words of the records; what fills them knows nothing of others.
    "look": (*CORE, "ground", "records"),
    "page": (*CORE, "ground", "records", "engine", "look"),
    "gateways": (*CORE, "ground", "masker", "records", "engine", "page"),
    "proxy": (*CORE, "ground", "masker", "records", "engine", "mitmproxy"),
    "mask": (*CORE, "ground", "masker", "records", "engine", "page", "proxy", "mitmproxy"),
    # Only commands replay. The words for money are those of the records.
    "replay": (*CORE, "ground", "records", "look"),
    "recordings": (*CORE, "ground", "replay", "proxy", "records", "mitmproxy"),
    "commands": (
        *(*CORE, "ground", "masker", "records", "engine", "page", "gateways", "proxy"),
        *("replay", "recordings", "look"),
    ),
}
"""For each room, those that it may import from beside itself, and whether it may use mitmproxy."""

FORMAT_KEYS = {"messages", "role", "tool_calls", "function", "cache_control", "cachePoint"}
"""As Chat Completions spells them; `tool_call_id` is the name of a placeholder's field, too."""

SPELLS = (
    *("masking.wire", "masking.messages_api", "addon.recordings", "addon.commands.demo"),
    *("addon.replay.files", "addon.replay.logs"),
)
"""Who may spell a format: its own room, the functions of a list of messages, and the studio."""

SOURCES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for top in ("addon", "masking")
    for path in sorted((ROOT / top).rglob("*.py"))
    if "projects" not in path.parts  # what recorded agents work on
}
"""The program's modules, by name."""


class Import(NamedTuple):
    module: str
    line: int
    imported: str
    """A module of ours, or of another package."""

    def __str__(self) -> str:
        path = SOURCES[self.module].relative_to(ROOT)
        return f"{path}:{self.line} ({room_of(self.module)}) imports {self.imported}"


def room_of(module: str) -> str:
    """Return the room of one of our modules; of another package's, the package."""
    top, *inner = module.split(".")
    rooms = {place: room for room, places in ROOMS.items() for place in places}
    return rooms[".".join((top, *inner[:1]))] if top in ("addon", "masking") else top


def find_imports(module: str, nodes: Iterable[ast.AST]) -> Iterator[Import]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (Import(module, node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} has a relative import"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield Import(module, node.lineno, inner if inner in SOURCES else str(node.module))


def is_allowed(each: Import) -> bool:
    room, target = room_of(each.module), room_of(each.imported)
    if target not in (*ROOMS, "mitmproxy"):
        return True
    # What is inside of a folder of the core is for that folder and the rest of the core.
    if each.module.startswith("addon") and target in CORE and each.imported.count(".") > 1:
        return False
    return room == target or target in ALLOWED[room]


def find_circle(graph: Mapping[str, set[str]]) -> list[str]:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        circle: list[str] = error.args[1]
        return circle
    return []


def find_format_keys(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the keys of a format in a module: whole strings, neither docstrings nor parts."""
    found = (node.value for node in nodes if isinstance(node, ast.Constant))
    return FORMAT_KEYS & {text for text in found if isinstance(text, str)}


def test_every_room_knows_only_what_it_may() -> None:
    nodes = {name: [*ast.walk(ast.parse(path.read_bytes()))] for name, path in SOURCES.items()}
    imports = {each for name, found in nodes.items() for each in find_imports(name, found)}
    assert set() == {str(each) for each in imports if not is_allowed(each)}

    graph: dict[str, set[str]] = {name: set() for name in SOURCES}
    for each in imports:
        graph[each.module] |= {each.imported} & SOURCES.keys()
    assert [] == find_circle(graph)
    assert [] == find_circle({room: set(others) for room, others in ALLOWED.items()})

    # Our own databases are opened in one place; a reader of logs opens those of its agent.
    openers = {each.module for each in imports if each.imported == "sqlite3"}
    assert {"addon.store", "addon.replay.logs.opencode"} == openers

    others = {name: found for name, found in nodes.items() if not name.startswith(SPELLS)}
    spelled = {(name, key) for name, found in others.items() for key in find_format_keys(found)}
    assert set() == spelled

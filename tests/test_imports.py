"""What comes along with an import: a process is to load nothing that it has no use for.

Each process imports one module after the other, so what one loads counts for all that follow it.
"""

import json
import pkgutil
import subprocess
import sys
from collections.abc import Sequence

import masking

_LOADED = """
import importlib, json, pkgutil, sys
for names in json.loads(sys.argv[1]):
    for name in names:
        importlib.import_module(name)
    print(json.dumps(sorted(sys.modules)))
"""


def load(*steps: Sequence[str]) -> list[set[str]]:
    """Import the modules of each step in one process; return what is loaded after each."""
    command = [sys.executable, "-c", _LOADED, json.dumps(steps)]
    shown = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    return [{*json.loads(line)} for line in shown.splitlines()]


def test_importing_the_core_loads_no_proxy() -> None:
    modules = [each.name for each in pkgutil.walk_packages(masking.__path__, "masking.")]
    on_the_path = [name for name in modules if not name.startswith("masking.accounting")]
    for loaded, unwanted in zip(
        load(on_the_path, modules), ({"tiktoken", "rich"}, {"jinja2"}), strict=True
    ):
        assert {"masking.window", "masking.wire.chat", "masking.config"} <= loaded
        assert set() == {"mitmproxy", "addon", *unwanted} & loaded


ABOVE = {"addon.proxy", "addon.commands", "addon.recordings"}

SHOWING = {"rich", "tomlkit", "jinja2", "prometheus_client"}
"""What commands draw and write with, and a page once somebody looks at it."""

UNWANTED = {
    "addon.masker": {"mitmproxy", "addon.records", "addon.engine", *ABOVE},
    "addon.replay.replay": {"mitmproxy", "addon.records", *ABOVE},
    "addon.records.recorder": {"mitmproxy", "addon.engine", "addon.page", *ABOVE},
    "addon.engine": {"mitmproxy", "addon.page", *ABOVE},
    "addon.gateways.litellm": {"mitmproxy", "addon.page", *ABOVE},
    "addon.proxy.flows": {"addon.commands", "addon.recordings"},
    "addon.mask": {"addon.page", "statistics"},
}
"""What a module is not to load: what stands above it; and a proxy shows no page unless asked to."""


def test_a_module_of_the_addon_loads_none_that_stands_above_it() -> None:
    loaded = load(*([module] for module in UNWANTED))
    # mitmproxy itself draws on jinja2.
    shows = [SHOWING - ({"jinja2"} if "mitmproxy" in each else set()) for each in loaded]
    unwanted = [one | other for one, other in zip(UNWANTED.values(), shows, strict=True)]
    found = [one & other for one, other in zip(unwanted, loaded, strict=True)]
    assert {} == {module: each for module, each in zip(UNWANTED, found, strict=True) if each}


def test_a_run_begins_without_what_other_commands_draw_with() -> None:
    (loaded,) = load(["addon.commands.main", "addon.commands.run"])
    assert set() == (SHOWING | {"addon.page", "addon.engine"}) & loaded

import json
import subprocess
import sys

import pytest

_LOADED = """
import importlib, json, pkgutil, sys
package = importlib.import_module("{room}")
for found in pkgutil.walk_packages(package.__path__, "{room}."):
    if not found.name.startswith({off_the_path}):
        importlib.import_module(found.name)
print(json.dumps(sorted(sys.modules)))
"""


_OFF_THE_PATH = ("masking.accounting",)


def load(off_the_path: tuple[str, ...] = ("nothing",), room: str = "masking") -> set[str]:
    """Import a room without the modules that begin like this; return all loaded modules."""
    source = _LOADED.format(off_the_path=repr(off_the_path), room=room)
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, check=True)
    return {*json.loads(done.stdout)}


@pytest.mark.parametrize(
    ("off_the_path", "unwanted"),
    [
        (("nothing",), {"mitmproxy", "addon", "jinja2"}),
        (_OFF_THE_PATH, {"mitmproxy", "addon", "tiktoken", "rich"}),
    ],
    ids=["the whole core", "what is on a request's path"],
)
def test_importing_the_core_loads_no_proxy(
    off_the_path: tuple[str, ...], unwanted: set[str]
) -> None:
    loaded = load(off_the_path)
    assert {"masking.window", "masking.wire.chat", "masking.config"} <= loaded
    assert set() == unwanted & loaded


ABOVE = {"addon.proxy", "addon.commands", "addon.recordings"}


@pytest.mark.parametrize(
    ("module", "unwanted"),
    [
        ("addon.masker", {"mitmproxy", "addon.records", "addon.engine", *ABOVE}),
        ("addon.records.recorder", {"mitmproxy", "addon.engine", "addon.page", *ABOVE}),
        ("addon.engine", {"mitmproxy", "addon.page", *ABOVE}),
        ("addon.gateways.litellm", {"mitmproxy", "addon.page", *ABOVE}),
        ("addon.replay.replay", {"mitmproxy", "addon.records", *ABOVE}),
        ("addon.proxy.flows", {"addon.commands", "addon.recordings"}),
    ],
)
def test_a_module_of_the_addon_loads_none_that_stands_above_it(
    module: str, unwanted: set[str]
) -> None:
    told = f"import {module}, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, check=True, text=True)
    loaded = {*done.stdout.split()}
    assert module in loaded
    assert set() == unwanted & loaded


def test_a_proxy_that_shows_no_page_loads_none_of_it() -> None:
    told = "import addon.mask, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, check=True, text=True)
    loaded = {*done.stdout.split()}
    assert {"addon.mask", "addon.records.recorder"} <= loaded
    assert set() == {"addon.page", "statistics"} & loaded

import json
import subprocess
import sys

import pytest

_LOADED = """
import importlib, json, pkgutil, sys
import masking
for found in pkgutil.walk_packages(masking.__path__, "masking."):
    if not found.name.startswith({off_the_path}):
        importlib.import_module(found.name)
print(json.dumps(sorted(sys.modules)))
"""


_OFF_THE_PATH = tuple(
    f"masking.{room}"
    for room in ("accounting", "replay", "tune", "report", "measures.tokens", "measures.vocabulary")
)


def load(off_the_path: tuple[str, ...]) -> set[str]:
    """Import the core, but for what begins like this; return all modules that are then there."""
    source = _LOADED.format(off_the_path=repr(off_the_path))
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, check=True)
    return {*json.loads(done.stdout)}


@pytest.mark.parametrize(
    ("off_the_path", "unwanted"),
    [
        (("nothing",), {"mitmproxy", "addon"}),
        (
            _OFF_THE_PATH,
            {"mitmproxy", "addon", "tiktoken", "rich", "masking.measures.tokens"},
        ),
    ],
    ids=["the whole core", "what is on a request's path"],
)
def test_importing_the_core_loads_no_proxy(
    off_the_path: tuple[str, ...], unwanted: set[str]
) -> None:
    loaded = load(off_the_path)
    assert {"masking.strategies.window", "masking.wire.chat", "masking.config"} <= loaded
    assert set() == unwanted & loaded

"""Every test in this folder is live; and what most of their modules stand in front of."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.harness import OFF, Live, Upstream, running_addon, running_upstream
from tests.tools.provider.script import Script

pytest.register_assert_rewrite("tests.live.scripted_sessions")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = str(Path(__file__).parent)
    for item in items:
        if str(item.path).startswith(here):
            item.add_marker(pytest.mark.live)


@pytest.fixture(scope="module")
def script() -> Script | None:
    """What the provider answers; a module that has a fixture of its own gets a strict provider."""
    return None


@pytest.fixture(scope="module")
def upstream(tmp_path_factory: pytest.TempPathFactory, script: Script | None) -> Iterator[Upstream]:
    """The provider and the sink, shared by the tests of a module."""
    with running_upstream(tmp_path_factory.mktemp("upstream"), script) as running:
        yield running


@pytest.fixture(scope="module")
def on(tmp_path_factory: pytest.TempPathFactory, upstream: Upstream) -> Iterator[Live]:
    """A proxy that masks, shared by the tests of a module."""
    with running_addon(tmp_path_factory.mktemp("on"), upstream) as live:
        yield live
        assert "Traceback" not in live.proxy.log


@pytest.fixture(scope="module")
def off(tmp_path_factory: pytest.TempPathFactory, upstream: Upstream) -> Iterator[Live]:
    """A proxy with masking off, shared by the tests of a module."""
    with running_addon(tmp_path_factory.mktemp("off"), upstream, config=OFF) as live:
        yield live
        assert "Traceback" not in live.proxy.log

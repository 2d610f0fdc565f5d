"""Where processes share nothing, none remembers anything."""

from pathlib import Path

import pytest

from addon.config import ConfigFile, without_memory
from masking.errors import ConfigError


def write(folder: Path, memory: str) -> Path:
    path = folder / "config.toml"
    path.write_text(f"[observation_masking.memory]\nenabled = {memory}\n")
    return path


@pytest.mark.parametrize("memory", ['"auto"', "false"])
def test_there_is_no_memory(tmp_path: Path, memory: str) -> None:
    config = ConfigFile(write(tmp_path, memory), (), without_memory)
    assert config.settings.memory.enabled is False


def test_a_memory_that_is_asked_for_is_refused_with_the_reason(tmp_path: Path) -> None:
    path = write(tmp_path, "true")
    with pytest.raises(ConfigError) as refused:
        ConfigFile(path, (), without_memory)
    assert "observation_masking.memory.enabled" == refused.value.path
    assert str(refused.value).startswith(f"{path}: the processes of this engine share nothing")


def test_a_change_to_a_memory_leaves_the_settings_as_they_were(tmp_path: Path) -> None:
    config = ConfigFile(write(tmp_path, "false"), (), without_memory)
    write(tmp_path, "true  # as of now")
    changes = [change for change in (config.look(), config.look()) if change]
    assert ["observation_masking.memory.enabled" in (c.problem or "") for c in changes] == [True]
    assert config.settings.memory.enabled is False

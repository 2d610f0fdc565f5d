"""What the settings become where many processes serve one conversation and share nothing."""

from dataclasses import replace

from masking.config import ROOT, MemorySettings, Settings, change_everywhere
from masking.errors import ConfigError

_PROBLEM = (
    "the processes of this engine share nothing, and what one of them remembers would change what "
    'the others send: leave it "auto", or set it false'
)


def without_memory(settings: Settings) -> Settings:
    """Return settings under which each process sends the same bytes for the same request.

    "auto" means off. Raises ConfigError if a memory is asked for.
    """
    if any(one.memory.enabled is True for one in settings.with_rules):
        raise ConfigError(_PROBLEM, f"{ROOT}.memory.enabled")
    off = MemorySettings(enabled=False)
    return change_everywhere(settings, lambda one: replace(one, memory=off))

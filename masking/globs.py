"""Globs in the configuration: `*` matches anything, `?` one character, `[abc]` one of these.

Case counts. What `fnmatch` makes of a glob never goes back behind a `*` that has found what follows
it, so the time grows with the text times the glob and no faster, whatever both are.
"""

import re
from collections.abc import Sequence
from fnmatch import translate
from functools import lru_cache

from masking.errors import ConfigError

_COMPILED = 256


def check_globs(globs: Sequence[str], path: str) -> None:
    """Raise ConfigError for a glob that is blank, as it would match nothing that is meant."""
    for place, glob in enumerate(globs):
        if not glob.strip():
            raise ConfigError("expected a name or a pattern, got a blank", f"{path}[{place}]")


def matches(text: str, globs: Sequence[str]) -> bool:
    """Whether a text as a whole matches one of these globs."""
    return any(_compile(glob).match(text) for glob in globs)


@lru_cache(_COMPILED)
def _compile(glob: str) -> re.Pattern[str]:
    return re.compile(translate(glob))

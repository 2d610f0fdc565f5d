"""The version of this software."""

import functools
from importlib.metadata import PackageNotFoundError, version


@functools.cache
def find_version() -> str:
    """Return the version of this software."""
    try:
        return version("observation-masking")
    except PackageNotFoundError:  # the same modules without the proxy
        return version("observation-masking-core")

"""The version of a peer that is installed."""

import json
import re
from pathlib import Path
from typing import NamedTuple

from tests.tools.studio.client import Registry


class Package(NamedTuple):
    """A peer's package: from where, and its name there.

    before: what is installed into the same environment, named before it.
    """

    registry: Registry
    name: str
    before: tuple[str, ...] = ()


def find_version(package: Package, folder: Path) -> str:
    """Return the version of a package in the folder where it was installed."""
    name = package.name
    if package.registry == "npm":
        about = folder / "node_modules" / name / "package.json"
        return str(json.loads(about.read_text(encoding="utf-8"))["version"])
    plain = re.sub(r"\[.*", "", name).replace("-", "_")
    (found,) = folder.glob(f"lib/python*/site-packages/{plain}-*.dist-info")
    return found.name.removeprefix(f"{plain}-").removesuffix(".dist-info")

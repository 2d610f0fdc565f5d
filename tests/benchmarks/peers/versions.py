"""The version of a peer that is installed."""

import json
import re
from pathlib import Path

from addon.recordings.studio.client import Registry


def find_version(package: tuple[Registry, str], folder: Path) -> str:
    """Return the version of a package in the folder where it was installed."""
    registry, name = package
    if registry == "npm":
        about = folder / "node_modules" / name / "package.json"
        return str(json.loads(about.read_text(encoding="utf-8"))["version"])
    plain = re.sub(r"\[.*", "", name).replace("-", "_")
    (found,) = folder.glob(f"lib/python*/site-packages/{plain}-*.dist-info")
    return found.name.removeprefix(f"{plain}-").removesuffix(".dist-info")

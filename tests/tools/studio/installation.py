"""Installs clients and other packages into the user's cache folder, once, from PyPI or npm."""

import re
import shutil
import subprocess
import sys
import venv
from importlib.util import find_spec
from pathlib import Path

import platformdirs

from tests.tools.studio.client import Client, Registry
from tests.tools.studio.clients import CLIENTS

_COMPLETE = "installed.txt"
"""Written at the end, with what is installed."""

_SIGNS = re.compile(r"[^\w.]+")


def installed(agent: str) -> Path:
    """Return the folder where the client is installed, and install it on first use.

    A Python client of this environment is used as it is. Raises as `install_packages` does.
    """
    client = CLIENTS[agent]
    return find_installed(client) or install_packages(client.registry, client.packages)


def find_installed(client: Client) -> Path | None:
    """Return the folder where the client is installed; None if it is not."""
    if client.module and find_spec(client.module):
        return Path(sys.prefix)
    folder = _find_folder(client.packages)
    return folder if _is_complete(folder, client.packages) else None


def install_packages(registry: Registry, packages: tuple[str, ...]) -> Path:
    """Return a folder that has these packages and what they need, and make it on first use.

    Raises RuntimeError if they cannot be installed; the next call tries again.
    """
    folder = _find_folder(packages)
    if not _is_complete(folder, packages):
        _install(registry, packages, folder)
        (folder / _COMPLETE).write_text("\n".join(packages))
    return folder


def _is_complete(folder: Path, packages: tuple[str, ...]) -> bool:
    complete = folder / _COMPLETE
    return complete.exists() and complete.read_text() == "\n".join(packages)


def _find_folder(packages: tuple[str, ...]) -> Path:
    name = _SIGNS.sub("-", packages[0]).strip("-")  # clients with other scenarios share it
    return platformdirs.user_cache_path("observation-masking") / "clients" / name


def _install(registry: Registry, packages: tuple[str, ...], folder: Path) -> None:
    if registry == "pypi":
        venv.create(folder, with_pip=True)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        _install_by([*pip, *packages])
    else:
        folder.mkdir(parents=True, exist_ok=True)
        _install_by(["npm", "install", "--prefix", str(folder), *packages])


def _install_by(command: list[str]) -> None:
    if not shutil.which(command[0]):
        raise RuntimeError(f"{command[0]} is wanted to install {command[-1]}, and is not there")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{command[0]} could not install {command[-1]}:\n{done.stderr[-1000:]}")

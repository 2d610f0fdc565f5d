"""Files that come with the package: inside `addon` in a wheel, beside it in a checkout."""

from pathlib import Path

_ADDON = Path(__file__).resolve().parents[1]


def shipped(name: str) -> Path:
    """Return the path of a file or folder that came with the package."""
    packaged = _ADDON / "shipped" / name
    return packaged if packaged.exists() else _ADDON.parent / name


def recordings() -> list[Path]:
    """Return the shipped recordings, by name; those of `clients/` come after the others.

    There is one of each client that speaks another format than Chat Completions.
    """
    folders = (shipped("recordings"), shipped("recordings") / "clients")
    names = ("*.flow", "*.flow.xz")
    return [path for folder in folders for path in sorted(p for n in names for p in folder.glob(n))]

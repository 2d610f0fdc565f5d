"""Files that come with the package: in a wheel beside the addon, in a checkout a folder above."""

from pathlib import Path


def shipped(name: str, beside: Path = Path(__file__)) -> Path:
    """Return the path of a file or folder that came with the script `beside`."""
    packaged = beside.resolve().with_name(name)
    return packaged if packaged.exists() else packaged.parent.with_name(name)


def recordings() -> list[Path]:
    """Return the shipped recordings, by name."""
    folder = shipped("recordings")
    return sorted([*folder.glob("*.flow"), *folder.glob("*.flow.xz")])

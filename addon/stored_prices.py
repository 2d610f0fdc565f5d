"""A newer price list than the shipped one, if the user has stored one. It holds from a start on.

It is in the user's data directory, readable by the user alone.
"""

from datetime import UTC, datetime
from pathlib import Path

from addon.places import data_folder, read_regular, replace_file
from masking.errors import ConfigError, printable
from masking.prices import (
    MAX_MEGABYTES,
    MAX_TEXT,
    PriceList,
    load_shipped,
    open_list,
    pack_list,
    read_list,
)


def stored_path() -> Path:
    """Return where a newer list would be. Raises RuntimeError if the user has no home."""
    return data_folder() / "prices.json"


def find_stored() -> tuple[str, str | None]:
    """Return the path of the stored list, empty if there is none, and a warning.

    A list that cannot be used is ignored; the shipped list then holds.
    """
    try:
        path = str(stored_path())
        if not Path(path).exists():
            return "", None
        stored, shipped = open_list(path).date, load_shipped().date
    except ConfigError as error:
        return "", f"{path} is ignored, and the shipped price list is used: {error}"
    except (OSError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or error
        return "", f"the stored price list cannot be read, and the shipped one is used: {reason}"
    if stored >= shipped:  # else as after an update of the package
        return path, None
    older = f"the stored price list ({stored}) is older than the shipped one ({shipped})"
    return path, f"{older}. To use that one: obsmask prices --reset"


def store_prices(file: Path) -> PriceList:
    """Check a list, store it in place of an earlier one, and return it.

    Raises ConfigError, with the file and the place in it, if the list cannot be read or used, and
    OSError if it cannot be stored.
    """
    data, _ = read_regular(file, "price list", MAX_MEGABYTES)
    today, source = datetime.now(UTC).date(), printable(f"genai-prices, {file.name}")[:MAX_TEXT]
    try:
        packed = pack_list(data, today, source)
    except ConfigError as error:
        raise ConfigError(f"{file}: {error.problem}", error.path) from None
    replace_file(stored_path(), packed)
    return read_list(packed)


def remove_stored() -> bool:
    """Go back to the shipped list; return whether another was stored. Raises OSError."""
    path = stored_path()
    was_stored = path.exists()
    path.unlink(missing_ok=True)
    return was_stored

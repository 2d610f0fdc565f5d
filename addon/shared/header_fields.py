"""Header fields that were read once, and are asked for often."""

from collections.abc import Iterable


class HeaderFields:
    """The fields of a message, by their names in any case."""

    def __init__(self, fields: Iterable[tuple[str, str]]) -> None:
        self._values: dict[str, list[str]] = {}
        for name, value in fields:
            self._values.setdefault(name.lower(), []).append(value)

    def __contains__(self, name: object, /) -> bool:
        return isinstance(name, str) and name.lower() in self._values

    def __getitem__(self, name: str, /) -> str:
        return ", ".join(self._values[name.lower()])

    def get(self, name: str, default: str, /) -> str:
        """Return the values of a field, joined by commas."""
        values = self._values.get(name.lower())
        return default if values is None else ", ".join(values)

    def get_all(self, name: str, /) -> list[str]:
        """Return each value of a field."""
        return self._values.get(name.lower(), [])

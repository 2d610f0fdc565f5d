"""Errors for a setting or a request that cannot be used. Each names the place."""


def printable(text: str) -> str:
    """Return a text on one line, without control characters and marks of direction."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


class ConfigError(ValueError):
    """A setting that cannot be used. It names the setting and never repeats a long value.

    Its message is one line, fit for a log. Without a path, the problem is the whole sentence.
    """

    def __init__(self, problem: str, path: str = "") -> None:
        super().__init__(printable(f"{problem} in '{path}'" if path else problem))
        self.problem = problem
        self.path = path


class OverrideError(ConfigError):
    """A setting that was given beside the configuration file and cannot be used.

    Its path is relative to our table, as `schema1.window_turns`.
    """


class WireError(ValueError):
    """A request body that cannot be read. It names the place and never repeats content."""

    def __init__(self, problem: str, path: str = "body") -> None:
        super().__init__(f"{problem} in '{path}'")
        self.problem = problem
        self.path = path


class ProofError(WireError):
    """A request that must not leave as it was rewritten: more may change in it than should."""

    def __init__(self, doubt: str) -> None:
        super().__init__(f"not proven: {doubt}")

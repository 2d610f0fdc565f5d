"""What can be wrong with what comes in: a setting, or a request. Each error names the place."""


class ConfigError(ValueError):
    """A setting that cannot be used; names the setting, never repeats a longer value."""

    def __init__(self, problem: str, path: str) -> None:
        super().__init__(f"{problem} in '{path}'")
        self.problem = problem
        self.path = path


class WireError(ValueError):
    """A request body that is not one of ours; names the place, never repeats content."""

    def __init__(self, problem: str, path: str = "body") -> None:
        super().__init__(f"{problem} in '{path}'")
        self.problem = problem
        self.path = path

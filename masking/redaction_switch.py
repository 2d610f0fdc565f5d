"""The environment variable that switches redaction on or off."""

from dataclasses import replace

from masking.redaction import RedactionPolicy

SWITCH = "STREAM_REDACTION_ENABLED"

_MAX_VALUE = 40
"""How many characters of a wrong value the warning repeats."""

_BOOLEANS = {"1": True, "t": True, "true": True, "0": False, "f": False, "false": False}
"""As Go's ParseBool reads them, in any case (https://pkg.go.dev/strconv#ParseBool)."""


def apply_switch(policy: RedactionPolicy, value: str | None) -> tuple[RedactionPolicy, str | None]:
    """Return the policy under the value of `SWITCH` (None if it is unset), and a warning.

    A value that is not a boolean means true, and the warning names it.
    """
    if value is None:
        return policy, None
    enabled = _BOOLEANS.get(value.lower())
    if enabled is not None:
        return replace(policy, enabled=enabled), None
    warning = f"{SWITCH}: expected true or false, got {value[:_MAX_VALUE]!r}; taken for true"
    return replace(policy, enabled=True), warning

"""The lines that say what is on: when an engine starts, and when its configuration changes."""

import os
from collections.abc import Iterator

from addon.metrics.advice import Advice
from addon.metrics.software import find_version
from addon.shared.config_file import AT_THE_NEXT_START, Change, ConfigFile
from addon.shared.recall_folder import describe_folder
from masking.config import PageSettings, Settings
from masking.errors import printable
from masking.prices import PriceSettings
from masking.window import MaskPolicy

_RECALLED = "[{tool_name}: {original_chars} chars masked; to read: obsmask recall {recall}]"
"""A placeholder that says how to read what it stands for."""


def render_start(config: ConfigFile) -> str:
    """Return the line that says what is on, with which settings, and where they come from."""
    software = f"observation-masking {find_version()}"
    return printable(f"{software} {_render_state(config)}")


def render_change(config: ConfigFile, change: Change) -> str:
    """Return the line that says what became of an edit of the file."""
    if change.problem:
        return f"configuration unchanged: {change.problem}"
    if not change.changed:
        return printable(f"configuration read again, no setting has changed ({config.path})")
    line = f"configuration read again, {', '.join(change.changed)} changed"
    if later := [name for name in change.changed if name in AT_THE_NEXT_START]:
        line += f" (at the next start: {', '.join(later)})"
    return printable(f"{line}: {_render_state(config)}")


def _render_state(config: ConfigFile) -> str:
    settings = config.settings
    active = [words for words in _render_strategies(settings) if words]
    state = f"{_render_mode(settings)} {'; '.join(active)}"
    if not active:
        state = f"OFF, {_render_off(settings.policy)}"
    elif settings.changes and settings.holdout_percent:
        state += f"; {settings.holdout_percent:g}% of the conversations are observed only"
    beside = f"; set beside it: {', '.join(config.overridden)}" if config.overridden else ""
    return f"{state} ({config.path}{beside})"


def _render_mode(settings: Settings) -> str:
    if settings.mode == "on":
        return "ON,"
    but = "nothing but what a rule asks for is" if settings.any_changes else "nothing is"
    return f"OBSERVING, {but} changed;"


def render_recall(settings: Settings, advice: Advice) -> str | None:
    """Return the line that says where content is kept; None where none is."""
    if not (settings.recall.enabled and settings.any_changes):
        return None
    line = f"what is masked is kept, content and all, in {describe_folder(settings.recall)}"
    if not any(one.policy.template.names_recall for one in settings.with_rules):
        told = {"recall.enabled": True, "schema1.placeholder_template": _RECALLED}
        line += f", but no placeholder has its id. This one has: {advice.set(told)}"
    return printable(line)


def render_no_page(settings: PageSettings, error: OSError, advice: Advice) -> str:
    """Return the line that says why there is no page, and what to set."""
    problem = os.strerror(error.errno) if error.errno else str(error)  # its own names the address
    return (
        f"no page at {settings.host}:{settings.port}: {problem}; "
        f"for any free port: {advice.set({'page.port': 0})}"
    )


def _render_strategies(settings: Settings) -> Iterator[str | None]:
    policy, redaction = settings.policy, settings.strategies.redaction
    reduction, mcp = settings.reduction, settings.mcp
    yield _render_policy(policy, settings.price_settings) if policy.masks else None
    yield f"redaction of {', '.join(redaction.tool_names)}" if redaction.redacts else None
    yield f"reduction to {reduction.max_input_chars:,} characters" if reduction.reduces else None
    yield f"MCP strings cut from {mcp.max_chars:,} characters on" if mcp.cuts else None
    if settings.by_rule and settings.any_enabled:
        yield f"rules for some requests: {len(settings.by_rule)}"


def _render_movement(policy: MaskPolicy, price_settings: PriceSettings) -> str:
    if price_settings.cache_pricing == "auto":
        read, write = price_settings.assumed
        prices = f"prices as listed, else {read:g} and {write:g}"
    elif price_settings.cache_pricing == "none":
        return "moved at every turn"
    else:
        read, write = price_settings.cache_pricing
        if read >= write:
            return "moved at every turn"
        prices = f"prices {read:g} and {write:g}"
    return f"moved when that pays ({prices}, loss at most {policy.max_loss:.0%})"


def _render_off(policy: MaskPolicy) -> str:
    return "window_turns is 0 or less" if policy.enabled else "enabled is not true"


def _render_policy(policy: MaskPolicy, price_settings: PriceSettings) -> str:
    words = [f"window of {policy.window_turns} tool turns"]
    if policy.keep_errors:
        words.append("errors kept")
    if policy.keep_last_k_per_tool and policy.keep_last_k_per_tool > 0:
        words.append(f"last {policy.keep_last_k_per_tool} of each tool kept")
    words.append(_render_movement(policy, price_settings))
    return ", ".join(words)

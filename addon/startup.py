"""What is said, and refused, when the proxy starts."""

from importlib.metadata import version

from mitmproxy.options import Options

from addon.config_file import ConfigFile
from masking.policy import MaskPolicy

_PREFIX = "mask_"


def find_option_mistake(options: Options) -> tuple[str, str] | None:
    """Return a problem and the option it is with, where mitmproxy itself says nothing."""
    if options.stream_large_bodies:
        return (
            "large requests, the ones worth masking, would be sent past the addon",
            "stream_large_bodies",
        )
    unknown = next((name for name in options.deferred if name.startswith(_PREFIX)), None)
    return None if unknown is None else ("no such option", unknown)


def render_start(config: ConfigFile) -> str:
    """Return the line that says whether masking is on, how, and by which file."""
    policy = config.settings.schema1
    state = f"ON, {_render_policy(policy)}" if policy.masks else f"OFF, {_render_off(policy)}"
    auto = config.settings.cache_pricing == "auto"
    note = ' (cache_pricing "auto" has no effect in this version)' if auto else ""
    return f"observation-masking {version('observation-masking')} {state} ({config.path}){note}"


def _render_prices(policy: MaskPolicy) -> str:
    return (
        f"moved when that pays (cached tokens at {policy.cache_read_ratio:g}, written at "
        f"{policy.cache_write_ratio:g}, loss at most {policy.max_loss:.0%})"
    )


def _render_off(policy: MaskPolicy) -> str:
    return "window_turns is 0 or less" if policy.enabled else "enabled is not true"


def _render_policy(policy: MaskPolicy) -> str:
    words = [f"window of {policy.window_turns} tool turns"]
    if policy.keep_errors:
        words.append("errors kept")
    if policy.keep_last_k_per_tool and policy.keep_last_k_per_tool > 0:
        words.append(f"last {policy.keep_last_k_per_tool} of each tool kept")
    words.append("moved at every turn" if policy.slides else _render_prices(policy))
    return ", ".join(words)

"""What mitmproxy's options have us say, or refuse, when the proxy starts."""

from mitmproxy.options import Options

from addon.config_commands import Advice
from addon.proxy.marks import is_recording
from masking.config import Settings
from masking.errors import printable

_PREFIX = "mask_"


def find_option_mistake(options: Options) -> tuple[str, str] | None:
    """Return a problem and its option, if there is one that mitmproxy itself does not report."""
    if options.stream_large_bodies:
        return (
            "large requests, the ones worth masking, would be sent past the addon",
            "stream_large_bodies",
        )
    unknown = next((name for name in options.deferred if name.startswith(_PREFIX)), None)
    return None if unknown is None else ("no such option", unknown)


def render_recording(settings: Settings, options: Options, advice: Advice) -> str | None:
    """Return the line that says that a recording will hold content; None where it holds none."""
    if not (is_recording(options) and settings.recording.keep_original):
        return None
    return printable(
        f"{options.save_stream_file} keeps the client's own body of each masked request, so that "
        "it can be replayed. To switch that off: "
        f"{advice.set({'recording.keep_original': False})}"
    )

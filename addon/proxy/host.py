"""What the addon changes in the process that it runs in, all of it in `prepare_host`.

mitmproxy's own addons leave their process alone. Ours works on megabytes of JSON beside an event
loop that others wait for, and its log is read by people. Each change says what it is for.

`obsmask` prints by this, too, before it knows its command, so what takes long to load is loaded
where it is needed.
"""

import codecs
import io
import logging
import sys
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mitmproxy.addonmanager import AddonManager

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h
_LARGE_BYTES = 4 * 1024 * 1024

_ERROR_HANDLER = "observation-masking"
_UNDECODED_BYTES = range(0xDC80, 0xDD00)
"""Where Python puts the bytes of a file name that it cannot decode: byte + 0xDC00."""


def prepare_host(addons: "AddonManager") -> ExitStack:
    """Change the process to suit the addon, once it is loaded; closing the stack undoes that.

    It may be called again, as mitmproxy loads a script again when it is edited: nothing is changed
    twice. Not undone are the setting of the memory, which has no way back, the collector's, as
    others may have set the same, and what is logged after the end.
    """
    from mitmproxy.proxy.layers.websocket import Fragmentizer

    from addon.threads import share_interpreter

    undo = ExitStack()

    # Threads take turns more often, so that the event loop waits less while a body is worked on;
    # and what is loaded by now is spared the garbage collector, which stops all threads.
    undo.callback(sys.setswitchinterval, sys.getswitchinterval())
    share_interpreter()

    # Bodies are copied several times. Their memory is kept in between.
    _keep_memory()

    # The log: fewer lines that nobody reads, and no errors that are none.
    _drop_unread_log_events(addons, undo)
    _silence_cancelled_tasks()

    # Standard output: no character that it cannot print, and no line that comes late.
    if isinstance(stdout := sys.stdout, io.TextIOWrapper):
        before, buffered = stdout.errors, stdout.line_buffering
        undo.callback(_reconfigure, stdout, before, line_buffering=buffered)
        print_any_character()
        # Python would keep up to 8 kB of lines from a file, a pipe or a container's log.
        stdout.reconfigure(line_buffering=True)

    # mitmproxy cuts a text message that an addon has changed every 4,000 bytes, within characters,
    # too, and spoils those. "Addons need to monkeypatch FRAGMENT_SIZE if they need to modify the
    # message", says `Fragmentizer`. It holds for all WebSockets, but only for changed messages.
    undo.callback(setattr, Fragmentizer, "FRAGMENT_SIZE", Fragmentizer.FRAGMENT_SIZE)
    Fragmentizer.FRAGMENT_SIZE = 1 << 40
    return undo


def _keep_memory() -> None:
    """Let glibc keep up to 8 MB of free memory at the end of a heap.

    A block of 4 MB or more goes back to the system as soon as it is free. Of itself, glibc keeps
    ever larger ones once it has seen them, and fills the space with small ones: 4 MB of it with the
    vocabulary. Once that is set, it gives back whatever is free at the end of a heap, too, from
    128 kB on. Then each body of 1 MB is taken from the system anew, several times a request, page
    by page: a fifth of what such a request takes. So 8 MB may stay there, as glibc itself would
    choose. Other C libraries have no such habits, or no such call.

    It holds from now on, for the heaps of threads as well, whether they run already or not.
    """
    import ctypes

    with suppress(AttributeError, OSError, TypeError):  # no such function, or no such library
        library = ctypes.CDLL(None)
        library.mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
        library.mallopt(_M_TRIM_THRESHOLD, 2 * _LARGE_BYTES)


def _drop_unread_log_events(addons: "AddonManager", undo: ExitStack) -> None:
    """Spare each request what mitmproxy does for log lines that nobody reads: 0.2 ms in all.

    mitmproxy hands every line to all addons, in a way that is deprecated since its version 9
    (`add_log`): a second formatting, a wake-up of the event loop, and a look at some forty addons.
    It also says of each answer that it is streamed, as every answer that is an event stream now is;
    its line on the request says so, too.
    """
    from mitmproxy.log import LegacyLogEvents

    server = logging.getLogger("mitmproxy.proxy.server")
    server.addFilter(_says_something)
    undo.callback(server.removeFilter, _says_something)
    is_read = _IsRead(addons)
    for handler in logging.getLogger().handlers:
        if isinstance(handler, LegacyLogEvents):
            handler.addFilter(is_read)
            undo.callback(handler.removeFilter, is_read)


def _says_something(record: logging.LogRecord) -> bool:
    return not str(record.msg).startswith("Streaming response from ")


@dataclass(frozen=True, slots=True)
class _IsRead:
    """Whether an addon takes log lines by `add_log`; a script that is loaded later may.

    Filters of the same addons are equal: a handler has one, however often the script is loaded.
    """

    addons: "AddonManager"

    def filter(self, _: logging.LogRecord) -> bool:
        return any(hasattr(addon, "add_log") for addon in self.addons.lookup.values())


def _silence_cancelled_tasks() -> None:
    """Let asyncio log no cancelled task: to be cancelled is no error.

    On Python 3.11 asyncio asks a connection's task for its exception even if it was cancelled, and
    logs a traceback for each client that is connected when mitmproxy ends, after its addons have.
    Later versions do not.
    """
    logging.getLogger("asyncio").addFilter(_is_no_cancellation)


def _is_no_cancellation(record: logging.LogRecord) -> bool:
    from asyncio import CancelledError

    kind = record.exc_info[0] if record.exc_info else None
    return kind is None or not issubclass(kind, CancelledError)


def print_any_character() -> None:
    """From now on, print what the encoding lacks as an escape (`\\xfc`).

    Bytes of file names are printed unchanged. Standard error does the former by itself.
    """
    codecs.register_error(_ERROR_HANDLER, _encode)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors=_ERROR_HANDLER)


def _encode(error: UnicodeError) -> tuple[str | bytes, int]:
    """Encode the first character that cannot be; a handler of `codecs.register_error`."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    if (code := ord(error.object[error.start])) in _UNDECODED_BYTES:
        return bytes([code - 0xDC00]), error.start + 1
    error.end = error.start + 1  # a byte may follow
    return codecs.backslashreplace_errors(error)


def _reconfigure(stdout: io.TextIOWrapper, errors: str | None, *, line_buffering: bool) -> None:
    with suppress(ValueError):  # it is closed
        stdout.reconfigure(errors=errors, line_buffering=line_buffering)

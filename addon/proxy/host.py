"""What the addon changes in the process that it runs in, all of it in `prepare_host`.

mitmproxy's own addons leave their process alone. Ours works on megabytes of JSON beside an event
loop that others wait for, and its log is read by people. Each change says what it is for.

`obsmask` prints by this, too, before it knows its command, so what takes long to load is loaded
where it is needed.
"""

import codecs
import io
import logging
import select
import sys
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from addon.counts import pluralize

if TYPE_CHECKING:
    from mitmproxy.addonmanager import AddonManager
    from mitmproxy.flow import Flow

logger = logging.getLogger("observation_masking")

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h
_LARGE_BYTES = 4 * 1024 * 1024

_PRINT_SECONDS = 1.0
"""How long a line waits for a reader that is slow; once in vain, the next lines do not wait."""

_PIECE_CHARS: int = getattr(select, "PIPE_BUF", 512) // 4
"""A pipe that is ready takes so many characters, in any encoding, without a wait."""

_ERROR_HANDLER = "observation-masking"
_UNDECODED_BYTES = range(0xDC80, 0xDD00)
"""Where Python puts the bytes of a file name that it cannot decode: byte + 0xDC00."""


def prepare_host(addons: "AddonManager") -> ExitStack:
    """Change the process to suit the addon, once it is loaded; closing the stack undoes that.

    It may be called again, as mitmproxy loads a script again when it is edited: nothing is changed
    twice. Not undone are the setting of the memory, which has no way back, the collector's, as
    others may have set the same, what is logged after the end, and what survives a full disk, as
    other addons still print and record at the end.
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

    # What mitmproxy prints and records: where that cannot be written, it would end the process, and
    # with it every connection.
    print_what_can_be_printed(addons)
    _end_a_recording_alone(addons)

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


def print_what_can_be_printed(addons: "AddonManager") -> None:
    """Have mitmproxy print its log, and its lines on flows, by an `Output`."""
    from mitmproxy.addons.termlog import TermLogHandler

    for handler in logging.getLogger().handlers:
        if isinstance(handler, TermLogHandler) and not isinstance(handler.file, Output):
            handler.file = Output(handler.file)  # type: ignore[assignment]  # it only prints there
    dumper = addons.get("dumper")
    if dumper is not None and not isinstance(dumper.outfp, Output):
        dumper.outfp = Output(dumper.outfp or sys.stdout)


class Output:
    """Prints lines to a file where that is possible; others are lost, and a later line says so.

    A full disk, a closed pipe or a reader that stands still must neither end the proxy nor hold it
    up. A reader that is only slow is waited for, until that was in vain once.
    """

    def __init__(self, file: IO[str]) -> None:
        self._file, self._line, self._lost = file, "", 0
        self._patience = _PRINT_SECONDS

    def write(self, text: str) -> None:
        """Take a part of a line, and print the line once it is complete."""
        self._line += text
        if not text.endswith("\n"):
            return
        line, self._line = self._line, ""
        # A line that broke off is ended first. One that Python has kept may still have come.
        lines = pluralize(self._lost, "line")
        notice = f"\nUp to {lines} could not be written here.\n"
        if self._print(f"{notice}{line}" if self._lost else line):
            self._lost = 0
        else:
            self._lost += 1

    def flush(self) -> None:
        """Do nothing: what could be printed is."""

    def _print(self, text: str) -> bool:
        for begin in range(0, len(text), _PIECE_CHARS):
            if not self._is_ready():
                self._patience = 0.0
                return False
            try:
                self._file.flush()  # what Python has kept: nothing is added to that
                self._file.write(text[begin : begin + _PIECE_CHARS])
                self._file.flush()
            except (OSError, ValueError):  # the disk is full, the pipe or the file is closed
                return False
        self._patience = _PRINT_SECONDS
        return True

    def _is_ready(self) -> bool:
        """Whether a piece can be written at once, or within the time that is left for that."""
        try:
            return bool(select.select((), (self._file,), (), self._patience)[1])
        except (OSError, ValueError, TypeError):  # no file of the system, or not on this platform
            return True


def _end_a_recording_alone(addons: "AddonManager") -> None:
    """Let a recording (`-w`) that cannot be written end there, and not the proxy with it.

    mitmproxy ends so that no traffic passes unrecorded. Here the traffic is an agent's, which must
    go on.
    """
    save = addons.get("save")
    if save is None or "save_flow" in vars(save):
        return
    original = save.save_flow

    def save_flow(flow: "Flow") -> None:
        try:
            original(flow)
        except (OSError, SystemExit) as error:  # the latter once it has printed the former
            logger.warning(f"the recording {save.current_path} ends here: {error.__context__}")
            if save.stream is not None:
                with suppress(OSError):
                    save.stream.fo.close()
            save.stream = save.current_path = None
            save.active_flows.clear()

    save.save_flow = save_flow


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

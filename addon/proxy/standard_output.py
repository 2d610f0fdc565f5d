"""Standard output: it fails for no character, and a line of a log is there when it is written."""

import codecs
import io
import sys

_HANDLER = "observation-masking"
_BYTE = range(0xDC80, 0xDD00)
"""Where Python puts the bytes of a file name that it cannot decode: byte + 0xDC00."""


def print_any_character() -> None:
    """From now on, print what the encoding lacks as an escape (`\\xfc`).

    Bytes of file names are printed as they are. Standard error does the former by itself.
    """
    codecs.register_error(_HANDLER, _encode)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors=_HANDLER)


def print_lines_at_once() -> None:
    """From now on, print each line as it is written, even to a file, a pipe or a container's log.

    Python would keep them until there are 8 kB.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)


def _encode(error: UnicodeError) -> tuple[str | bytes, int]:
    """Encode the first character that cannot be; a handler of `codecs.register_error`."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    if (code := ord(error.object[error.start])) in _BYTE:
        return bytes([code - 0xDC00]), error.start + 1
    error.end = error.start + 1  # a byte may follow
    return codecs.backslashreplace_errors(error)

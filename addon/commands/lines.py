"""The lines that commands say on standard error; they load nothing, as `obsmask run` waits."""

import contextlib
import os
import re
import sys
import textwrap

_COMMAND = re.compile("obsmask [^,;]*")
_BEGIN = "obsmask: "


def fold(text: str, width: int) -> list[str]:
    """Break a text at its words into lines of a width; a command stays in one piece."""
    joined = _COMMAND.sub(lambda found: found[0].replace(" ", "\N{NO-BREAK SPACE}"), text)
    lines = textwrap.wrap(joined, width, break_long_words=False, break_on_hyphens=False)
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines]


def say(line: str) -> None:
    """Print a line of ours, if there is one; on a terminal, it is broken at its words.

    What cannot be printed is dropped: the command goes on all the same.
    """
    if not line:
        return
    with contextlib.suppress(OSError):
        lines = [_BEGIN + line]
        if sys.stderr.isatty():
            columns = os.get_terminal_size(sys.stderr.fileno()).columns
            lines = fold(_BEGIN + line, columns or _USUAL_WIDTH)
        print(*lines, sep="\n", file=sys.stderr)


_USUAL_WIDTH = 80
"""Of a terminal that says it has none."""

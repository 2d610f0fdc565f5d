"""Where `obsmask` starts. `main` loads all else, so that Ctrl-C ends that with a line, too."""

import sys
from collections.abc import Sequence

INTERRUPTED = 130
"""The exit code of a program that Ctrl-C has ended."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code.

    0; 1 with one line on standard error; 2 if the call cannot be read; 130 after Ctrl-C.
    """
    try:
        from addon.commands.group import run_command

        return run_command(arguments)
    except KeyboardInterrupt as interrupt:
        if sys.stderr.isatty() and not interrupt.args:  # it shows ^C, and nobody has ended the line
            print(file=sys.stderr)
        print("obsmask: interrupted", file=sys.stderr)
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())

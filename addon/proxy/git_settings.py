"""The authorities that git is told to trust: a variable takes the place of its own settings."""

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

_KEYS = r"^http\.(.*\.)?sslcainfo$"
_SCOPES = ("--system", "--global")
"""Not a repository's own: that may be a stranger's."""

_FILES = (".gitconfig", ".config/git/config", "/etc/gitconfig")
"""Where such settings are, below the home folder. Without any, git is not asked: on a Mac the name
may stand for a program that offers to install it."""

_SECONDS = 10.0


def find_git_authorities(environment: Mapping[str, str]) -> Iterator[Path]:
    """Yield the files that git's settings name, for all hosts or for one; none without git."""
    home = Path(environment.get("HOME") or Path.home())
    if not any((home / name).is_file() for name in _FILES):
        return
    git = shutil.which("git", path=environment.get("PATH"))
    for scope in _SCOPES if git else ():
        command = [str(git), "config", scope, "--null", "--type=path", "--get-regexp", _KEYS]
        try:
            done = subprocess.run(  # noqa: S603 - the user's own git
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        for pair in filter(None, done.stdout.split(b"\0")):
            _, _, value = pair.decode(errors="surrogateescape").partition("\n")
            if (path := Path(value)).is_file():
                yield path

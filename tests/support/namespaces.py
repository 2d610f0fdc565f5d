"""A namespace of one's own, in which an ordinary user may mount file systems."""

import subprocess

NAMESPACE = ("unshare", "--user", "--map-root-user", "--mount")


def has_namespaces() -> bool:
    """Whether this user may mount a file system in such a namespace."""
    enter = [*NAMESPACE, "mount", "-t", "tmpfs", "none", "/mnt"]
    try:
        return 0 == subprocess.run(enter, capture_output=True, check=False).returncode
    except OSError:  # there is no such program
        return False

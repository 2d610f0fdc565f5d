"""Hosts of URLs, and whether they are this machine."""

import ipaddress
from urllib.parse import urlsplit


def read_host(url: str) -> str:
    """Return the host of a URL; empty if it has none."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:  # brackets that are left open
        return ""


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, and reached by nobody else."""
    try:
        return ipaddress.ip_address(host).is_loopback or host == "0.0.0.0"  # noqa: S104 - as a name
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")

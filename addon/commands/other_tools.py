"""Other programs that make an agent's requests smaller: a row each, and how one is noticed.

Two of them cut twice: what the one has shortened, the other shortens or masks again, and each
figures its saving as if it were alone. We change nothing about them, and tell the user.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

from addon.network import is_this_machine
from masking.errors import printable


class OtherTool(NamedTuple):
    """A program of this kind.

    hook: what the command of its hook in Claude Code's settings contains, as a pattern.
    port: where its proxy listens, unless told otherwise.
    path: how a base URL at that port goes on that is surely its own, as a pattern.
    stop: what takes it out of the way.
    """

    name: str
    hook: str = ""
    port: int = 0
    path: str = ""
    stop: str = ""


OTHER_TOOLS: tuple[OtherTool, ...] = (
    # lightfoot 1.0.0 (`hookmode.py`, `integrate.py`, `launch.py`)
    OtherTool(
        "lightfoot",
        hook=r"\blightfoot (?:hook|integrate)\b",
        port=8787,
        path="/l/",
        stop="lightfoot integrate off, lightfoot hook-mode uninstall",
    ),
    # headroom 0.42: `headroom proxy`, `headroom wrap claude`, `headroom init claude`
    OtherTool("headroom", hook=r"\bheadroom\b", port=8787, stop="headroom unwrap claude"),
    # llmtrim 0.13: `llmtrim setup` has HTTPS_PROXY lead to it
    OtherTool("llmtrim", port=43117, stop="llmtrim stop, and a new terminal"),
    # rtk: `rtk init -g` installs a script, or since 0.30 or so the program itself
    OtherTool("rtk", hook=r"\brtk(?:-rewrite\.sh\b| hook\b)", stop="rtk init -g --uninstall"),
)


_LEADS = re.compile(r"(?:_PROXY|_BASE_URL|_API_BASE)$", re.IGNORECASE)
"""The names of variables that lead a client's requests somewhere."""


def find_other_tools(environment: Mapping[str, str], hooks: Iterable[str] = ()) -> Iterator[str]:
    """Yield a sentence for each such program that is in the way.

    environment: that of the agent, by its settings, too.
    hooks: the commands of Claude Code's hooks.
    """
    found: dict[OtherTool, str] = {}
    for command in hooks:
        for tool in OTHER_TOOLS:
            if tool.hook and re.search(tool.hook, command):
                found.setdefault(tool, f"Claude Code has the hook {command}")
    for name, url in environment.items():
        if not _LEADS.search(name):
            continue
        try:
            parts = urlsplit(url if "://" in url else f"http://{url}")
            host, port = parts.hostname or "", parts.port
        except ValueError:  # brackets that are left open, or no number
            continue
        at_port = [tool for tool in OTHER_TOOLS if port and tool.port == port]
        if at_port and is_this_machine(host):
            # Two of them share a port: the one with a hook is meant, or the one with this path.
            likely = [tool for tool in at_port if tool in found]
            likely += [tool for tool in at_port if parts.path.startswith(tool.path)]
            found.setdefault(likely[0], f"{name} leads to port {port}")
    for tool, why in found.items():
        yield printable(
            f"{tool.name} shortens requests, too ({why}): two that cut, cut twice, and neither's "
            f"saving is right. To take it out of the way: {tool.stop}"
        )

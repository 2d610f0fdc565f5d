"""Calls hooks of an addon and of those nested in it, in the order in which mitmproxy does."""

import asyncio
import inspect

from mitmproxy.addonmanager import traverse


async def call(addon: object, hook: str, *arguments: object) -> None:
    """Call a hook in a running event loop."""
    for part in traverse([addon]):
        if function := getattr(part, hook, None):
            returned = function(*arguments)
            if inspect.isawaitable(returned):
                await returned


def fire(addon: object, hook: str, *arguments: object) -> None:
    """Call a hook where no event loop runs."""
    asyncio.run(call(addon, hook, *arguments))

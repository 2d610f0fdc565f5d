"""Asks a URL through the proxy of the environment, in each way that a client of this Python may
take, and prints one line of JSON for each: whether the answer came, or what went wrong.

It runs in an interpreter of any version, with whatever packages are there.
"""

from __future__ import annotations

import json
import os
import ssl
import sys
import urllib.request
from importlib import import_module
from typing import Callable, Iterator  # noqa: UP035 - before Python 3.9 the others are no types

URL = sys.argv[-1]
SECONDS = 15

UNTRUSTED = ("CERTIFICATE_VERIFY_FAILED", "certificate verify failed")
UNREACHED = ("gaierror", "Name or service", "Temporary failure", "nodename nor servname")


def tell(way: str, outcome: str, detail: str = "") -> None:
    print(json.dumps({"way": way, "outcome": outcome, "detail": detail[:200]}), flush=True)


def find_causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and those that it comes from; urllib keeps them as its reason."""
    seen: list[BaseException] = []
    while error is not None and error not in seen:
        seen.append(error)
        yield error
        reason = getattr(error, "reason", None)
        is_error = isinstance(reason, BaseException)
        error = reason if is_error else error.__cause__ or error.__context__


def judge(error: BaseException) -> str:
    words = " ".join(map(repr, find_causes(error)))
    if any(each in words for each in UNTRUSTED):
        return "untrusted"
    return "unreached" if any(each in words for each in UNREACHED) else "failed"


def try_ssl() -> None:
    context = ssl.create_default_context()
    handlers = (urllib.request.HTTPSHandler(context=context), urllib.request.ProxyHandler())
    urllib.request.build_opener(*handlers).open(URL, timeout=SECONDS).close()


def try_package(name: str) -> Callable[[], None]:
    def ask() -> None:
        import_module(name).get(URL, timeout=SECONDS).raise_for_status()

    return ask


def try_aiohttp() -> None:
    """As a client that asks for nothing: then aiohttp passes every proxy by."""
    aiohttp, asyncio = import_module("aiohttp"), import_module("asyncio")

    async def ask() -> None:
        limit = aiohttp.ClientTimeout(total=SECONDS)
        async with aiohttp.ClientSession(timeout=limit) as session, session.get(URL) as answer:
            answer.raise_for_status()

    asyncio.run(ask())


def attempt(way: str, ask: Callable[[], None]) -> None:
    try:
        ask()
    except ImportError:  # a client of this Python cannot take this way either
        return
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what a client would get
        tell(way, judge(error), type(error).__name__)
    else:
        tell(way, "trusted")


attempt("ssl", try_ssl)
attempt("httpx", try_package("httpx"))
attempt("requests", try_package("requests"))
attempt("aiohttp", try_aiohttp)
os._exit(0)  # whatever threads a package has started

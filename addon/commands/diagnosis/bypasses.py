"""What leads requests past the proxy: `NO_PROXY`, and servers on this machine."""

import shlex
from collections.abc import Collection, Iterator, Mapping
from urllib.parse import urlsplit

from addon.commands.diagnosis.finding import Finding, broken, note
from addon.network import is_this_machine
from addon.proxy.base_urls import Server, read_behind, read_host
from addon.proxy.environment import DIRECT_VARIABLES
from addon.proxy.upstream import NoProxy
from addon.request import is_opened
from masking.config import HostSettings
from masking.patterns import is_named

_PORT = 443
_MOST_NAMED = 3

BASE_URLS = (
    *("OPENAI_BASE_URL", "OPENAI_API_BASE", "ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL"),
    *("OLLAMA_HOST", "OLLAMA_API_BASE", "AZURE_OPENAI_ENDPOINT", "LLM_BASE_URL"),
)
"""Where clients look for a model."""

KNOWN_HOSTS = (
    *("api.openai.com", "api.anthropic.com", "generativelanguage.googleapis.com"),
    *("chatgpt.com", "cloudcode-pa.googleapis.com", "openrouter.ai"),
)
"""Where they look if nothing else is said."""


def find_base_urls(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the base URLs of the environment by variable; those that are none are left out."""
    found = {}
    for name in BASE_URLS:
        value = environment.get(name, "")
        url = value if "://" in value or not value else f"http://{value}"
        if read_host(url):
            found[name] = url
    return found


def check_bypasses(environment: Mapping[str, str], hosts: Collection[str]) -> Iterator[Finding]:
    """Yield what leads clients in this environment past the proxy; `hosts` have been asked.

    This machine is meant to be reached without it: what leads there by way of the proxy are base
    URLs.
    """
    found = find_base_urls(environment)
    urls = {name: url for name, url in found.items() if _find_behind(url) is None}
    for name, url in urls.items():
        if is_this_machine(read_host(url)):
            parts = urlsplit(url)
            address = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
            yield note(
                f"{name} names a server on this machine, {address}: clients go there without the "
                "proxy, unless one in reverse mode listens there",
                f"obsmask run --reverse {shlex.quote(address)} -- COMMAND",
            )
    asked = {*hosts, *map(read_host, urls.values()), *KNOWN_HOSTS}
    others = {host for host in asked if not is_this_machine(host)}
    for variable in DIRECT_VARIABLES:
        yield from _check_no_proxy(environment, variable, others)


def check_hosts(
    environment: Mapping[str, str], hosts: Collection[str], settings: HostSettings
) -> Iterator[Finding]:
    """Yield the hosts of models that the configuration leaves alone; `hosts` have been asked."""
    urls = find_base_urls(environment).values()
    named = {server.host if (server := _find_behind(url)) else read_host(url) for url in urls}
    closed = sorted(host for host in {*hosts, *named} if not is_opened(host, settings))
    for host in closed:
        key = "never names" if is_named(host, settings.never) else "only leaves out"
        yield note(
            f"hosts.{key} {host}: what is sent there is not masked",
            "obsmask config | grep hosts",
        )


def _find_behind(url: str) -> Server | None:
    """Return the server that is asked by way of the proxy's own port; None without the latter."""
    try:
        return read_behind(urlsplit(url).path) if is_this_machine(read_host(url)) else None
    except ValueError:
        return None


def _check_no_proxy(
    environment: Mapping[str, str], variable: str, hosts: Collection[str]
) -> Iterator[Finding]:
    value = environment.get(variable, "")
    passing = sorted(host for host in hosts if NoProxy(value).covers(host, _PORT))
    if not passing:
        return
    entries = value.replace(",", " ").split()
    rest = [each for each in entries if not any(NoProxy(each).covers(h, _PORT) for h in passing)]
    more = f" and {len(passing) - _MOST_NAMED} more hosts" if passing[_MOST_NAMED:] else ""
    yield broken(
        f"{variable} leads requests to {', '.join(passing[:_MOST_NAMED])}{more} past the proxy",
        f"export {variable}={shlex.quote(','.join(rest))}",
    )

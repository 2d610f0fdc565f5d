"""What leads requests past the proxy: `NO_PROXY`, and servers on this machine."""

import ipaddress
import shlex
from collections.abc import Collection, Iterator, Mapping
from urllib.parse import urlsplit

from addon.commands.diagnosis.finding import Finding, broken, note
from addon.proxy.environment import DIRECT_VARIABLES
from addon.proxy.upstream import NoProxy

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
        if _read_host(url):
            found[name] = url
    return found


def check_bypasses(environment: Mapping[str, str], hosts: Collection[str]) -> Iterator[Finding]:
    """Yield what leads clients in this environment past the proxy; `hosts` have been asked."""
    urls = find_base_urls(environment)
    for name, url in urls.items():
        if _is_loopback(_read_host(url)):
            parts = urlsplit(url)
            address = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
            yield note(
                f"{name} names a server on this machine, {address}: clients go there without the "
                "proxy, unless one in reverse mode listens there",
                f"obsmask run --reverse {shlex.quote(address)} -- COMMAND",
            )
    named = [host for host in map(_read_host, urls.values()) if not _is_loopback(host)]
    for variable in DIRECT_VARIABLES:
        yield from _check_no_proxy(environment, variable, {*hosts, *named, *KNOWN_HOSTS})


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


def _read_host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback or host == "0.0.0.0"  # noqa: S104 - as a name
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")

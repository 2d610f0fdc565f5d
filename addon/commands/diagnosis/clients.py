"""What is known of agents by the name of their command: whom they trust, and what they do."""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from addon.commands.diagnosis.finding import Finding, broken, note, ok
from addon.commands.diagnosis.processes import find_processes
from addon.commands.diagnosis.proxies import find_addresses
from masking.config import Settings

Remarks = Callable[[Mapping[str, str], Settings], Iterator[Finding]]
"""Yields what is to be said of a client in an environment, under settings."""


class Client(NamedTuple):
    """A client that has been tried behind the proxy.

    authorities: the variables by which it finds certificate authorities; each of them will do.
    is_native: whether the requests come from a program of its own, whatever starts that.
    """

    authorities: tuple[str, ...] = ()
    is_native: bool = False
    remarks: Remarks = lambda *_: iter(())


def find_client(name: str) -> Client | None:
    """Return what is known of the client that is started by a command of this name."""
    return _CLIENTS.get(name.removesuffix(".exe"))


def _check_socket(
    name: str, models: str, settings: Settings, *, falls_back: bool
) -> Iterator[Finding]:
    """Yield what is to be said of a client that speaks over a WebSocket, with these `models`."""
    if settings.websocket.mode == "http":
        yield ok(f'websocket.mode = "http": {name} sends whole histories, which are masked')
    elif settings.websocket.mode == "auto" and settings.any_changes and falls_back:
        yield ok(f'websocket.mode = "auto": {name} is sent to HTTP where something could be masked')
    else:
        yield note(
            f"{name} sends what is new over a WebSocket{models}, and the provider holds the rest: "
            "that passes unmasked",
            "obsmask run --client-changes -- COMMAND",
        )


def _check_codex(environment: Mapping[str, str], settings: Settings) -> Iterator[Finding]:
    yield from _check_socket("codex", "", settings, falls_back=True)


def _check_copilot(environment: Mapping[str, str], settings: Settings) -> Iterator[Finding]:
    if environment.get("COPILOT_PROVIDER_TRANSPORT") == "websockets":
        yield from _check_socket("copilot", "", settings, falls_back=True)


def _check_fast_agent(environment: Mapping[str, str], settings: Settings) -> Iterator[Finding]:
    yield from _check_socket("fast-agent", " to responses.* models", settings, falls_back=False)


_HUB = "--cline-hub-daemon"


def _check_cline(environment: Mapping[str, str], settings: Settings) -> Iterator[Finding]:
    """Yield what is to be said of cline's hub: its requests go out from there, in its own time."""
    wanted = find_addresses(environment).keys()
    running = list(find_processes(_HUB))
    for hub in running:
        if find_addresses(hub.environment).keys() != wanted or not wanted:
            yield broken(
                f"cline's hub (process {hub.pid}) keeps the environment in which it was started, "
                "and so goes past the proxy",
                "cline hub stop",
            )
    if not running:
        yield note(
            "cline leaves a hub running, which keeps the environment in which it was started and "
            "outlives obsmask run: use a proxy that stays",
            "obsmask proxy",
        )


def _say(sentence: str, mend: str | None = None) -> Remarks:
    return lambda *_: iter([note(sentence, mend)])


_EDITOR = Client(
    is_native=True,
    remarks=_say(
        "Its extensions get the environment that a window was opened with: open a new one, and "
        "have the command wait until it is closed",
        "obsmask run -- code --new-window --wait .",
    ),
)

_TEXT = _say("Its tool results are text of the user's messages: there is nothing to mask")

_CLIENTS: Mapping[str, Client] = {
    "claude": Client(("SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS"), True),
    "codex": Client(("SSL_CERT_FILE", "CODEX_CA_CERTIFICATE"), True, _check_codex),
    "copilot": Client(is_native=True, remarks=_check_copilot),
    "fast-agent": Client(("SSL_CERT_FILE",), remarks=_check_fast_agent),
    "nanocoder": Client(
        remarks=_say(
            "nanocoder takes no proxy: it must ask our own address in place of its provider's, so "
            'write "baseUrl": "${OPENAI_BASE_URL}" into its configuration',
            "obsmask run --reverse https://api.openai.com -- COMMAND",
        ),
    ),
    "opencode": Client(("SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS"), is_native=True),
    "qwen": Client(("NODE_EXTRA_CA_CERTS",)),
    "gemini": Client(("NODE_EXTRA_CA_CERTS",)),
    "pi": Client(("NODE_EXTRA_CA_CERTS",)),
    "mini": Client(("SSL_CERT_FILE",)),
    "aider": Client(("SSL_CERT_FILE",), remarks=_TEXT),
    "cline": Client(is_native=True, remarks=_check_cline),
    "curl": Client(("SSL_CERT_FILE", "CURL_CA_BUNDLE"), is_native=True),
    "git": Client(("GIT_SSL_CAINFO",), is_native=True),
    **dict.fromkeys(("code", "code-insiders", "codium", "cursor"), _EDITOR),
    "sudo": Client(
        is_native=True,
        remarks=_say("sudo drops the environment, and with it the proxy", "sudo -E COMMAND"),
    ),
}

"""What is known of coding agents: a row each, from which all others draw.

A fact that another row says nothing of is not known there, and nothing is done about it. What was
tried with an agent, and when, is in docs/clients.toml.
"""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import tomli


class Home(NamedTuple):
    """A folder in which an agent keeps its logs.

    folder: the agent's own, in the user's home.
    below: where in it the logs are.
    variable: the environment variable that names another folder in place of it.
    platform: the only one where it is there, as in `sys.platform`; all if empty.
    """

    folder: str
    below: tuple[str, ...] = ("",)
    variable: str = ""
    platform: str = ""

    def find(self, home: Path, environment: Mapping[str, str]) -> Path:
        """Return the agent's own folder."""
        return Path(environment.get(self.variable) or home / self.folder)


class Logs(NamedTuple):
    """Where an agent keeps its logs: in one of these homes, or where its variable says."""

    homes: tuple[Home, ...] = ()
    variable: str = ""

    def find(self, home: Path, environment: Mapping[str, str]) -> tuple[Path, ...]:
        """Return all folders with logs, from the home folder and the environment."""
        if given := environment.get(self.variable):
            return (Path(given),)
        found = (
            each.find(home, environment) / below
            for each in self.homes
            if each.platform in ("", sys.platform)
            for below in each.below
        )
        return tuple(dict.fromkeys(found))


class Socket(NamedTuple):
    """The WebSocket over which a client sends only new messages; the provider keeps the rest.

    models: the models that it uses it for, in words; all if empty.
    variable: the environment variable and its value with which it uses one; None for always.
    """

    models: str = ""
    variable: tuple[str, str] | None = None


class Fallback(NamedTuple):
    """How requests are recognized of a client that was seen to go on over HTTP without a WebSocket.

    agent: its User-Agent, with the numbers of a version in two groups.
    since: the first version.
    header: a header that it sends besides.
    names: where it names the conversation, the first that is there. Its cookies and its token
        change within one.
    """

    agent: re.Pattern[str]
    since: tuple[int, int]
    header: str
    names: tuple[str, ...] = ()


class UrlOption(NamedTuple):
    """How an agent that reads no variable with a base URL is led to one.

    arguments: what its command starts with then, with `{url}`.
    server: the one that it asks otherwise, with a key.
    path: what the URL of a server ends with, if it names no path.
    """

    arguments: tuple[str, ...]
    server: str
    path: str


class Model(NamedTuple):
    """Where a client's model is named, the strongest first, and which one it is otherwise.

    options: of its command.
    home, file, key: its settings, and the key there, with dots; TOML or JSON, by the file's name.
    default: what it asks if nothing names one; empty if that is not known.
    """

    options: tuple[str, ...] = ()
    home: Home | None = None
    file: str = ""
    key: str = ""
    default: str = ""

    def find(self, arguments: Sequence[str], home: Path, environment: Mapping[str, str]) -> str:
        """Return the model that is named, without its provider; empty if none is."""
        for place, word in enumerate(arguments):
            name, is_joined, value = word.partition("=")
            if name in self.options:
                value = value if is_joined else "".join(arguments[place + 1 : place + 2])
                return value.rpartition("/")[2]
        found: object = None
        if self.home:
            try:
                text = (self.home.find(home, environment) / self.file).read_text("utf-8")
                found = tomli.loads(text) if self.file.endswith(".toml") else json.loads(text)
            except (OSError, ValueError, RecursionError):  # the agent reports a mistake there
                return ""
        for key in self.key.split("."):
            found = found.get(key) if isinstance(found, dict) else None
        return found.rpartition("/")[2] if isinstance(found, str) else ""


class Agent(NamedTuple):
    """An agent, or another program that is started with our proxy before it.

    name: as we call it in texts, and in the logs that we read.
    title: as docs/clients.toml calls it, if otherwise.
    command: the command that starts it, if otherwise.
    client: the product that its User-Agent names first, as records have it.
    calls_itself: what a header `X-Title` says, for one that leaves the User-Agent to its library.
    session: the header with the id of its session.
    package: its package at npm, by which a launcher may start it.
    base_url: the variable with its base URL, where it reads one.
    url_option: how it is led to one by its command, if it is.
    folder: what stands before the path of its working directory in a prompt, as a regular
        expression.
    logs: where it keeps them; nowhere if we do not read them.
    authorities: the variables by which it finds certificate authorities; each of them will do.
    is_native: whether the requests come from a program of its own, whatever starts that.
    socket: the WebSocket that it may use.
    fallback: how it is recognized, if it goes on over HTTP where its WebSocket is refused.
    model: which model it asks.
    drops_reasoning: whether it asks Claude to drop reasoning that no longer fits, so that all
        accounts accept changed results.
    recovers: whether it goes on by itself should a refusal of masked results reach it.
    remark: what to know of it, and the line that fixes it, if any.
    """

    name: str
    title: str = ""
    command: str = ""
    client: str = ""
    calls_itself: str = ""
    session: str = ""
    package: str = ""
    base_url: str = ""
    url_option: UrlOption | None = None
    folder: str = ""
    logs: Logs = Logs()
    authorities: tuple[str, ...] = ()
    is_native: bool = False
    socket: Socket | None = None
    fallback: Fallback | None = None
    model: Model | None = None
    drops_reasoning: bool = False
    recovers: bool = False
    remark: tuple[str, str | None] | None = None

    @property
    def program(self) -> str:
        """The command that starts it."""
        return self.command or self.name

    @property
    def start(self) -> str:
        """The line that starts it behind a proxy of its own."""
        return f"obsmask run -- {self.program}"


_WORKING_DIRECTORY = r"[Ww]orking [Dd]irectory(?: is)?:? ?\(?"
"""`Working directory: /a/b`, `Current Working Directory (/a/b)`."""

_WORKING_IN = r"working in the directory: ?"
"""`I'm currently working in the directory: /a/b`."""

CLAUDE_CODE = Agent(
    "claude-code",
    title="Claude Code",
    command="claude",
    client="claude-cli",
    package="@anthropic-ai/claude-code",
    session="x-claude-code-session-id",
    base_url="ANTHROPIC_BASE_URL",
    folder=_WORKING_DIRECTORY,
    logs=Logs(
        (
            Home(".claude", ("projects",), "CLAUDE_CONFIG_DIR"),
            Home(".config/claude", ("projects",), "CLAUDE_CONFIG_DIR"),
        )
    ),
    authorities=("SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS"),
    is_native=True,
    model=Model(default="claude-opus-5-5"),  # with an API key; claude_code.py reads what names one
    recovers=True,  # it strips its thinking, and sends the request again
)

AGENTS: tuple[Agent, ...] = (
    CLAUDE_CODE,
    Agent(
        "codex",
        package="@openai/codex",
        url_option=UrlOption(
            ("-c", 'openai_base_url="{url}"'),
            "https://api.openai.com",
            "/v1",
        ),
        session="session-id",
        folder="<cwd>",
        logs=Logs((Home(".codex", ("sessions", "archived_sessions"), "CODEX_HOME"),)),
        authorities=("SSL_CERT_FILE", "CODEX_CA_CERTIFICATE"),
        is_native=True,
        socket=Socket(),
        fallback=Fallback(
            re.compile(r"codex[^/]*/(\d+)\.(\d+)", re.IGNORECASE),
            (0, 169),
            "originator",
            ("thread-id", "session-id"),
        ),
        model=Model(
            ("-m", "--model"),
            Home(".codex", variable="CODEX_HOME"),
            "config.toml",
            "model",
            default="gpt-6.1-sol",
        ),
    ),
    Agent(
        "pi",
        session="session_id",  # a name with an underscore is allowed, if unusual
        folder=_WORKING_DIRECTORY,
        logs=Logs((Home(".pi/agent", ("sessions",), "PI_CODING_AGENT_DIR"),)),
        authorities=("NODE_EXTRA_CA_CERTS",),
        model=Model(
            ("--model",),
            Home(".pi/agent", variable="PI_CODING_AGENT_DIR"),
            "settings.json",
            "defaultModel",
        ),
        drops_reasoning=True,
    ),
    Agent(
        "opencode",
        session="x-session-id",
        folder=_WORKING_DIRECTORY,
        logs=Logs((Home(".local/share", ("opencode",), "XDG_DATA_HOME"),)),
        authorities=("SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS"),
        is_native=True,
        model=Model(
            ("-m", "--model"),
            Home(".config", variable="XDG_CONFIG_HOME"),
            "opencode/opencode.json",
            "model",
        ),
        drops_reasoning=True,
    ),
    Agent(
        "gemini-cli",
        command="gemini",
        folder=_WORKING_IN,
        logs=Logs((Home("", (".gemini/tmp",), "GEMINI_CLI_HOME"),)),
        authorities=("NODE_EXTRA_CA_CERTS",),
    ),
    Agent(
        "qwen-code",
        command="qwen",
        folder=_WORKING_IN,
        logs=Logs((Home(".qwen", ("projects",), "QWEN_HOME"),)),
        authorities=("NODE_EXTRA_CA_CERTS",),
    ),
    Agent(
        "copilot",
        title="Copilot CLI",
        is_native=True,
        socket=Socket(variable=("COPILOT_PROVIDER_TRANSPORT", "websockets")),
        fallback=Fallback(re.compile(r"OpenAI/JS (\d+)\.(\d+)"), (5, 20), "x-initiator"),
    ),
    Agent(
        "mini-swe-agent",
        command="mini",
        logs=Logs(
            (
                Home(".config", ("mini-swe-agent",), "XDG_CONFIG_HOME"),
                Home("Library/Application Support", ("mini-swe-agent",), platform="darwin"),
            ),
            "MSWEA_GLOBAL_CONFIG_DIR",
        ),
        authorities=("SSL_CERT_FILE",),
    ),
    Agent(
        "openhands",
        title="OpenHands",
        client="openhands",
        calls_itself="OpenHands",  # OpenHands 1 says so to every provider
        base_url="LLM_BASE_URL",
        logs=Logs(
            (Home(".openhands", ("conversations",), "OPENHANDS_PERSISTENCE_DIR"),),
            "OPENHANDS_CONVERSATIONS_DIR",
        ),
    ),
    Agent(
        "cline",
        folder=_WORKING_DIRECTORY,
        is_native=True,
        remark=(
            "cline leaves a hub running, which keeps the environment in which it was started and "
            "outlives obsmask run: end it with cline hub stop, and use a proxy that stays",
            "obsmask proxy",
        ),
    ),
    # Its requests look like those of any program on OpenAI's package. It tries a WebSocket again at
    # every turn, prints a line each time, and fails if it may use nothing else.
    Agent(
        "fast-agent",
        authorities=("SSL_CERT_FILE",),
        socket=Socket(" to responses.* models"),
    ),
    Agent(
        "nanocoder",
        remark=(
            "nanocoder takes no proxy: it must ask our own address in place of its provider's, so "
            'write "baseUrl": "${OPENAI_BASE_URL}" into its configuration',
            "obsmask run --reverse https://api.openai.com -- COMMAND",
        ),
    ),
    Agent(
        "aider",
        authorities=("SSL_CERT_FILE",),
        remark=("Its tool results are text of the user's messages: there is nothing to mask", None),
    ),
    Agent(
        "pydantic-ai",
        client="pydantic-ai",
        recovers=True,  # it sends it once more with `drop_block` (2.68, `profiles/anthropic.py`)
    ),
)


def find_agent(name: str) -> Agent:
    """Return an agent by our name for it. Raises KeyError."""
    return _by_name()[name]


@cache
def _by_name() -> Mapping[str, Agent]:
    return {agent.name: agent for agent in AGENTS}

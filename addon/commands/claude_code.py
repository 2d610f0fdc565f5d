"""How claude-code is made to send requests that can be masked, and what can prevent that.

To `api.anthropic.com` claude-code sends a hash of the body, and a changed body would not fit it. It
sends none to any other base URL, which is a documented setting: ours, in front of that server. Its
settings files come before the environment, and so they are read, too. All of this was tried with
claude-code 2.1.331.
"""

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal, NamedTuple

from addon.agents import AGENTS, CLAUDE_CODE, Agent
from addon.commands.other_tools import find_other_tools
from addon.network import Address, is_this_machine
from addon.places import abbreviate
from addon.proxy.base_urls import VENDOR, Server, behind, read_target
from addon.proxy.health import Health
from masking.errors import printable
from masking.wire import find_messages_binding

BASE_URL = CLAUDE_CODE.base_url
TOOL_SEARCH = "ENABLE_TOOL_SEARCH"
VARIABLES = (BASE_URL, TOOL_SEARCH)
"""What a plan may set."""

_CLOUDS: Mapping[str, str] = {
    "CLAUDE_CODE_USE_BEDROCK": "Amazon Bedrock",
    "CLAUDE_CODE_USE_MANTLE": "Amazon Bedrock",
    "CLAUDE_CODE_USE_ANTHROPIC_AWS": "AWS",
    "CLAUDE_CODE_USE_VERTEX": "Google's Vertex AI",
    "CLAUDE_CODE_USE_ANTHROPIC_GOOGLE_CLOUD": "Google Cloud",
    "CLAUDE_CODE_USE_FOUNDRY": "Microsoft Foundry",
}
"""Where `ANTHROPIC_BASE_URL` is not read; nothing is signed there that masking would break."""

_TRUE = ("1", "true", "yes", "on")

_ALIASES: Mapping[str, str] = {
    "sonnet": "claude-sonnet-5-5",
    "opus": "claude-opus-5-5",
    "haiku": "claude-haiku-5-5",
    "fable": "claude-fable-5-2",
    "opusplan": "claude-sonnet-5-5",
    "best": "claude-opus-5-5",
}
"""The model that claude-code 2.1.331 sends for each name; none for `default`, as it depends on the
account: claude-opus-5-5 with an API key, claude-sonnet-5-5 with an OAuth token alone."""

_TOKEN, _TOKENS_MODEL = "CLAUDE_CODE_OAUTH_TOKEN", "claude-sonnet-5-5"

_FAMILIES: Mapping[str, str] = {
    **{family: family.upper() for family in ("sonnet", "opus", "haiku", "fable")},
    "opusplan": "SONNET",
    "best": "OPUS",
}
"""By name, that of `ANTHROPIC_DEFAULT_..._MODEL`, which says another model for it."""

_LAUNCHERS = (
    *("npx", "bunx", "pnpx", "npm", "pnpm", "yarn", "bun", "deno", "node", "dlx", "exec", "x"),
    *("env", "run", "nice", "nohup", "time", "timeout", "stdbuf", "sudo", "caffeinate"),
    *("mise", "volta"),
)
"""Programs that pass on the arguments after `claude`."""

_SHELLS = (
    *("sh", "bash", "dash", "zsh", "ksh", "fish", "nu", "pwsh", "xonsh", "elvish"),
    *("tmux", "screen", "zellij", "byobu", "script"),
)
"""Where a user starts claude-code by hand."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is changed about claude-code.

    command: the command that starts it, with the arguments that are added.
    variables: the variables that are set in its environment.
    line: all of this in a sentence for the user.
    hindrance: why its requests to its vendor stay signed, so that nothing can be masked; empty if
        they do not.
    model: the model that it will ask, and where that is said, in words.
    others: a sentence for each other program that shortens what it sends.
    """

    command: tuple[str, ...]
    variables: Mapping[str, str]
    line: str
    hindrance: str = ""
    model: tuple[str, str] = ("", "")
    others: tuple[str, ...] = ()


class Places(NamedTuple):
    """Where claude-code finds its settings.

    user: the folder of the user's own, `~/.claude`.
    work: its working directory.
    managed: the folder of the settings that an organization installs.
    """

    user: Path
    work: Path
    managed: Path


def find_places(environment: Mapping[str, str]) -> Places:
    """Return where claude-code finds its settings on this machine."""
    try:
        work = Path.cwd()
    except FileNotFoundError:  # it was removed
        work = Path("/")
    home, *_ = CLAUDE_CODE.logs.homes
    user = home.find(Path(environment.get("HOME") or Path.home()), environment)
    managed = {
        "darwin": "/Library/Application Support/ClaudeCode",
        "win32": "C:/Program Files/ClaudeCode",
    }
    return Places(user, work, Path(managed.get(sys.platform, "/etc/claude-code")))


def plan(
    command: Sequence[str],
    environment: Mapping[str, str],
    places: Places,
    address: Address,
    health: Health | None,
) -> Plan | None:
    """Return the plan for claude-code if a command starts it, or a shell; None for another.

    address: where the proxy listens; `health` is None if it is not running.
    """
    started = _find_started(command, CLAUDE_CODE)
    if started is None:
        names = (PurePosixPath(word).name for word in command if "=" not in word)
        if next((name for name in names if name != "env"), None) not in _SHELLS:
            return None
    planner = _Planner(tuple(command), started, environment, places, address, health)
    return planner.plan()


def plan_shell(
    environment: Mapping[str, str], places: Places, address: Address, health: Health | None
) -> Plan:
    """Return the plan for claude-code that is started by hand, in a shell: variables alone."""
    planner = _Planner((), None, environment, places, address, health)
    return planner.plan()


def plan_reverse(command: Sequence[str], address: Address, server: Server) -> Plan | None:
    """Return the plan to lead another agent than claude-code to a server by its command.

    The agent asks the proxy's own port then, and needs no authority. None if the command starts no
    agent that is led so.
    """
    for agent in AGENTS:
        option = agent.url_option
        started = _find_started(command, agent) if option else None
        if option and started and started.is_passed_on:
            server = server._replace(path=server.path or option.path)
            url, first = behind(address, server), started.place + 1
            arguments = [each.format(url=url) for each in option.arguments]
            line = f"{agent.name}: a base URL leads through the proxy to {server.url}"
            return Plan((*command[:first], *arguments, *command[first:]), {}, printable(line))
    return None


def find_problem(address: Address, health: Health | None) -> str | None:
    """Return why a proxy cannot be a base URL in front of a server; None if it can.

    health: None if it is not running.
    """
    if not is_this_machine(address.host):
        return f"the proxy at {address.url} is a base URL for clients of its own machine alone"
    if health and not health.base_urls:
        return f"the proxy at {address.url} is of an older version: restart it"
    return None


class _Started(NamedTuple):
    """Where a command starts claude-code, and whether what follows are surely its arguments."""

    place: int
    is_passed_on: bool


def _find_started(command: Sequence[str], agent: Agent) -> _Started | None:
    """Return where a command names an agent, before any option that is not a launcher's."""
    is_passed_on = True
    for place, word in enumerate(command):
        name = PurePosixPath(word.replace("\\", "/")).name
        for ending in (".exe", ".cmd", ".ps1", ".js", ".cjs", ".mjs"):
            name = name.removesuffix(ending)
        is_package = f"{word}/".startswith((f"{agent.package}/", f"{agent.package}@"))
        if name == agent.program or is_package or f"/{agent.package}/" in word:
            return _Started(place, is_passed_on)
        is_option = word.startswith("-")
        if is_option and not is_passed_on:
            return None
        is_passed_on = is_passed_on and (is_option or name in _LAUNCHERS or "=" in word)
    return None


_Kind = Literal["user", "project", "local", "inline", "named", "managed"]


class _Settings(NamedTuple):
    """The settings of one place: its kind, its name for the user, and its content."""

    kind: _Kind
    called: str
    found: Mapping[str, object]

    @property
    def variables(self) -> Mapping[str, str]:
        """What it sets in the environment."""
        variables = self.found.get("env")
        if not isinstance(variables, dict):
            return {}
        return {
            name: value if isinstance(value, str) else json.dumps(value)
            for name, value in variables.items()
            if isinstance(value, str | int | float)
        }


class _Value(NamedTuple):
    """The value that counts, and where it is set; no place is the environment."""

    text: str
    place: _Settings | None

    @property
    def where(self) -> str:
        return self.place.called if self.place else "the environment"


class _Planner:
    """Reads those of claude-code's settings that decide where it sends what, and makes the plan."""

    def __init__(
        self,
        command: tuple[str, ...],
        started: _Started | None,
        environment: Mapping[str, str],
        places: Places,
        address: Address,
        health: Health | None,
    ) -> None:
        self._command, self._started = command, started
        before_it = command[: started.place] if started else command
        assigned = (word.partition("=") for word in before_it if "=" in word)
        self._assigned = {name: text for name, _, text in assigned}  # as `env` takes them
        self._environment = {**environment, **self._assigned}
        self._places, self._address = places, address
        self._problem = find_problem(address, health)
        self._changes_bound = health is not None and health.changes_bound
        behind_it = command[started.place + 1 :] if started else ()
        self._arguments = (
            behind_it[: behind_it.index("--")] if "--" in behind_it else behind_it
        )  # behind it is a prompt
        self._problems: list[str] = []
        self._settings = list(self._read_settings())

    def plan(self) -> Plan:
        """Return the plan: to change nothing if there is a problem with the proxy."""
        plan = self._plan()
        if self._problem and (plan.variables or plan.command != self._command):
            plan = self._leave(self._problem, is_hindrance=True)
        line = "; ".join([plan.line, *self._problems])
        named, sent = self._find_model() or ("", "")
        if not named:
            environment, own = self._environment, CLAUDE_CODE.model
            is_token = environment.get(_TOKEN) and not environment.get("ANTHROPIC_API_KEY")
            sent = _TOKENS_MODEL if is_token else own.default if own else ""
        origin = "its default" if not named else "as named" if named == sent else f"named {named}"
        return Plan(
            plan.command,
            plan.variables,
            printable(line),
            printable(plan.hindrance),
            (printable(sent), printable(origin)),
            tuple(self._find_others()),
        )

    def _find_others(self) -> Iterator[str]:
        """Yield what to say of other programs that are in its settings or its environment."""
        environment, hooks = dict(self._environment), []
        for each in self._settings:
            environment |= each.variables
            hooks += list(_find_commands(each.found.get("hooks")))
        return find_other_tools(environment, hooks)

    def _plan(self) -> Plan:
        for name, cloud in _CLOUDS.items():
            if (found := self._find_variable(name)) and found.text.lower() in _TRUE:
                return self._leave(f"{name}, from {found.where}, leads it to {cloud}")
        found = self._find_variable(BASE_URL)
        if found is None or not found.text:
            server, source = VENDOR, found.place if found else None
        else:
            try:
                server, source = read_target(found.text), found.place
            except ValueError:
                # Its value may contain a password.
                return self._leave(f"{BASE_URL}, from {found.where}, is no plain http(s) URL")
        named, sent = self._find_model() or ("", None)
        # Every account is refused an edit there, so none is tried. What the optional roads do is
        # not refused.
        if find_messages_binding(sent) == "refuses" and not self._changes_bound:
            called = sent if named == sent else f"{sent} ({named})"
            return self._leave(
                f"{called} binds its reasoning to what precedes it", is_hindrance=True
            )
        url = server.url
        if source is None and BASE_URL in self._assigned:
            is_hindrance = server.host == VENDOR.host or is_this_machine(server.host)
            return self._leave(
                f"the command itself sets {BASE_URL} to {url}", is_hindrance=is_hindrance
            )
        if source is None:
            origin = "" if server.host == VENDOR.host else " (from the environment)"
            return Plan(
                self._command,
                {BASE_URL: behind(self._address, server), **self._keep_tool_search()},
                f"claude-code: {BASE_URL} leads through the proxy to {url}{origin}",
            )
        if server.host != VENDOR.host and not is_this_machine(server.host):
            # Nothing is signed there, and it takes no base URL of ours to have it pass the proxy.
            return self._leave(f"{source.called} leads it to {url}, by way of the proxy")
        return self._override(source, server)

    def _override(self, source: _Settings, server: Server) -> Plan:
        """Override the base URL of a settings file, by an argument that comes before the file."""
        url = server.url
        setting = f"{source.called} sets {BASE_URL} to {url}"
        if source.kind == "managed":
            return self._leave(f"{setting}, and nothing overrides that", is_hindrance=True)
        if self._started is None or not self._started.is_passed_on:
            return self._leave(
                f"{setting}, and only {CLAUDE_CODE.start} overrides that", is_hindrance=True
            )
        place, is_joined = self._find_option("--settings")
        own = next((each for each in self._settings if each.kind == "inline"), None)
        if place >= 0 and own is None:  # only the last such argument counts
            return self._leave(
                f"{setting}, and obsmask run adds nothing to your --settings file",
                is_hindrance=True,
            )
        kept = own.found if own else {}
        variables = kept.get("env")
        merged = {
            **kept,
            "env": {
                **(variables if isinstance(variables, dict) else {}),
                BASE_URL: behind(self._address, server),
            },
        }
        first = self._started.place + 1
        arguments = list(self._command[first:])
        if own is None:
            arguments = ["--settings", json.dumps(merged), *arguments]
        else:
            text = json.dumps(merged)
            arguments[place] = f"--settings={text}" if is_joined else text
        return Plan(
            (*self._command[:first], *arguments),
            self._keep_tool_search(),
            f"claude-code: --settings leads through the proxy to {url} (from {source.called})",
        )

    def _leave(self, why: str, *, is_hindrance: bool = False) -> Plan:
        line = f"claude-code is unchanged: {why}"
        return Plan(self._command, {}, line, why if is_hindrance else "")

    def _keep_tool_search(self) -> Mapping[str, str]:
        """Return the variable that keeps its tool search on, which a base URL switches off."""
        return {} if self._find_variable(TOOL_SEARCH) else {TOOL_SEARCH: "true"}

    def _find_model(self) -> tuple[str, str] | None:
        """Return the model that is named, as it is named and as it is sent; None if none is."""
        place, is_joined = self._find_option("--model")
        named = ""
        if place >= 0:
            named = self._arguments[place].removeprefix("--model=" if is_joined else "")
        elif found := self._find_variable("ANTHROPIC_MODEL"):
            named = found.text
        if not named:
            models = [each.found.get("model") for each in self._settings]
            named = next((each for each in reversed(models) if isinstance(each, str)), "")
        name = named.strip().removesuffix("[1m]")
        alias = name.lower()
        if not name or alias == "default":
            return None
        family = _FAMILIES.get(alias)
        own = family and self._find_variable(f"ANTHROPIC_DEFAULT_{family}_MODEL")
        sent = own.text.removesuffix("[1m]") if own else _ALIASES.get(alias, name)
        return named, sent

    def _find_variable(self, name: str) -> _Value | None:
        """Return the value of a variable that counts: from the strongest settings that set it."""
        for each in reversed(self._settings):
            if name in each.variables:
                return _Value(each.variables[name], each)
        given = self._environment.get(name)
        return _Value(given, None) if given else None

    def _find_option(self, name: str) -> tuple[int, bool]:
        """Return the index of an option's value, -1 if none, and whether it is `--name=value`."""
        for place in reversed(range(len(self._arguments))):
            if self._arguments[place].startswith(f"{name}="):
                return place, True
            if place and self._arguments[place - 1] == name:
                return place, False
        return -1, False

    def _read_settings(self) -> Iterator[_Settings]:
        """Yield its settings, the weakest first."""
        user, work, managed = self._places
        place, _ = self._find_option("--setting-sources")
        chosen = self._arguments[place].rpartition("=")[2] if place >= 0 else "user,project,local"
        files: Sequence[tuple[_Kind, Path]] = (
            ("user", user / "settings.json"),
            ("project", work / ".claude" / "settings.json"),
            ("local", _find_local(work)),
        )
        for kind, path in files:
            if kind in chosen.split(","):
                yield from self._read_file(kind, path)
        yield from self._read_argument()
        yield from self._read_file("managed", managed / "managed-settings.json")
        for path in sorted((managed / "managed-settings.d").glob("[!.]*.json")):
            yield from self._read_file("managed", path)

    def _read_argument(self) -> Iterator[_Settings]:
        place, is_joined = self._find_option("--settings")
        if place < 0:
            return
        text = self._arguments[place].removeprefix("--settings=" if is_joined else "")
        if text.lstrip().startswith("{"):
            yield from self._read("inline", "--settings", text)
        else:
            yield from self._read_file("named", self._places.work / text)

    def _read_file(self, kind: _Kind, path: Path) -> Iterator[_Settings]:
        try:
            if path.is_file():  # to read from a pipe may never end
                yield from self._read(kind, abbreviate(path), path.read_text("utf-8-sig"))
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8"
            self._problems.append(f"{abbreviate(path)} was not read: {reason}")

    def _read(self, kind: _Kind, called: str, text: str) -> Iterator[_Settings]:
        try:
            found = json.loads(text) if text.strip() else {}
        except (ValueError, RecursionError):
            found = None
        if isinstance(found, dict):
            yield _Settings(kind, called, found)
        else:
            self._problems.append(f"{called} was not read: it holds no JSON object")


def _find_commands(found: object) -> Iterator[str]:
    """Yield all commands of hooks, which are in lists and objects."""
    if isinstance(found, dict) and isinstance(command := found.get("command"), str):
        yield command
    elif isinstance(found, dict | list):
        for each in found.values() if isinstance(found, dict) else found:
            yield from _find_commands(each)


def _find_local(work: Path) -> Path:
    """Return the project's settings for this machine: those at the root of its repository first."""
    name = Path(".claude") / "settings.local.json"
    roots = (each for each in (work, *work.parents) if _exists(each / ".git"))
    root = next(roots, work)
    return root / name if _exists(root / name) else work / name


def _exists(path: Path) -> bool:
    """Whether a file exists, as far as that can be seen."""
    return os.path.exists(path)  # noqa: PTH110 - Path.exists raises where a folder is closed

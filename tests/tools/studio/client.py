"""A client that can be recorded: how it is installed and started, and what its tools are.

In a command `{task}` stands for the task's text, `{work}` for the folder of the project, and
`{package}` for the folder where the client is installed; with several tasks, the argument with
`{task}` is repeated. In a tool's arguments `{what}` stands for the command or the file's name,
`{old}` and `{new}` for the texts of an edit, and `{work}` as above.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tests.tools.studio.scenario import Kind, Scenario, read_scenario

AGENT_FOLDER = Path(__file__).with_name("agents")
"""Small agents of our own on the vendors' packages."""

ROOT = {"PYTHONPATH": str(Path(__file__).parents[3])}
"""What those agents need besides the packages that are installed for them."""

REPAIR = read_scenario("repair")
"""The scenario of a client that names no other."""

TOUR = read_scenario("tour")
"""The scenario of the clients of other formats than Chat Completions."""

LONG = read_scenario("cells")
"""A session as long as real ones: where a cache is read at marks alone, short ones mask nothing."""

Registry = Literal["pypi", "npm"]

FAKE_KEY = "sk-scripted-provider-takes-any-key"


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool of the client: its name, and its arguments as a template.

    Some tools take a text in place of arguments. In its template all is filled in as within the
    quotes of a string.
    """

    name: str
    arguments: Mapping[str, object] | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A client: what to install, what to start, which of its tools to call.

    module: a Python client whose module can be imported here is not installed.
    read: without such a tool, files are read by a shell command.
    edit: without such a tool, no scenario with edits can be recorded.
    last_command: what the client runs at the end of a task, where it wants more than a text.
    files: written under its home.
    foreign: patterns of what it puts into results in words that are its vendor's; the words are
        the last group.
    volatile: patterns of what differs in its results from run to run, and what replaces it.
    websockets: whether the provider lets it speak over a WebSocket.
    """

    registry: Registry
    packages: tuple[str, ...]
    command: tuple[str, ...]
    shell: Tool
    read: Tool | None = None
    edit: Tool | None = None
    module: str | None = None
    last_command: str | None = None
    environment: Mapping[str, str] | None = None
    files: Mapping[str, str] | None = None
    foreign: tuple[str, ...] = ()
    volatile: Mapping[str, str] | None = None
    scenario: Scenario = REPAIR
    websockets: bool = False

    @property
    def tools(self) -> Mapping[Kind, Tool]:
        """Its tools, by what they do."""
        tools: dict[Kind, Tool | None] = {"read": self.read, "edit": self.edit, "shell": self.shell}
        return {kind: tool for kind, tool in tools.items() if tool}


COMMAND = {"command": "{what}"}
"""The arguments of many a shell tool."""


# Agents that speak several wire formats

OPENCODE_EDIT = Tool(
    "edit", {"filePath": "{work}/{what}", "oldString": "{old}", "newString": "{new}"}
)

REMINDER = r"(?s)<system-reminder>(.*?)</system-reminder>"


def opencode(model: str, environment: Mapping[str, str] | None = None) -> Client:
    """Return opencode with a model, by its provider and name."""
    return Client(
        registry="npm",
        packages=("opencode-ai@1.18.33",),
        command=("{package}/node_modules/.bin/opencode", "run", "-m", model, "{task}"),
        environment={"OPENCODE_DISABLE_AUTOUPDATE": "1", **(environment or {})},
        shell=Tool("bash", COMMAND | {"description": "Runs a command"}),
        read=Tool("read", {"filePath": "{work}/{what}"}),
    )


def pi(provider: str, model: str, environment: Mapping[str, str] | None = None) -> Client:
    """Return pi with a model of a provider."""
    return Client(
        registry="npm",
        packages=("@earendil-works/pi-coding-agent@0.87.1", "node@24"),
        command=(
            "{package}/node_modules/.bin/node",
            "{package}/node_modules/@earendil-works/pi-coding-agent/dist/bundle/cli.js",
            *("--provider", provider, "--model", model, "-p", "{task}"),
        ),
        environment=environment,
        shell=Tool("bash", COMMAND),
        read=Tool("read", {"path": "{what}"}),
        edit=Tool("edit", {"path": "{what}", "edits": [{"oldText": "{old}", "newText": "{new}"}]}),
        scenario=LONG,
    )

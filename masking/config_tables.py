"""The tables of a configuration file: every key, its type, and the value it has if left out.

These are the values of the shipped `config.toml`; those of the strategies are in
`config_strategies.py`. They stand nowhere else.
"""

from typing import Self

from pydantic import (
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from masking.config_strategies import RedactionTable, Schema1Table, Table
from masking.config_types import (
    Folder,
    Headers,
    Hosts,
    Mode,
    OwnAddress,
    Switch,
    WebsocketMode,
)
from masking.errors import ConfigError
from masking.mcp import McpSettings
from masking.measures.price_settings import OwnPrice, OwnWindow
from masking.reduction import ReductionOptions
from masking.rules import ANY, Rule

_CLOSED = (
    *("pypi.org", "files.pythonhosted.org", "registry.npmjs.org", "registry.yarnpkg.com"),
    *("*.crates.io", "proxy.golang.org", "sum.golang.org", "rubygems.org", "repo.maven.apache.org"),
    *("*.debian.org", "*.ubuntu.com", "*.docker.io", "ghcr.io"),
    *("github.com", "codeload.github.com", "*.githubusercontent.com", "gitlab.com"),
)
"""Hosts that an agent's own tools talk to. No model is there."""


class MemorySettings(Table):
    """Whether the boundary that was sent is remembered by conversation.

    "auto": if one process serves a conversation, as mitmdump does.
    """

    enabled: Switch = "auto"


class RecallSettings(Table):
    """Whether what the window masks is kept in a private folder, where, and how much for how long.

    An empty folder is `recall` in the user's state directory.
    """

    enabled: bool = False
    folder: Folder = ""
    max_megabytes: int = Field(default=200, ge=1)
    max_days: int = Field(default=30, ge=1)


class MetricsSettings(Table):
    """Where the records go. An empty path is `requests.jsonl` in the user's state directory.

    At `max_megabytes` the file becomes `<path>.1`, in place of an earlier one.
    """

    path: str = ""
    max_megabytes: int = Field(default=50, ge=1)


class WebsocketSettings(Table):
    """What becomes of a client that speaks over WebSockets (codex).

    mode: "auto": a client that falls back is sent to HTTP where something could be masked.
        "pass": what holds only what is new passes. "http": every client is sent to HTTP.
    """

    mode: WebsocketMode = "auto"


class PageSettings(Table):
    """The live page: where it is served. Port 0 is any free one.

    metrics: whether Prometheus may scrape it, too. "auto": if it is served on loopback.
    """

    enabled: bool = True
    host: OwnAddress = "127.0.0.1"
    port: int = Field(default=0, ge=0, le=65_535)
    metrics: Switch = "auto"


class RecordingSettings(Table):
    """What a mitmproxy recording (`mitmdump -w`) holds besides what was sent.

    keep_original: the client's own body of each changed request, for replays.
    """

    keep_original: bool = True


class HostSettings(Table):
    """Host name patterns (`*` matches anything), in the form in which they are compared.

    only: if not empty, every other host is left alone.
    uncached: hosts that sell no cached tokens, so that the window slides there.
    never, never_more: hosts that are always left alone; their TLS is not opened either.

    A name that cannot be a host's is a mistake: an empty one, a URL, a port.
    """

    only: Hosts = ()
    uncached: Hosts = ()
    never: Hosts = _CLOSED
    never_more: Hosts = ()

    @property
    def closed(self) -> Hosts:
        """The hosts that are always left alone."""
        return self.never + self.never_more


class RuleTable(Table):
    """Which requests a rule is for, their label, and the keys that are different for them.

    What is given beside the rule's own keys comes in place of the file's, and is checked there. All
    other tables hold for the whole proxy.
    """

    host: str = ANY
    model: str = ANY
    path: str = ANY
    client: str = ANY
    header: Headers = Field(default_factory=dict)
    label: str = ""
    mode: object = None
    holdout_percent: object = None
    schema1: dict[str, object] = Field(default_factory=dict)
    redaction: dict[str, object] = Field(default_factory=dict)
    reduction: dict[str, object] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check(self) -> Self:
        self.to_rule()
        return self

    @model_serializer(mode="wrap")
    def _dump_given(self, dump: SerializerFunctionWrapHandler) -> dict[str, object]:
        return {name: value for name, value in dump(self).items() if name in self.model_fields_set}

    @property
    def changes(self) -> tuple[str, ...]:
        """The names of what it changes: tables of ours, and keys outside them."""
        return tuple(name for name in RULED if name in self.model_fields_set)

    def to_rule(self) -> Rule:
        """Return which requests it is for. Raises ConfigError."""
        return Rule(
            host=self.host,
            model=self.model,
            path=self.path,
            client=self.client,
            headers=tuple(self.header.items()),
            label=self.label,
        )


RULED_TABLES = ("schema1", "redaction", "reduction")
"""The tables of which a rule can change keys."""

RULED = ("mode", "holdout_percent", *RULED_TABLES)
"""All that a rule can change."""


class Tables(Table):
    """All of our tables, and the keys that stand outside them.

    mode: with "observe" everything is decided and counted, and nothing is changed.
    holdout_percent, holdout_salt: the share of the conversations that are observed all the same,
        and what they are chosen by (see `masking.memory.holdout`).
    """

    mode: Mode = "on"
    holdout_percent: float = Field(default=0.0, ge=0, le=100, allow_inf_nan=False)
    holdout_salt: str = ""
    schema1: Schema1Table = Schema1Table()
    redaction: RedactionTable = RedactionTable()
    reduction: ReductionOptions = ReductionOptions()
    mcp: McpSettings = McpSettings()
    memory: MemorySettings = MemorySettings()
    recall: RecallSettings = RecallSettings()
    metrics: MetricsSettings = MetricsSettings()
    page: PageSettings = PageSettings()
    recording: RecordingSettings = RecordingSettings()
    websocket: WebsocketSettings = WebsocketSettings()
    hosts: HostSettings = HostSettings()
    prices: tuple[OwnPrice, ...] = ()
    windows: tuple[OwnWindow, ...] = ()
    rules: tuple[RuleTable, ...] = ()

    @model_validator(mode="after")
    def _check_recall(self) -> Self:
        """See that no placeholder names an id under which nothing is kept."""
        if self.schema1.to_policy().template.names_recall and not self.recall.enabled:
            raise ConfigError(
                "{recall} needs recall.enabled = true", "schema1.placeholder_template"
            )
        return self

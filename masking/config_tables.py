"""The tables of a configuration file: every key, its type, and the value it has if left out.

These are the values of the shipped `config.toml`, and this is their only place. The defaults of
`MaskPolicy` and `RedactionPolicy` are the Python API's.
"""

from dataclasses import replace
from typing import Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from masking.config_types import (
    CachePrices,
    Folder,
    Headers,
    Hosts,
    Mode,
    OwnAddress,
    Prices,
    Switch,
    WebsocketMode,
)
from masking.errors import ConfigError
from masking.measures.price_settings import OwnPrice, OwnWindow, PriceSettings
from masking.rules import ANY, Rule
from masking.strategies.arguments import DEFAULT_CHARS
from masking.strategies.mcp_requests import McpSettings
from masking.strategies.policy import BoundReasoning, MaskPolicy
from masking.strategies.redaction import RedactionPolicy
from masking.strategies.reduction import ReductionOptions

_PLACEHOLDER = "[{tool_name}: {original_chars} chars masked]"

_CLOSED = (
    *("pypi.org", "files.pythonhosted.org", "registry.npmjs.org", "registry.yarnpkg.com"),
    *("*.crates.io", "proxy.golang.org", "sum.golang.org", "rubygems.org", "repo.maven.apache.org"),
    *("*.debian.org", "*.ubuntu.com", "*.docker.io", "ghcr.io"),
    *("github.com", "codeload.github.com", "*.githubusercontent.com", "gitlab.com"),
)
"""Hosts that an agent's own tools talk to. No model is there."""


class _Table(BaseModel):
    """Unknown keys and wrong types are mistakes: the string "false" is not a boolean."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class Schema1Table(_Table):
    """`MaskPolicy`, where its prices come from, and what follows a 400.

    The descriptions are what a user reads.
    """

    enabled: bool = Field(default=True, description="Mask old tool results.")
    window_turns: int = Field(
        default=8, description="Keep the results of the last N tool turns; 0 masks nothing."
    )
    keep_errors: bool = Field(default=True, description="Keep results that look like an error.")
    error_words_max_chars: int = Field(
        default=2_000, description="In results of up to N characters, a single word makes an error."
    )
    keep_last_k_per_tool: int = Field(
        default=0, description="Keep the last K results of each tool; 0 is off."
    )
    keep_tools: tuple[str, ...] = Field(
        default=(), description="Keep the results of these tools, as read_*, however old."
    )
    mask_tools: tuple[str, ...] = Field(
        default=(), description="Mask the results of these tools alone; none: of all."
    )
    keep_arguments: tuple[str, ...] = Field(
        default=(),
        description="Keep the results of calls with such an argument, as */PLAN.md, however old.",
    )
    keep_latest_turns: int = Field(
        default=0, description="Keep the latest result of each target for N turns; 0 is off."
    )
    target_arguments: tuple[str, ...] = Field(
        default=("file_path", "path", "filename", "filePath"),
        description="The arguments that name a call's target; the first one present counts.",
    )
    keep_rereads: bool = Field(
        default=False,
        description="Keep what was asked for again after the same call's result left the window.",
    )
    placeholder_template: str = Field(
        default=_PLACEHOLDER, description="The text that takes a result's place."
    )
    placeholder_arguments_chars: int = Field(
        default=DEFAULT_CHARS, description="`{arguments}` in it are shortened to N characters."
    )
    skip_if_not_shorter: bool = Field(
        default=True, description="Leave a result alone where its placeholder is not shorter."
    )
    mask_text_parts: bool = Field(
        default=True, description="Also mask the texts of results that are lists of parts."
    )
    mask_images: bool = Field(
        default=False, description="Also mask the images of old results, such as screenshots."
    )
    keep_last_images: int = Field(
        default=3, description="Keep the results that hold the last K images; 0 is off."
    )
    bound_reasoning: BoundReasoning = Field(
        default="keep",
        description="`keep` what later reasoning is bound to, or let the provider `drop` that.",
    )
    min_chars: int = Field(
        default=0, description="Leave results alone that are shorter than N characters."
    )
    resend_on_400: bool = False
    cache_pricing: CachePrices = "auto"
    assumed_prices: Prices = PriceSettings().assumed
    max_loss: float = Field(
        default=0.1,
        description="At no request may the bill exceed 1 + this times that of sending everything.",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        self.to_policy()  # raises what is wrong with it
        return self

    def to_policy(self) -> MaskPolicy:
        """Return the policy, with the prices that the table gives. Raises ConfigError."""
        values = {name: value for name, value in self if name in MaskPolicy.__dataclass_fields__}
        policy = MaskPolicy(**values)
        if isinstance(self.cache_pricing, str):
            return policy
        read, write = self.cache_pricing
        return replace(policy, cache_read_ratio=read, cache_write_ratio=write)


class RedactionTable(_Table):
    """`RedactionPolicy`, with the placeholder of schema1's table."""

    enabled: bool = False
    tool_names: tuple[str, ...] = ()
    placeholder_template: str = _PLACEHOLDER

    @model_validator(mode="after")
    def _check(self) -> Self:
        self.to_policy()
        return self

    def to_policy(self) -> RedactionPolicy:
        """Return the policy. Raises ConfigError."""
        return RedactionPolicy(self.enabled, self.tool_names, self.placeholder_template)


class MemorySettings(_Table):
    """Whether the boundary that was sent is remembered by conversation.

    "auto": if one process serves a conversation, as mitmdump does.
    """

    enabled: Switch = "auto"


class RecallSettings(_Table):
    """Whether what the window masks is kept in a private folder, where, and how much for how long.

    An empty folder is `recall` in the user's state directory.
    """

    enabled: bool = False
    folder: Folder = ""
    max_megabytes: int = Field(default=200, ge=1)
    max_days: int = Field(default=30, ge=1)


class MetricsSettings(_Table):
    """Where the records go. An empty path is `requests.jsonl` in the user's state directory.

    At `max_megabytes` the file becomes `<path>.1`, in place of an earlier one.
    """

    path: str = ""
    max_megabytes: int = Field(default=50, ge=1)


class WebsocketSettings(_Table):
    """What becomes of a client that speaks over WebSockets (codex).

    mode: "pass": what holds only what is new passes. "http": the client is told to use HTTP.
    """

    mode: WebsocketMode = "pass"


class PageSettings(_Table):
    """The live page: where it is served. Port 0 is any free one.

    metrics: whether Prometheus may scrape it, too. "auto": if it is served on loopback.
    """

    enabled: bool = True
    host: OwnAddress = "127.0.0.1"
    port: int = Field(default=0, ge=0, le=65_535)
    metrics: Switch = "auto"


class RecordingSettings(_Table):
    """What a mitmproxy recording (`mitmdump -w`) holds besides what was sent.

    keep_original: the client's own body of each changed request, for replays.
    """

    keep_original: bool = True


class HostSettings(_Table):
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


class RuleTable(_Table):
    """Which requests a rule is for, their label, and the keys that are different for them.

    What is given beside the rule's own keys comes in place of the file's, and is checked there. All
    other tables hold for the whole proxy.
    """

    host: str = ANY
    model: str = ANY
    path: str = ANY
    client: str = ANY
    header: Headers = {}
    label: str = ""
    mode: object = None
    holdout_percent: object = None
    schema1: dict[str, object] = {}
    redaction: dict[str, object] = {}
    reduction: dict[str, object] = {}

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


class Tables(_Table):
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

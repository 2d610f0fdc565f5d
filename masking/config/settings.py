"""The settings: every table of a configuration file, and its keys.

The classes are the tables. A key's field has its type, its default and its description, from which
`config.toml`, the tables of `docs/reference.md` and the help of options are written (`python -m
tests.tools.make_docs`). The keys of the strategies are declared in their policies, whose defaults
in Python are those of the original specification. A reader raises ConfigError, with the path inside
the value, such as `[0]`, for a value that cannot be right.
"""

import dataclasses
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from ipaddress import ip_address
from pathlib import PurePath
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    SerializerFunctionWrapHandler,
    StrictBool,
    StrictFloat,
    StrictInt,
    model_serializer,
)
from pydantic.dataclasses import dataclass
from pydantic.fields import FieldInfo
from pydantic_core import to_json

from masking.arrival import ArrivalPolicy, ArrivalSettings
from masking.config.rules import ANY, RequestFacts, Rule, find_first
from masking.errors import ConfigError
from masking.mcp import McpSettings
from masking.patterns import check_host, normalize_host
from masking.prices import MAX_PRICE, CachePricing, OwnPrice, OwnWindow, PriceSettings
from masking.redaction import RedactionPolicy, RedactionSettings
from masking.reduction import ReductionOptions
from masking.rewrite import Strategies
from masking.window import MaskPolicy

_Table = TypeVar("_Table", bound=type[Any])

TABLE = ConfigDict(extra="forbid", defer_build=True)
"""An unknown key is a mistake. So is the string "false" for a boolean: hence the strict types."""


def name_type(value: object) -> str:
    """Return the type of a TOML value as error messages name it: `a whole number`."""
    return _TYPES.get(type(value), f"a {type(value).__name__}")  # a date, a time, a datetime


_TYPES: Mapping[type, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    list: "a list",
    dict: "a table",
}


def read_prices(value: object) -> tuple[float, float]:
    """Read a pair of prices. Raises ConfigError with the path of the item, such as `[0]`."""
    if not isinstance(value, (list, tuple)) or len(value) != 2:
        raise ConfigError("expected [read, write]", "")
    for place, price in enumerate(value):
        if isinstance(price, bool) or not isinstance(price, (int, float)):
            raise ConfigError(f"expected a number, got {name_type(price)}", f"[{place}]")
        if not 0 <= price < MAX_PRICE:
            raise ConfigError(f"must be from 0 up and below {MAX_PRICE:g}", f"[{place}]")
    return float(value[0]), float(value[1])


def _read_cache_pricing(value: object) -> CachePricing:
    if value == "none":
        return "none"
    if value == "auto":
        return "auto"
    if isinstance(value, (list, tuple)) and len(value) == 2:
        return read_prices(value)
    raise ConfigError('expected "none", "auto" or [read, write]', "")


def _read_switch(value: object) -> bool | Literal["auto"]:
    if isinstance(value, bool):
        return value
    if value == "auto":
        return "auto"
    raise ConfigError('expected true, false or "auto"', "")


def _read_host(pattern: str) -> str:
    check_host(pattern, "")
    return normalize_host(pattern)


def _read_folder(name: str) -> str:
    """Refuse a relative folder: proxy and commands seldom run in the same directory."""
    if name and not name.startswith("~") and not PurePath(name).is_absolute():
        raise ConfigError("must be a full path, or begin with ~", "")
    return name


def _read_own_address(host: str) -> str:
    try:
        return host if host == "localhost" else str(ip_address(host))
    except ValueError:
        raise ConfigError("expected an IP address of this machine, as 127.0.0.1", "") from None


def _read_headers(value: object) -> Mapping[str, str]:
    """Read a rule's headers: the name of one that must be there, or names with globs."""
    headers = {value: ANY} if isinstance(value, str) else value
    if not isinstance(headers, dict):
        raise ConfigError("expected a header's name, or a table of names and patterns", "")
    for name, glob in headers.items():
        if not isinstance(glob, str):
            raise ConfigError(f"expected a text in quotes, got {name_type(glob)}", name)
    found = {name.lower(): glob for name, glob in headers.items()}
    if len(found) < len(headers):
        raise ConfigError("a header is named twice; case does not count", "")
    return found


def list_keys(table: type) -> Mapping[str, FieldInfo]:
    """Return the keys of a table, each with its type, its default and its description."""
    keys: Mapping[str, FieldInfo] = getattr(table, "__pydantic_fields__", {})
    return keys


Mode = Literal["on", "observe", "off"]
Switch = Annotated[bool | Literal["auto"], PlainValidator(_read_switch)]
WebsocketMode = Literal["auto", "pass", "http"]
Prices = Annotated[tuple[float, float], PlainValidator(read_prices)]
CachePrices = Annotated[CachePricing, PlainValidator(_read_cache_pricing)]
Hosts = tuple[Annotated[str, AfterValidator(_read_host)], ...]
Folder = Annotated[str, AfterValidator(_read_folder)]
OwnAddress = Annotated[str, AfterValidator(_read_own_address)]
Headers = Annotated[Mapping[str, str], PlainValidator(_read_headers)]

# The strategies' tables: what their policies declare

_STRICT: Mapping[object, Any] = {
    bool: StrictBool,
    int: StrictInt,
    int | None: StrictInt | None,
    float: StrictFloat,
}
"""What a value in a file has to be: no 1 for true, no 8.0 for 8."""


def takes_settings(table: _Table) -> _Table:
    """Make keys of the settings that a table inherits, with the shipped defaults."""
    for field in dataclasses.fields(table):
        table.__annotations__[field.name] = _STRICT.get(field.type, field.type)
        again = dataclasses.field(default=field.metadata["shipped"], metadata=field.metadata)
        setattr(table, field.name, again)
    return table


def _values_of(table: object, policy: type[Any]) -> dict[str, Any]:
    """Return the values that a table has for a policy's settings."""
    return {each.name: getattr(table, each.name) for each in dataclasses.fields(policy)}


@dataclass(frozen=True, kw_only=True, config=TABLE)
@takes_settings
class Schema1Table(MaskPolicy):
    """The window."""

    provider_clearing: StrictBool = Field(
        default=False,
        description="For models that reject changed tool results: have Anthropic clear old ones "
        "itself (context editing, a beta), errors and short ones, too, except what `keep_tools` "
        "or `mask_tools` exempts. Needs mitmdump and the memory.",
    )
    resend_on_400: StrictBool = Field(
        default=False,
        description="If a masked request gets a 400, send it again as the agent wrote it, unless "
        "it wouldn't fit its model or reasoning is bound to what was masked. If that is accepted, "
        "the conversation goes out unmasked until the proxy stops. Not over WebSockets.",
    )
    cache_pricing: CachePrices = Field(
        default="auto",
        description="The prices of a token read from the cache and of one written to it, relative "
        'to a plain input token. `"auto"`: your own (`[[observation_masking.prices]]`), else the '
        "price list's, else the model maker's, else `assumed_prices`. `[0.1, 1.0]`: these, for "
        'every host. `"none"`: the window slides every turn, whatever that costs.',
    )
    assumed_prices: Prices = Field(
        default=PriceSettings().assumed,
        description='With `"auto"`, the prices when nothing else is known. To assume a cache '
        "where there is none costs part of the savings; the opposite can more than double the "
        "bill.",
    )

    def to_policy(self) -> MaskPolicy:
        """Return the policy of the window."""
        return MaskPolicy(**_values_of(self, MaskPolicy))


@dataclass(frozen=True, kw_only=True, config=TABLE)
@takes_settings
class ArrivalTable(ArrivalSettings):
    """At arrival. `error_words_max_chars` and `placeholder_arguments_chars` of `schema1` hold."""

    def to_policy(self, schema1: Schema1Table) -> ArrivalPolicy:
        """Return the policy, given the settings of the window. Raises ConfigError."""
        return ArrivalPolicy(
            **_values_of(self, ArrivalSettings),
            arguments_chars=schema1.placeholder_arguments_chars,
            error_words_max_chars=schema1.error_words_max_chars,
        )


@dataclass(frozen=True, kw_only=True, config=TABLE)
@takes_settings
class RedactionTable(RedactionSettings):
    """Redaction. `placeholder_arguments_chars` of `schema1` holds here, too."""

    def to_policy(self, placeholder_arguments_chars: int) -> RedactionPolicy:
        """Return the policy."""
        return RedactionPolicy(
            **_values_of(self, RedactionSettings),
            placeholder_arguments_chars=placeholder_arguments_chars,
        )


@dataclass(frozen=True, kw_only=True, config=TABLE)
@takes_settings
class ReductionTable(ReductionOptions):
    """Reduction."""


@dataclass(frozen=True, kw_only=True, config=TABLE)
@takes_settings
class McpTable(McpSettings):
    """The answers of MCP servers."""


# The other tables


@dataclass(frozen=True, kw_only=True, config=TABLE)
class MemorySettings:
    """Whether the boundary that was sent is remembered."""

    enabled: Switch = Field(
        default="auto",
        description="Remember which results of each conversation were masked, and when it was "
        "last sent, in a small private file without content: then a restart or new settings "
        'un-mask nothing. `"auto"`: on in mitmdump, off behind Envoy, where `true` is refused. '
        "Set `false` if several proxies serve one conversation.",
    )


@dataclass(frozen=True, kw_only=True, config=TABLE)
class RecallSettings:
    """Whether what the window masks is kept, where, how much, and for how long."""

    enabled: StrictBool = Field(
        default=False,
        description="Keep what the window masks in a private folder, one file per text, for "
        "`obsmask recall`; `placeholder_template` has to name its ID, `{recall}`. The files hold "
        "content. Images, and what redaction replaces, aren't kept.",
    )
    folder: Folder = Field(
        default="",
        description="The folder; several proxies can share it. If empty: "
        "`observation-masking/recall` in your state directory.",
    )
    max_megabytes: StrictInt = Field(
        default=200,
        ge=1,
        description="Above this size, the least recently used files are deleted. Reading a file "
        "uses it; so does a request in which it is masked.",
    )
    max_days: StrictInt = Field(
        default=30,
        ge=1,
        description="Files not used for this many days are deleted.",
    )


@dataclass(frozen=True, kw_only=True, config=TABLE)
class MetricsSettings:
    """Where the records go, and what the log warns of."""

    path: str = Field(
        default="",
        description="The records file; several proxies can share it. If empty: "
        "`observation-masking/requests.jsonl` in your state directory (`$XDG_STATE_HOME`, "
        "`~/.local/state`).",
    )
    max_megabytes: StrictInt = Field(
        default=50,
        ge=1,
        description="At this size the file is renamed to `<path>.1`, replacing any earlier one.",
    )
    quota_warning: StrictBool = Field(
        default=True,
        description="Warn in the log, once, if more than 90% of a limit of your Claude or ChatGPT "
        "plan is used, and at the present pace all of it before it resets.",
    )
    quota_saving: StrictBool = Field(
        default=False,
        description="Learn what masking does to the limits of your plan, from how they rise, and "
        "say so once it is known.",
    )


@dataclass(frozen=True, kw_only=True, config=TABLE)
class PageSettings:
    """The live page."""

    enabled: StrictBool = Field(
        default=True,
        description="Serve a page of what is masked and saved while agents work: names, sizes, "
        "and amounts, never content. `obsmask page` opens it; so does `http://obsmask.test/` "
        "through the proxy. A change of this table takes effect at the next start.",
    )
    host: OwnAddress = Field(
        default="127.0.0.1",
        description="The address of this machine to serve it on. Anyone who can reach that can "
        "read the page.",
    )
    port: StrictInt = Field(
        default=0,
        ge=0,
        le=65_535,
        description="The page's port; 0 picks any free one. If it is taken, the proxy logs a "
        "warning and runs without its page.",
    )
    metrics: Switch = Field(
        default="auto",
        description='Also serve `/metrics`, for Prometheus. `"auto"`: if `host` is a loopback '
        "address.",
    )


@dataclass(frozen=True, kw_only=True, config=TABLE)
class RecordingSettings:
    """What a mitmproxy recording holds beside what was sent."""

    keep_original: StrictBool = Field(
        default=True,
        description="In a recording (`mitmdump -w FILE`), also keep the client's own body of each "
        "masked request: `obsmask replay` needs it.",
    )


@dataclass(frozen=True, kw_only=True, config=TABLE)
class WebsocketSettings:
    """How clients are treated that use WebSockets."""

    mode: WebsocketMode = Field(
        default="auto",
        description='`"auto"`: if something could be masked, a client known to fall back to HTTP '
        '(codex, Copilot CLI) gets a 426; others pass. `"pass"`: all pass; only a whole history, '
        'as after a reconnect, is masked. `"http"`: all get a 426, and a client that speaks only '
        "WebSockets fails.",
    )


@dataclass(frozen=True, kw_only=True, config=TABLE)
class HostSettings:
    """Patterns of host names, normalized.

    Raises ConfigError for what cannot be a host name: an empty text, a URL, a port.
    """

    only: Hosts = Field(
        default=(),
        description="If not empty, all other hosts are left alone, their TLS unopened. `*` "
        "matches anything; non-ASCII letters can be written as they are (`bücher.example`).",
    )
    uncached: Hosts = Field(
        default=(),
        description='Hosts that sell no cached tokens: with `cache_pricing = "auto"`, the window '
        "slides there.",
    )
    never: Hosts = Field(
        default=(
            *("pypi.org", "files.pythonhosted.org", "registry.npmjs.org", "registry.yarnpkg.com"),
            *("*.crates.io", "proxy.golang.org", "sum.golang.org", "rubygems.org"),
            *("repo.maven.apache.org", "*.debian.org", "*.ubuntu.com", "*.docker.io", "ghcr.io"),
            *("github.com", "codeload.github.com", "*.githubusercontent.com", "gitlab.com"),
        ),
        description="Hosts that are never opened, no matter what `only` says; no model is there. "
        "To add your own, set `never_more`.",
    )
    never_more: Hosts = Field(default=(), description="More hosts that are never opened.")

    @property
    def closed(self) -> Hosts:
        """The hosts that are always left alone; their TLS is not opened either."""
        return self.never + self.never_more


@dataclass(frozen=True, kw_only=True, config=TABLE)
class PriceTable(OwnPrice):
    """A price of the user's own."""

    host: str = Field(default=ANY, description="the hosts; `*` matches anything")
    model: str = Field(default=ANY, description="the models")
    read: StrictFloat = Field(
        description="a token read from the cache, relative to a plain input token"
    )
    write: StrictFloat = Field(description="a token written to the cache, likewise")
    dollars_per_million: StrictFloat | None = Field(
        default=None,
        description="US dollars per million plain input tokens; if left out, the price list's",
    )


@dataclass(frozen=True, kw_only=True, config=TABLE)
class WindowTable(OwnWindow):
    """A context window of the user's own."""

    host: str = Field(default=ANY, description="the hosts; `*` matches anything")
    model: str = Field(default=ANY, description="the models")
    tokens: StrictInt = Field(description="prompt and response together")


RULED_TABLES = ("schema1", "arrival", "redaction", "reduction")
"""The tables whose keys a rule can change."""

RULED = ("mode", "holdout_percent", *RULED_TABLES)
"""All that a rule can change; everything else holds for the whole proxy."""


InPlace = Annotated[object, Field(description="in place of the file's")]
Changed = Annotated[
    dict[str, object],
    Field(default_factory=dict, description="the keys of this table that differ for them"),
]


class RuleTable(BaseModel):
    """Which requests a rule is for, their label, and the keys that are different for them.

    `masking.config.file` puts these keys in place of the file's, and checks the outcome.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    host: str = Field(default=ANY, description="the hosts, as in `hosts`")
    model: str = Field(default=ANY, description="the models; case doesn't matter")
    path: str = Field(default=ANY, description="the paths, without the query")
    client: str = Field(
        default=ANY, description="the programs, as `obsmask status --by client` names them"
    )
    header: Headers = Field(
        default_factory=dict,
        description='a header that must be present, such as `"x-team"`, or headers with patterns '
        "for their values; none that may hold a credential",
    )
    label: str = Field(default="", description="what records call the requests")
    mode: InPlace = None
    holdout_percent: InPlace = None
    schema1: Changed
    arrival: Changed
    redaction: Changed
    reduction: Changed

    def model_post_init(self, context: object) -> None:
        """Raise ConfigError if the rule cannot be right."""
        self.to_rule()

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


@dataclass(frozen=True, kw_only=True, config=TABLE)
class Tables:
    """Everything that a file can hold: some keys outside of tables, and the tables."""

    mode: Mode = Field(
        default="on",
        description='`"on"`; `"observe"`: nothing is changed, and the records say what the '
        'strategies that are on would have saved; `"off"`: every strategy is off.',
    )
    holdout_percent: StrictFloat = Field(
        default=0.0,
        ge=0,
        le=100,
        allow_inf_nan=False,
        description="This share of the conversations is only observed, whatever the mode, for "
        "`obsmask status` to compare. They are chosen by their text up to the first user message, "
        "so each stays in its group, and a larger share only adds to it.",
    )
    holdout_salt: str = Field(
        default="", description="Any text; a different one chooses different conversations."
    )
    schema1: Schema1Table = Schema1Table()
    arrival: ArrivalTable = ArrivalTable()
    redaction: RedactionTable = RedactionTable()
    reduction: ReductionTable = ReductionTable()
    mcp: McpTable = McpTable()
    memory: MemorySettings = MemorySettings()
    recall: RecallSettings = RecallSettings()
    metrics: MetricsSettings = MetricsSettings()
    page: PageSettings = PageSettings()
    recording: RecordingSettings = RecordingSettings()
    websocket: WebsocketSettings = WebsocketSettings()
    hosts: HostSettings = HostSettings()
    prices: tuple[PriceTable, ...] = Field(
        default=(),
        description="Your own prices, for matching hosts and models. `*` matches anything, and so "
        "does a name that is left out. The first table that matches applies.",
        examples=[
            {
                "host": "llm.example.com",
                "model": "claude-*",
                "read": 0.1,
                "write": 1.25,
                "dollars_per_million": 3.0,
            }
        ],
    )
    windows: tuple[WindowTable, ...] = Field(
        default=(),
        description="Your own context windows, in tokens, with patterns as in `prices`. They come "
        "before the price list's: your own server may run a model with less.",
        examples=[{"host": "localhost", "tokens": 32768}],
    )
    rules: tuple[RuleTable, ...] = Field(
        default=(),
        description="Different settings for some requests. The first rule that matches applies. "
        "`host`, `model`, `path`, and `client` are patterns for what the record shows; `header` "
        "is one that must be present, or a table of names and patterns. `label` is what records "
        "call the requests. A rule can change `mode`, `holdout_percent`, and every key of "
        "`schema1`, `arrival`, `redaction`, and `reduction`.",
        examples=[
            {
                "header": {"x-team": "research*"},
                "model": "claude-*",
                "label": "research",
                "schema1": {"window_turns": 20, "keep_tools": ["notebook_*"]},
            }
        ],
    )

    def __post_init__(self) -> None:
        """Raise ConfigError if placeholders name an id and nothing is kept under it."""
        if self.schema1.to_policy().rendering.parsed.names_recall and not self.recall.enabled:
            raise ConfigError(
                "{recall} needs recall.enabled = true", "schema1.placeholder_template"
            )
        try:
            arrival = self.arrival.to_policy(self.schema1)
        except ConfigError as error:
            raise ConfigError(error.problem, f"arrival.{error.path}") from None
        if arrival.marker.names_recall and not self.recall.enabled:
            raise ConfigError("{recall} needs recall.enabled = true", "arrival.marker_template")


def find_key(name: str) -> FieldInfo:
    """Return the key of a setting, by `table.key`, or by its name where it is outside of tables."""
    table, _, key = name.rpartition(".")
    found: Any = list_keys(Tables)[table].annotation if table else Tables
    return list_keys(found)[key]


COMMON = (
    "mode",
    *("schema1.window_turns", "schema1.keep_errors", "schema1.keep_tools"),
    *("schema1.bound_reasoning", "schema1.max_loss"),
    *("arrival.enabled", "recall.enabled", "page.port"),
    *("hosts.only", "hosts.uncached", "hosts.never_more", "prices"),
)
"""What people set. The shipped file has these, and screens and pages show them first."""

CLIENT_WINDOWS: Mapping[str, int] = {"openhands": 36}
"""Tool turns, for clients that a window of the usual size harms, by their name in the records.

In paired runs, OpenHands solved fewer tasks with smaller windows (docs/measured/harm.md).
"""


@dataclass(frozen=True, kw_only=True, config=TABLE)
class Settings(Tables):
    """The settings of a file, and those that no file has.

    price_list: the path of the price list, unless it is the shipped one.
    label: what records call the requests that these settings are for.
    by_rule: each rule with the settings of its requests, which have no rules themselves.
    sets_window: whether a user has set `window_turns`; else a client's own window comes first.
    """

    price_list: str = ""
    label: str = ""
    by_rule: tuple[tuple[Rule, "Settings"], ...] = ()
    sets_window: Annotated[bool, Field(exclude=True)] = dataclasses.field(
        default=False, compare=False
    )

    @property
    def with_rules(self) -> tuple["Settings", ...]:
        """These settings, and those of the rules."""
        return (self, *(own for _, own in self.by_rule))

    @property
    def any_enabled(self) -> bool:
        """Whether a strategy is on for any request, if only to be observed."""
        return any(one.strategies.can_change for one in self.with_rules)

    @property
    def any_changes(self) -> bool:
        """Whether any request can be changed."""
        return any(one.changes for one in self.with_rules)

    @property
    def changes(self) -> bool:
        """Whether a request can be changed at all: a strategy is on, and not only observed."""
        return self.strategies.can_change and self.mode == "on"

    @property
    def changes_bound(self) -> bool:
        """Whether any request is changed even where the model refuses edits before its reasoning.

        Results are shortened before the model sees them, or the provider clears them itself, or
        drops the reasoning.
        """
        return any(
            (one.strategies.arrival.enabled and one.strategies.shortens)
            or (one.strategies.schema1.masks and one.schema1.provider_clearing)
            or (one.strategies.schema1.masks and one.schema1.bound_reasoning == "drop")
            for one in self.with_rules
        )

    @property
    def observes(self) -> bool:
        """Whether any conversation is observed only, here or by a rule."""
        return any(one.mode == "observe" or one.holdout_percent > 0 for one in self.with_rules)

    @property
    def ruled_headers(self) -> frozenset[str]:
        """The names of the headers that rules ask for."""
        return frozenset(name for rule, _ in self.by_rule for name, _ in rule.headers)

    @cached_property
    def choices(self) -> tuple[tuple[Rule, "Settings"], ...]:
        """The rules in force, those of clients with a window of their own among them.

        Such a client has it under each rule, and where none fits, unless a user has set the window
        there.
        """
        found: list[tuple[Rule, Settings]] = []
        for rule, own in (*self.by_rule, (Rule(), self)):
            for client, turns in CLIENT_WINDOWS.items():
                if not own.sets_window and (narrow := rule.narrow(client)):
                    schema1 = replace(own.schema1, window_turns=turns)
                    found.append((narrow, replace(own, schema1=schema1)))
            found.append((rule, own))
        return tuple(found[:-1])

    @cached_property
    def policy(self) -> MaskPolicy:
        """What the window may mask."""
        policy = self.schema1.to_policy()
        return replace(policy, enabled=False) if self.mode == "off" else policy

    @cached_property
    def strategies(self) -> Strategies:
        """What may be done to a request."""
        if self.mode == "off":
            return Strategies(schema1=self.policy)
        redaction = self.redaction.to_policy(self.schema1.placeholder_arguments_chars)
        return Strategies(
            arrival=self.arrival.to_policy(self.schema1),
            redaction=redaction,
            schema1=self.policy,
            reduction=self.reduction,
        )

    @cached_property
    def price_settings(self) -> PriceSettings:
        """How requests are priced."""
        return PriceSettings(
            self.schema1.cache_pricing,
            own=self.prices,
            uncached=self.hosts.uncached,
            assumed=self.schema1.assumed_prices,
            price_list=self.price_list,
            windows=self.windows,
        )

    @cached_property
    def digest(self) -> str:
        """12 hex digits that are the same for equal settings of a request.

        They leave out what does not matter to one request: where things are kept, the page, the
        request's label, and the rules for others.
        """
        relevant = replace(
            self,
            # A placeholder that names {recall} is valid only while this is on.
            recall=RecallSettings(enabled=self.recall.enabled),
            metrics=MetricsSettings(),
            page=PageSettings(),
            label="",
            rules=(),
            by_rule=(),
        )
        return hashlib.blake2b(to_json(relevant), digest_size=6).hexdigest()


def find_settings(settings: Settings, facts: RequestFacts) -> Settings:
    """Return the settings that hold for a request: those of the first rule that fits, if any."""
    return find_first(settings.choices, facts, settings)


def change_everywhere(settings: Settings, change: Callable[[Settings], Settings]) -> Settings:
    """Return settings with a change made to them and to their rules' settings."""
    by_rule = tuple((rule, change(own)) for rule, own in settings.by_rule)
    return replace(change(settings), by_rule=by_rule)

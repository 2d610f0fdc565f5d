"""A configuration file and the settings given beside it: what is read, and what a mistake says."""

import dataclasses
import itertools
import json
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import to_json

from addon.config_commands import dump_toml
from masking import ConfigError, MaskPolicy
from masking.config import (
    COMMON,
    ConfigValue,
    HostSettings,
    MetricsSettings,
    PageSettings,
    Schema1Table,
    Settings,
    Source,
    list_values,
    parse_settings,
    read_override,
)
from masking.config.file import apply_overrides
from masking.config.settings import (
    McpTable,
    PriceTable,
    RecallSettings,
    RecordingSettings,
    RedactionTable,
    ReductionTable,
    Tables,
    WebsocketSettings,
    WindowTable,
)
from masking.errors import OverrideError
from masking.prices import PriceSettings
from tests.support.builders import TEMPLATE
from tests.support.marks import as_one_test
from tests.support.places import CONFIG


def parse(table: str, lines: str) -> Settings | None:
    return parse_settings(f"[observation_masking{table}]\n{lines}\n".encode())


class Setting(NamedTuple):
    table: str
    line: str
    expected: Settings


def schema1(**values: object) -> Settings:
    return Settings(schema1=Schema1Table(**values))  # type: ignore[arg-type]


def redaction(**values: object) -> Settings:
    return Settings(redaction=RedactionTable(**values))  # type: ignore[arg-type]


def own(**price: object) -> Settings:
    return Settings(prices=(PriceTable(**price),))  # type: ignore[arg-type]


SETTINGS = [
    Setting(".schema1", "enabled = true", schema1(enabled=True)),
    Setting(".schema1", "enabled = false", schema1(enabled=False)),
    Setting(".schema1", "window_turns = 3", schema1(window_turns=3)),
    Setting(".schema1", "window_turns = 0", schema1(window_turns=0)),
    Setting(".schema1", "window_turns = -1", schema1(window_turns=-1)),
    Setting(".schema1", "keep_errors = false", schema1(keep_errors=False)),
    Setting(".schema1", "keep_last_k_per_tool = 2", schema1(keep_last_k_per_tool=2)),
    Setting(".schema1", "keep_last_k_per_tool = 0", schema1(keep_last_k_per_tool=0)),
    Setting(".schema1", "keep_last_k_per_tool = -1", schema1(keep_last_k_per_tool=-1)),
    Setting(
        ".schema1", f"placeholder_template = '{TEMPLATE}'", schema1(placeholder_template=TEMPLATE)
    ),
    Setting(".schema1", "skip_if_not_shorter = false", schema1(skip_if_not_shorter=False)),
    Setting(".schema1", "mask_text_parts = false", schema1(mask_text_parts=False)),
    Setting(".schema1", "error_words_max_chars = 0", schema1(error_words_max_chars=0)),
    Setting(".schema1", 'cache_pricing = "none"', schema1(cache_pricing="none")),
    Setting(".schema1", 'cache_pricing = "auto"', schema1(cache_pricing="auto")),
    Setting(".schema1", "cache_pricing = [0.1, 1.25]", schema1(cache_pricing=(0.1, 1.25))),
    Setting(".schema1", "cache_pricing = [0, 1]", schema1(cache_pricing=(0.0, 1.0))),
    Setting(".schema1", "assumed_prices = [0.5, 1]", schema1(assumed_prices=(0.5, 1.0))),
    Setting(
        ".recording",
        "keep_original = false",
        Settings(recording=RecordingSettings(keep_original=False)),
    ),
    Setting(".hosts", 'uncached = ["A.b."]', Settings(hosts=HostSettings(uncached=("a.b",)))),
    Setting("", "windows = []", Settings()),
    Setting("", "windows = [{tokens = 9}]", Settings(windows=(WindowTable(tokens=9),))),
    Setting("", "prices = []", Settings()),
    Setting("", "prices = [{read = 0, write = 1}]", own(read=0.0, write=1.0)),
    Setting(
        "",
        'prices = [{host = "*.A", model = "m", read = 0.1, write = 1, dollars_per_million = 3}]',
        own(host="*.A", model="m", read=0.1, write=1.0, dollars_per_million=3.0),
    ),
    Setting(".metrics", 'path = "m.jsonl"', Settings(metrics=MetricsSettings(path="m.jsonl"))),
    Setting(".metrics", "max_megabytes = 1", Settings(metrics=MetricsSettings(max_megabytes=1))),
    Setting(
        ".metrics", "quota_warning = false", Settings(metrics=MetricsSettings(quota_warning=False))
    ),
    Setting(".page", "enabled = false", Settings(page=PageSettings(enabled=False))),
    Setting(".page", "host = '::1'", Settings(page=PageSettings(host="::1"))),
    Setting(".page", "host = 'localhost'", Settings(page=PageSettings(host="localhost"))),
    Setting(
        ".redaction",
        'tool_names = ["Read_File."]',
        redaction(tool_names=("Read_File.",)),
    ),
    Setting(".redaction", "enabled = true", redaction(enabled=True)),
    Setting(
        ".reduction", "max_input_chars = 0", Settings(reduction=ReductionTable(max_input_chars=0))
    ),
    Setting(
        ".reduction",
        "observation_masking = false",
        Settings(reduction=ReductionTable(observation_masking=False)),
    ),
    Setting(".mcp", "max_chars = 9", Settings(mcp=McpTable(max_chars=9))),
    Setting(".hosts", 'only = ["A.example"]', Settings(hosts=HostSettings(only=("a.example",)))),
    Setting(".hosts", 'only = ["::1"]', Settings(hosts=HostSettings(only=("::1",)))),
    Setting(".schema1", "max_loss = 1", schema1(max_loss=1.0)),
    Setting(".schema1", "max_loss = 0.05", schema1(max_loss=0.05)),
    Setting(".websocket", 'mode = "http"', Settings(websocket=WebsocketSettings(mode="http"))),
    Setting(".websocket", 'mode = "pass"', Settings(websocket=WebsocketSettings(mode="pass"))),
    Setting(".websocket", 'mode = "auto"', Settings()),
    Setting(".hosts", "never = []", Settings(hosts=HostSettings(never=()))),
    Setting(".hosts", 'never = ["*.a", "b"]', Settings(hosts=HostSettings(never=("*.a", "b")))),
    Setting(".hosts", 'never_more = ["A.b"]', Settings(hosts=HostSettings(never_more=("a.b",)))),
    Setting(".schema1", "", Settings()),
    Setting("", "", Settings()),
]


@as_one_test
@pytest.mark.parametrize("given", SETTINGS, ids=lambda given: f"{given.table} {given.line}")
def test_a_setting(given: Setting) -> None:
    assert given.expected == parse(given.table, given.line)


class Mistake(NamedTuple):
    table: str
    line: str
    path: str
    problem: str = ""


MISTAKES = [
    Mistake(".schema1", 'enabled = "false"', ".schema1.enabled",
            "expected true or false, got a text"),
    Mistake(".schema1", 'enabled = "true"', ".schema1.enabled",
            "expected true or false, got a text"),
    Mistake(".schema1", "enabled = 1", ".schema1.enabled",
            "expected true or false, got a whole number"),
    Mistake(".schema1", 'window_turns = "8"', ".schema1.window_turns",
            "expected a whole number, got a text"),
    Mistake(".schema1", "window_turns = 8.0", ".schema1.window_turns",
            "expected a whole number, got a number"),
    Mistake(".schema1", "window_turns = true", ".schema1.window_turns",
            "expected a whole number, got true or false"),
    Mistake(".schema1", "window_turns = [8]", ".schema1.window_turns",
            "expected a whole number, got a list"),
    Mistake(".schema1", "window_turns = 2026-01-01", ".schema1.window_turns",
            "expected a whole number"),
    Mistake(".schema1", "keep_errors = 0", ".schema1.keep_errors",
            "expected true or false, got a whole number"),
    Mistake(".schema1", "keep_last_k_per_tool = false", ".schema1.keep_last_k_per_tool",
            "expected a whole number, got true or false"),
    Mistake(".schema1", 'keep_last_k_per_tool = ""', ".schema1.keep_last_k_per_tool",
            "expected a whole number, got a text"),
    Mistake(".schema1", "placeholder_template = 3", ".schema1.placeholder_template",
            "expected a text in quotes, got a whole number"),
    Mistake(".schema1", "placeholder_template = '{nope}'", ".schema1.placeholder_template",
            "unknown field {nope}"),
    Mistake(".schema1", "placeholder_template = ''", ".schema1.placeholder_template",
            "must not be blank"),
    Mistake(".schema1", "skip_if_not_shorter = 1", ".schema1.skip_if_not_shorter",
            "expected true or false"),
    Mistake(".schema1", "mask_text_parts = 'yes'", ".schema1.mask_text_parts",
            "expected true or false"),
    Mistake(".schema1", "error_words_max_chars = 1e3", ".schema1.error_words_max_chars",
            "expected a whole number, got a number"),
    Mistake(".schema1", "error_words_max_chars = -1", ".schema1.error_words_max_chars",
            "must be a number from 0 up"),
    Mistake(".schema1", "cache_pricing = 'cheap'", ".schema1.cache_pricing", "expected"),
    Mistake(".schema1", "cache_pricing = true", ".schema1.cache_pricing", "expected"),
    Mistake(".schema1", "cache_pricing = 0.1", ".schema1.cache_pricing", "expected"),
    Mistake(".schema1", "cache_pricing = []", ".schema1.cache_pricing", "expected"),
    Mistake(".schema1", "cache_pricing = [0.1]", ".schema1.cache_pricing", "expected"),
    Mistake(".schema1", "cache_pricing = [0.1, 1, 1]", ".schema1.cache_pricing", "expected"),
    Mistake(".schema1", "cache_pricing = ['0.1', 1]", ".schema1.cache_pricing[0]",
            "expected a number, got a text"),
    Mistake(".schema1", "cache_pricing = [0.1, true]", ".schema1.cache_pricing[1]",
            "expected a number, got true or false"),
    Mistake(".schema1", "cache_pricing = [-0.1, 1]", ".schema1.cache_pricing[0]", "from 0 up"),
    Mistake(".schema1", "cache_pricing = [0.1, nan]", ".schema1.cache_pricing[1]", "from 0 up"),
    Mistake(".schema1", "cache_pricing = [inf, 1]", ".schema1.cache_pricing[0]", "from 0 up"),
    Mistake(".schema1", f"cache_pricing = [1{'0' * 400}, 1]", ".schema1.cache_pricing[0]"),
    Mistake(".schema1", "price_steps = []", ".schema1.price_steps", "unknown key"),
    Mistake(".schema1", "assumed_prices = 'auto'", ".schema1.assumed_prices", "[read, write]"),
    Mistake(".schema1", "assumed_prices = [0.1]", ".schema1.assumed_prices", "[read, write]"),
    Mistake(".schema1", "assumed_prices = [0.1, -1]", ".schema1.assumed_prices[1]", "from 0 up"),
    Mistake(".hosts", "uncached = ['https://a']", ".hosts.uncached[0]", "without scheme"),
    Mistake("", "windows = 1", ".windows", "[[observation_masking.windows]]"),
    Mistake("", "windows = [{}]", ".windows[0].tokens", "missing"),
    Mistake("", "windows = [{tokens = 0}]", ".windows[0].tokens", "above 0"),
    Mistake("", "windows = [{tokens = 1.5}]", ".windows[0].tokens", "expected a whole number"),
    Mistake("", "windows = [{tokens = 1, host = 'a:1'}]", ".windows[0].host", "port"),
    Mistake("", "prices = 1", ".prices", "[[observation_masking.prices]]"),
    Mistake(".prices", "read = 1", ".prices", "[[observation_masking.prices]]"),
    Mistake("", "prices = [1]", ".prices[0]", "expected a table, got a whole number"),
    Mistake("", "prices = [{read = 1}]", ".prices[0].write", "missing"),
    Mistake("", "prices = [{write = 1}]", ".prices[0].read", "missing"),
    Mistake("", "prices = [{read = 1, write = 1, red = 1}]", ".prices[0].red", "'read'"),
    Mistake("", "prices = [{read = '1', write = 1}]", ".prices[0].read", "expected a number"),
    Mistake("", "prices = [{read = -1, write = 1}]", ".prices[0].read", "from 0 up"),
    Mistake("", "prices = [{read = nan, write = 1}]", ".prices[0].read", "from 0 up"),
    Mistake("", "prices = [{read = 0, write = 1e6}]", ".prices[0].write", "below 1e+06"),
    Mistake("", "prices = [{read = 0, write = 1, model = 1}]", ".prices[0].model",
            "expected a text in quotes"),
    Mistake("", "prices = [{read = 0, write = 1, host = 'a:1'}]", ".prices[0].host", "port"),
    Mistake("", "prices = [{read = 0, write = 1, dollars_per_million = -1}]",
            ".prices[0].dollars_per_million", "from 0 up"),
    Mistake(".schema1", "cache_read_ratio = 0.1", ".schema1.cache_read_ratio", "unknown key"),
    Mistake(".schema1", "max_loss = -0.1", ".schema1.max_loss", "must be a number from 0 up"),
    Mistake(".schema1", "bound_reasoning = 'no'", ".schema1.bound_reasoning",
            'expected "keep", "try" or "drop"'),
    Mistake(".memory", "enabled = 'on'", ".memory.enabled", 'expected true, false or "auto"'),
    Mistake(".page", "metrics = 1", ".page.metrics", 'expected true, false or "auto"'),
    Mistake("", "mode = 'of'", ".mode", 'expected "on", "observe" or "off"'),
    Mistake("", "mode = true", ".mode", 'expected "on", "observe" or "off"'),
    Mistake("", "modes = 'on'", ".modes", "did you mean 'mode'?"),
    Mistake("", "holdout_percent = -1", ".holdout_percent", "must be at least 0"),
    Mistake("", "holdout_percent = 100.1", ".holdout_percent", "must be at most 100"),
    Mistake("", "holdout_percent = nan", ".holdout_percent", "must be a finite number"),
    Mistake("", "holdout_percent = inf", ".holdout_percent", "must be a finite number"),
    Mistake("", "holdout_percent = '5'", ".holdout_percent", "expected a number, got a text"),
    Mistake("", "holdout_percent = true", ".holdout_percent",
            "expected a number, got true or false"),
    Mistake("", "holdout_salt = 1", ".holdout_salt",
            "expected a text in quotes, got a whole number"),
    Mistake(".schema1", "max_loss = nan", ".schema1.max_loss", "must be a number from 0 up"),
    Mistake(".schema1", "max_loss = '0'", ".schema1.max_loss", "expected a number, got a text"),
    Mistake(".schema1", f"max_loss = 1{'0' * 400}", ".schema1.max_loss",
            "must be a number from 0 up"),
    Mistake(".schema1", f"target_arguments = {'[' * 300}{']' * 300}",
            ".schema1.target_arguments[0]", "expected a text in quotes, got a list"),
    Mistake(".schema1", "window_turn = 3", ".schema1.window_turn", "did you mean 'window_turns'?"),
    Mistake(".schema1", "zzz = 3", ".schema1.zzz", "unknown key (known: enabled, window_turns"),
    Mistake(".schema1", "_ = 3", ".schema1._", "unknown key"),
    Mistake(".schema1", "Enabled = true", ".schema1.Enabled", "did you mean 'enabled'?"),
    Mistake(".schema1.window_turns", "x = 1", ".schema1.window_turns",
            "expected a whole number, got a table"),
    Mistake(".schema1.extra", "x = 1", ".schema1.extra", "unknown key"),
    Mistake(".metrics", "path = 3", ".metrics.path",
            "expected a text in quotes, got a whole number"),
    Mistake(".metrics", "path = 2026-01-01", ".metrics.path",
            "expected a text in quotes, got a date"),
    Mistake(".metrics", "path = 10:00:00", ".metrics.path",
            "expected a text in quotes, got a time"),
    Mistake("", "schema1 = 2026-01-01", ".schema1", "expected a table, got a date"),
    Mistake("", '"" = 1', ".", "unknown key (known: "),
    Mistake(".schema1", '"" = 1', ".schema1.", "unknown key (known: "),
    Mistake(".hosts", "only = 2026-01-01T00:00:00Z", ".hosts.only",
            "expected a list, got a datetime"),
    Mistake("", "prices = [{read = 1, write = 1, dollars_per_million = 2026-01-01}]",
            ".prices[0].dollars_per_million", "expected a number, got a date"),
    Mistake(".schema1", "cache_pricing = 2026-01-01", ".schema1.cache_pricing", "expected"),
    Mistake(".metrics", "max_megabytes = 0", ".metrics.max_megabytes", "must be at least 1"),
    Mistake(".page", "host = 'example.com'", ".page.host", "expected an IP address"),
    Mistake(".page", "port = -1", ".page.port", "must be at least 0"),
    Mistake(".page", "port = 65536", ".page.port", "must be at most 65535"),
    Mistake(".metrics", "max_megabytes = '50'", ".metrics.max_megabytes",
            "expected a whole number, got a text"),
    Mistake(".metrics", "file = ''", ".metrics.file", "unknown key"),
    Mistake(".redaction", "tool_names = 'a'", ".redaction.tool_names",
            "expected a list, got a text"),
    Mistake(".redaction", "tool_names = [1]", ".redaction.tool_names[0]",
            "expected a text in quotes, got a whole number"),
    Mistake(".redaction", "placeholder_template = '{x}'", ".redaction.placeholder_template", "x"),
    Mistake(".redaction", "tools = []", ".redaction.tools", "did you mean 'tool_names'?"),
    Mistake(".reduction", "enabled = 'false'", ".reduction.enabled",
            "expected true or false, got a text"),
    Mistake(".mcp", "head = 1", ".mcp.head", "unknown key"),
    Mistake(".websocket", "mode = 'h2'", ".websocket.mode", 'expected "auto", "pass" or "http"'),
    Mistake(".hosts", "only = 'a'", ".hosts.only", "expected a list, got a text"),
    Mistake(".hosts", "never = ['a', 3]", ".hosts.never[1]",
            "expected a text in quotes, got a whole number"),
    Mistake(".hosts", 'never = ["a", "https://b"]', ".hosts.never[1]", "expected a host name"),
    Mistake(".hosts", 'never_more = ["a:1"]', ".hosts.never_more[0]", "expected a host name"),
    Mistake(".hosts", 'only = ["a:443"]', ".hosts.only[0]", "expected a host name"),
    Mistake(".hosts", 'only = [""]', ".hosts.only[0]", "expected a host name"),
    Mistake(".hosts", 'only = ["a?"]', ".hosts.only[0]", "expected a host name"),
    Mistake(".hosts", "always = []", ".hosts.always", "unknown key"),
    Mistake(".schema2", "enabled = true", ".schema2", "did you mean 'schema1'?"),
    Mistake("", "enabled = true", ".enabled", "unknown key"),
    Mistake("", "window_turns = 4", ".window_turns", "did you mean 'schema1.window_turns'?"),
    Mistake("", "keep_tools = ['todo']", ".keep_tools",
            "did you mean 'schema1.keep_tools' or 'arrival.keep_tools'?"),
    Mistake("", "schema1 = true", ".schema1", "expected a table, got true or false"),
    Mistake("", "metrics = 'on'", ".metrics", "expected a table, got a text"),
    Mistake("", "hosts = []", ".hosts", "expected a table, got a list"),
]  # fmt: skip


@as_one_test
@pytest.mark.parametrize("given", MISTAKES, ids=lambda given: f"{given.table} {given.line[:40]}")
def test_a_mistake_is_an_error_that_names_the_key(given: Mistake) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(given.table, given.line)
    path = "observation_masking" + given.path
    assert path == caught.value.path
    assert str(caught.value).endswith(f" in '{path}'")
    assert given.problem in str(caught.value)


@pytest.mark.parametrize(
    "source",
    ["observation_masking = 3", "observation_masking = true", "[[observation_masking]]\nx = 1"],
)
def test_our_table_is_a_table(source: str) -> None:
    with pytest.raises(ConfigError, match=r"expected a table, got [\w ]+ in 'observation_masking'"):
        parse_settings(source.encode())


@as_one_test
@pytest.mark.parametrize(
    "source",
    [
        b"",
        b"# nothing",
        b"x = 1",
        b"[schema1]\nenabled = 'nonsense'",
        b"[tool.observation_masking.schema1]\nenabled = 3",
        b'["observation_masking.schema1"]\nenabled = 3',
        b"[Observation_Masking]\nenabled = 3",
        b"[providers.x]\nobservation_masking = 3",
    ],
)
def test_a_file_without_our_table_has_no_settings(source: bytes) -> None:
    assert parse_settings(source) is None


def test_other_tables_are_none_of_our_business() -> None:
    source = (
        b"x = 'y'\n[proxy]\nenabled = 3\n[observation_masking.schema1]\nwindow_turns = 5\n[z]\n"
    )
    assert schema1(window_turns=5) == parse_settings(source)


@as_one_test
@pytest.mark.parametrize(
    ("source", "problem"),
    [
        (b"[observation_masking", "not TOML"),
        (b"x = ", "not TOML"),
        (b"[a]\n[a]\n", "not TOML"),
        (b"x = 1\nx = 2\n", "not TOML"),
        (b"\xff\xfe", "not UTF-8"),
        ("x = 'é'".encode("latin-1"), "not UTF-8"),
        (b"x = " + b"9" * 5000, "not TOML"),
        (b"x = " + b"[" * 5000, "not TOML"),
        (b"x = " + b"[" * 5000 + b"]" * 5000, "not TOML"),
        (b"x" + b".x" * 5000 + b" = 1", "not TOML"),
    ],
    ids=lambda value: value[:20],
)
def test_what_is_no_toml(source: bytes, problem: str) -> None:
    with pytest.raises(ConfigError, match=f"^{problem}"):
        parse_settings(source)


def test_the_shipped_file_gives_every_key_the_value_that_it_has_when_left_out() -> None:
    assert Settings() == parse_settings(CONFIG.read_bytes())


def test_what_is_shipped_is_on_with_the_values_of_the_guide() -> None:
    expected = MaskPolicy(
        True, 8, True, 0, "[{tool_name}: {original_chars} chars masked]", skip_if_not_shorter=True,
        mask_text_parts=True, error_words_max_chars=2_000, bound_reasoning="try",
    )  # fmt: skip
    found = Settings()
    assert (expected, "auto", ()) == (found.policy, found.schema1.cache_pricing, found.hosts.only)
    assert "github.com" in found.hosts.never


def test_the_shipped_file_gives_what_people_set_with_a_comment() -> None:
    text = CONFIG.read_text("utf-8")
    # Left to clients, behind a sign, so that a copy of the file leaves it to them, too.
    given = [*list_given(text.replace("\n#window_turns = 8\n", "\nwindow_turns = 8\n"))]
    assert [*COMMON] == [*given, "prices"]
    assert "\n# [[observation_masking.prices]]\n" in text
    assert 3_500 > len(text)
    for before, line in itertools.pairwise(text.splitlines()):
        assert " = " not in line or line.startswith("#") or before.startswith("#")


def list_given(text: str) -> list[str]:
    """Return the settings that a file gives, in its order."""
    return [value.name for value in list_values(text.encode()) if value.source == "file"]


def test_a_file_with_every_setting_still_means_what_it_says() -> None:
    """As the shipped one had them, up to version 0.2, and as copies of it have them."""
    values = {value.name: value.value for value in list_values(b"[observation_masking]")}
    text = "".join(f"observation_masking.{name} = {dump_toml(v)}\n" for name, v in values.items())
    assert [*values] == list_given(text)
    assert Settings() == parse_settings(text.encode())


def test_settings_have_a_digest_of_all_but_where_the_records_go() -> None:
    shipped = Settings()
    assert 12 == len(shipped.digest)
    assert shipped.digest == Settings(metrics=MetricsSettings(path="elsewhere.jsonl")).digest
    others = [schema1(window_turns=5), own(read=0.1, write=1.0), Settings(price_list="newer.json")]
    assert 4 == len({shipped.digest, *(other.digest for other in others)})


def test_settings_have_a_digest_whose_placeholders_say_how_to_read_back() -> None:
    recalled = "[{original_chars} chars masked; obsmask recall {recall}]"
    kept, elsewhere = (
        Settings(
            schema1=Schema1Table(placeholder_template=recalled),
            recall=RecallSettings(enabled=True, folder=folder),
        )
        for folder in ("", "/elsewhere")
    )
    assert kept.digest == elsewhere.digest != Settings().digest


@as_one_test
@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("", False),
        ("arrival.enabled = true", True),
        ("schema1.provider_clearing = true", True),
        ("rules = [{ arrival = { enabled = true } }]", True),
        ("schema1.enabled = false\narrival.enabled = true", False),
        ("schema1 = { window_turns = 0, provider_clearing = true }", False),
        ('mode = "off"\narrival.enabled = true\nschema1.provider_clearing = true', False),
    ],
)
def test_what_changes_requests_whose_reasoning_is_bound(lines: str, expected: bool) -> None:
    settings = parse("", lines)
    assert settings is not None
    assert expected is settings.changes_bound


def test_settings_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Settings().mode = "observe"  # type: ignore[misc]


def test_all_that_is_said_of_prices_is_one_object() -> None:
    found = parse(".schema1", """
cache_pricing = [0.2, 1.0]
assumed_prices = [0.5, 1.0]
[observation_masking.hosts]
uncached = ["a"]
[[observation_masking.prices]]
read = 0.3
write = 1.0
[[observation_masking.windows]]
tokens = 9
""")  # fmt: skip
    assert found is not None
    assert found.price_settings == PriceSettings(
        (0.2, 1.0),
        own=(PriceTable(read=0.3, write=1.0),),
        uncached=("a",),
        assumed=(0.5, 1.0),
        windows=(WindowTable(tokens=9),),
    )
    assert PriceSettings() == Settings().price_settings


@pytest.mark.parametrize("value", ["true", "false", '"auto"'])
def test_a_memory_is_on_off_or_where_it_fits(value: str) -> None:
    found = parse_settings(f"[observation_masking.memory]\nenabled = {value}\n".encode())
    assert found is not None
    assert {"true": True, "false": False, '"auto"': "auto"}[value] == found.memory.enabled


@pytest.mark.parametrize("value", ['"on"', '"true"', "1", "[]"])
def test_a_memory_is_nothing_else(value: str) -> None:
    with pytest.raises(ConfigError, match=r"'observation_masking\.memory\.enabled'"):
        parse_settings(f"[observation_masking.memory]\nenabled = {value}\n".encode())


# Every value of a configuration, and where it comes from.


FILE = b"""
[observation_masking.schema1]
window_turns = 8
max_loss = 1
[observation_masking.hosts]
uncached = ["A.example."]
[[observation_masking.prices]]
read = 0.2
write = 1
"""


def find(name: str, *overrides: str, switch: str | None = None) -> ConfigValue:
    (found,) = (v for v in list_values(FILE, overrides, switch) if v.name == name)
    return found


@as_one_test
@pytest.mark.parametrize(
    ("name", "value", "shipped", "source"),
    [
        pytest.param("schema1.keep_errors", True, True, "shipped", id="left out"),
        pytest.param("schema1.window_turns", 8, 8, "file", id="set to the shipped value"),
        pytest.param("schema1.max_loss", 1.0, 0.1, "file", id="set to another"),
        pytest.param("hosts.uncached", ["a.example"], [], "file", id="in the form compared"),
        pytest.param(
            "prices",
            [{"host": "*", "model": "*", "read": 0.2, "write": 1.0, "dollars_per_million": None}],
            [],
            "file",
            id="tables",
        ),
    ],
)
def test_a_value_is_the_files_or_the_shipped_one(
    name: str, value: object, shipped: object, source: Source
) -> None:
    assert ConfigValue(name, value, shipped, source) == find(name)


@pytest.mark.parametrize("override", ["schema1.window_turns=4", "schema1={window_turns = 4}"])
def test_an_override_comes_before_the_file(override: str) -> None:
    assert ConfigValue("schema1.window_turns", 4, 8, "override") == find(
        "schema1.window_turns", override
    )
    assert "file" == find("schema1.max_loss", "schema1.window_turns=4").source


@pytest.mark.parametrize(("switch", "expected"), [("1", True), ("F", False), ("what", True)])
def test_the_environment_comes_before_an_override(switch: str, expected: bool) -> None:
    name, override = "redaction.enabled", "redaction.enabled=false"
    assert ConfigValue(name, expected, False, "environment") == find(name, override, switch=switch)
    assert ConfigValue(name, False, False, "override") == find(name, override)


def test_rules_have_what_they_say_and_no_more() -> None:
    rules = """
[[observation_masking.rules]]
header = "X-Team"
label = "a"
schema1 = { window_turns = 2 }
"""
    (found,) = (v for v in list_values(rules.encode()) if v.name == "rules")
    expected = [{"header": {"x-team": "*"}, "label": "a", "schema1": {"window_turns": 2}}]
    assert ConfigValue("rules", expected, [], "file") == found


def test_every_key_has_its_place() -> None:
    tables = json.loads(to_json(Tables()))
    assert [[]] * 3 == [tables.pop(name) for name in ("prices", "windows", "rules")]
    keys = [
        f"{name}.{key}" if isinstance(found, dict) else name
        for name, found in tables.items()
        for key in (found if isinstance(found, dict) else [name])
    ]
    values = list_values(CONFIG.read_bytes())
    assert [*keys, "prices", "windows", "rules"] == [value.name for value in values]
    assert [value.shipped for value in values] == [value.value for value in values]


def test_a_file_without_our_table_has_no_values() -> None:
    assert [] == list_values(b"x = 1")


# Settings given beside a file: how they are spelled, where they go, what a mistake says.


FIVE_TURNS = b"[observation_masking.schema1]\nwindow_turns = 5\nkeep_errors = false\n"


@as_one_test
@pytest.mark.parametrize(
    ("text", "keys", "value"),
    [
        pytest.param("schema1.window_turns=4", "schema1.window_turns", 4, id="a number"),
        pytest.param("schema1.max_loss=0.5", "schema1.max_loss", 0.5, id="a fraction"),
        pytest.param("mcp.enabled=true", "mcp.enabled", True, id="a boolean"),
        pytest.param("mcp.enabled=True", "mcp.enabled", "True", id="no boolean of TOML"),
        pytest.param('websocket.mode="http"', "websocket.mode", "http", id="a text"),
        pytest.param("websocket.mode=http", "websocket.mode", "http", id="a text without quotes"),
        pytest.param("metrics.path=", "metrics.path", "", id="nothing"),
        pytest.param("metrics.path=a=b", "metrics.path", "a=b", id="a second equals sign"),
        pytest.param('hosts.only=["a", "b"]', "hosts.only", ["a", "b"], id="a list"),
        pytest.param("hosts.only=[a]", "hosts.only", "[a]", id="no list of TOML"),
        pytest.param("prices=[{read = 0}]", "prices", [{"read": 0}], id="a list of tables"),
        pytest.param(" mcp.head = 1 # c", "mcp.head", 1, id="spaces and a comment"),
        pytest.param("mcp.head=1\nx = 2", "mcp.head", "1\nx = 2", id="a second line"),
        pytest.param(
            "hosts.only=['\udcc3\udcbc']", "hosts.only", ["ü"], id="bytes of another locale"
        ),
        pytest.param("mode=observe", "mode", "observe", id="a key without a table"),
        pytest.param(
            "observation_masking.schema1.min_chars=4", "schema1.min_chars", 4, id="the full name"
        ),
        pytest.param(
            "observation_masking.mode=observe",
            "mode",
            "observe",
            id="the same without a table",
        ),
        pytest.param(
            "reduction.observation_masking=false",
            "reduction.observation_masking",
            False,
            id="a key with the name of our table",
        ),
        pytest.param("a.b=" + "[" * 5000, "a.b", "[" * 5000, id="too deep"),
    ],
)
def test_an_override_is_a_line_of_toml(text: str, keys: str, value: object) -> None:
    assert (tuple(keys.split(".")), value) == read_override(text)


SIMPLE = st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text() | st.floats(allow_nan=False)


@given(SIMPLE | st.lists(SIMPLE) | st.lists(st.dictionaries(st.text(), SIMPLE), min_size=1))
def test_a_value_that_is_spelled_as_toml_comes_back(value: object) -> None:
    assert [value] == read_override(f"a.b={dump_toml([value])}").value


@as_one_test
@pytest.mark.parametrize("text", ["", "=", "=4", "schema1", "a b=4", "a..b=4", ".a=4", "ä=4"])
def test_what_is_no_override(text: str) -> None:
    with pytest.raises(OverrideError, match=r"^expected TABLE.KEY=VALUE"):
        read_override(text)


def test_a_long_override_is_not_repeated() -> None:
    with pytest.raises(OverrideError) as raised:
        read_override("secret" * 100)
    assert "secret" * 10 == raised.value.path


def test_an_override_in_bytes_that_are_no_utf_8_is_a_mistake() -> None:
    with pytest.raises(OverrideError, match=r"not UTF-8 in 'metrics.path'"):
        read_override("metrics.path=\udcff")


def test_overrides_leave_what_they_do_not_name_as_it_was() -> None:
    table = {"a": {"x": 1, "y": 2}, "b": 3}
    expected = {"a": {"x": 1, "y": 5}, "b": {"z": 6}, "c": 7}
    assert expected == apply_overrides(table, ["a.y=4", "a.y=5", "b.z=6", "c=7"])
    assert {"a": {"x": 1, "y": 2}, "b": 3} == table


def test_an_override_comes_before_what_the_file_sets() -> None:
    settings = parse_settings(FIVE_TURNS, ["schema1.window_turns=4", "websocket.mode=http"])
    assert settings is not None
    assert (4, False) == (settings.policy.window_turns, settings.policy.keep_errors)
    assert "http" == settings.websocket.mode


@as_one_test
@pytest.mark.parametrize(
    ("override", "path", "problem"),
    [
        ("schema1.window_turn=4", "schema1.window_turn", "unknown key (did you mean 'window_t"),
        ("schema2.window_turns=4", "schema2", "unknown key (did you mean 'schema1'?)"),
        ("window_turns=4", "window_turns", "unknown key (did you mean 'schema1.window_turns'?)"),
        ("enabled=true", "enabled", "unknown key (known: mode, "),
        (
            "schema1.window_turns=four",
            "schema1.window_turns",
            "expected a whole number, got a text",
        ),
        (
            "schema1.window_turns.x=4",
            "schema1.window_turns",
            "expected a whole number, got a table",
        ),
        ("schema1=4", "schema1", "expected a table, got a whole number"),
        ("schema1.max_loss=-1", "schema1.max_loss", "must be a number from 0 up"),
        ('hosts.never=["a", "b:1"]', "hosts.never[1]", "expected a host name"),
        ("nonsense", "nonsense", "expected TABLE.KEY=VALUE"),
    ],
)
def test_a_mistake_in_an_override_names_its_key(override: str, path: str, problem: str) -> None:
    with pytest.raises(OverrideError) as raised:
        parse_settings(FIVE_TURNS, [override])
    assert path == raised.value.path
    assert problem in str(raised.value)


def test_a_mistake_of_the_file_is_the_files_even_where_an_override_comes_before_it() -> None:
    with pytest.raises(ConfigError) as raised:
        parse_settings(FIVE_TURNS.replace(b"= 5", b"= '5'"), ["schema1.window_turns=4"])
    assert "observation_masking.schema1.window_turns" == raised.value.path


def test_overrides_do_not_make_a_file_ours() -> None:
    assert parse_settings(b"x = 1", ["schema1.window_turns=4"]) is None

"""Rules: which requests they fit, which settings hold for them, and what is no rule."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masking.config import (
    RequestFacts,
    Rule,
    Settings,
    change_everywhere,
    find_settings,
    find_shadowed,
    parse_settings,
)
from masking.errors import ConfigError, OverrideError
from tests.support.marks import as_one_test
from tests.support.places import CONFIG

FACTS = RequestFacts(
    "api.openai.com", "gpt-5", "/v1/chat/completions", "qwen-code", {"x-team": "blue 7"}
)
UNKNOWN = RequestFacts()


class Fit(NamedTuple):
    case: str
    rule: Mapping[str, Any]
    expected: bool = True
    facts: RequestFacts = FACTS


FITS = [
    Fit("nothing asked", {}),
    Fit("nothing asked, nothing known", {}, facts=UNKNOWN),
    Fit("the host", {"host": "api.openai.com"}),
    Fit("the host in another spelling", {"host": "API.OpenAI.com."}),
    Fit("a part of the host", {"host": "openai.com"}, False),
    Fit("hosts below a name", {"host": "*.openai.com"}),
    Fit("an unknown host", {"host": "*.openai.com"}, False, UNKNOWN),
    Fit("the model", {"model": "GPT-*"}),
    Fit("another model", {"model": "claude-*"}, False),
    Fit("an unknown model", {"model": "gpt-*"}, False, UNKNOWN),
    Fit("the path", {"path": "/v1/*"}),
    Fit("another path", {"path": "/v2/*"}, False),
    Fit("the path in another case", {"path": "/V1/*"}, False),
    Fit("the client", {"client": "qwen-*"}),
    Fit("another client", {"client": "codex*"}, False),
    Fit("an unknown client", {"client": "qwen*"}, False, UNKNOWN),
    Fit("a header that is there", {"headers": (("x-team", "*"),)}),
    Fit("a header that is not there", {"headers": (("x-project", "*"),)}, False),
    Fit("a header's value", {"headers": (("x-team", "blue*"),)}),
    Fit("another value", {"headers": (("x-team", "red*"),)}, False),
    Fit("an empty header is there", {"headers": (("x-a", "*"),)},
        facts=RequestFacts(headers={"x-a": ""})),
    Fit("all of several", {"host": "*.openai.com", "model": "gpt-5", "client": "qwen-code"}),
    Fit("all of several but one", {"host": "*.openai.com", "model": "gpt-4"}, False),
    Fit("all headers but one", {"headers": (("x-team", "*"), ("x-project", "*"))}, False),
]  # fmt: skip


@as_one_test
@pytest.mark.parametrize("fit", FITS, ids=lambda fit: fit.case)
def test_which_requests_a_rule_fits(fit: Fit) -> None:
    assert fit.expected == Rule(**fit.rule).fits(fit.facts)


@as_one_test
@pytest.mark.parametrize(
    "name",
    [
        *("authorization", "proxy-authorization", "cookie", "set-cookie", "x-api-key", "api-key"),
        *("x-goog-api-key", "apikey", "x-amz-security-token", "x-auth-request-user", "x-secret"),
        *("ocp-apim-subscription-key", "sec-websocket-key", "x-session-token", "x_api_key"),
    ],
)
def test_no_rule_asks_for_a_credential(name: str) -> None:
    with pytest.raises(ConfigError, match="may hold a credential") as caught:
        Rule(headers=((name, "*"),))
    assert f"header.{name}" == caught.value.path


@as_one_test
@pytest.mark.parametrize("name", ["x-team", "x-keyboard", "author", "x-monkey", "session-id"])
def test_other_headers_can_be_asked_for(name: str) -> None:
    assert Rule(headers=((name, "*"),)).fits(RequestFacts(headers={name: "x"}))


@as_one_test
@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        pytest.param([Rule(), Rule(model="a")], [(1, 0)], id="all before one"),
        pytest.param([Rule(model="a"), Rule()], [], id="one before all"),
        pytest.param([Rule(model="a"), Rule(model="b"), Rule(model="a", path="/x")], [(2, 0)],
                     id="one before a part of it"),
        pytest.param([Rule(headers=(("a", "*"),)), Rule()], [], id="a header before none"),
        pytest.param([Rule(headers=(("a", "*"),)), Rule(headers=(("b", "*"), ("a", "*")))],
                     [(1, 0)], id="a header before it and another"),
        pytest.param([], [], id="none"),
    ],
)  # fmt: skip
def test_a_rule_behind_one_that_fits_whatever_it_fits_never_holds(
    rules: list[Rule], expected: list[tuple[int, int]]
) -> None:
    assert expected == find_shadowed(rules)


# In a file.

FILE = b"""
[observation_masking.schema1]
window_turns = 6
keep_errors = false
[observation_masking.metrics]
path = "records.jsonl"

[[observation_masking.rules]]
model = "claude-*"
label = "claude"
schema1 = { window_turns = 2, keep_tools = ["todo"] }

[[observation_masking.rules]]
header = "X-Team"
label = "a team"
[observation_masking.rules.schema1]
enabled = false
[observation_masking.rules.redaction]
enabled = true
tool_names = ["fetch"]

[[observation_masking.rules]]
header = { x-team = "blue*", x-project = "one" }
"""


def read(data: bytes, *overrides: str) -> Settings:
    settings = parse_settings(data, overrides)
    assert settings is not None
    return settings


CLAUDE, TEAM = RequestFacts(model="claude-x"), RequestFacts(headers={"x-team": "red"})


def test_a_rules_keys_come_in_place_of_the_files_and_all_others_stay() -> None:
    found = find_settings(read(FILE), CLAUDE)
    assert ("claude", 2, ("todo",)) == (
        found.label, found.schema1.window_turns, found.schema1.keep_tools
    )  # fmt: skip
    assert (False, "records.jsonl", ()) == (
        found.schema1.keep_errors, found.metrics.path, found.rules
    )  # fmt: skip


def test_the_first_rule_that_fits_holds() -> None:
    both = RequestFacts(model="claude-x", headers={"x-team": "blue", "x-project": "one"})
    assert "claude" == find_settings(read(FILE), both).label
    found = find_settings(read(FILE), TEAM)
    assert ("a team", False, ("fetch",)) == (
        found.label, found.schema1.enabled, found.redaction.tool_names
    )  # fmt: skip


def test_a_request_that_no_rule_fits_has_the_files_own() -> None:
    settings = read(FILE)
    assert settings is find_settings(settings, FACTS._replace(headers={}))


def test_a_rule_can_observe_only() -> None:
    settings = read(b"[[observation_masking.rules]]\nmode = 'observe'\nholdout_percent = 20\n")
    found = find_settings(settings, CLAUDE)
    assert ("observe", 20, "on", 0) == (
        found.mode, found.holdout_percent, settings.mode, settings.holdout_percent
    )  # fmt: skip
    assert (True, False) == (settings.observes, read(FILE).observes)


def test_only_the_headers_that_rules_ask_for_are_wanted() -> None:
    assert {"x-team", "x-project"} == read(FILE).ruled_headers
    assert not Settings().ruled_headers


def test_what_is_given_beside_a_file_comes_before_its_rules() -> None:
    settings = read(FILE, "schema1.window_turns=9")
    assert 9 == find_settings(settings, CLAUDE).schema1.window_turns
    assert ("todo",) == find_settings(settings, CLAUDE).schema1.keep_tools


def test_rules_can_be_given_beside_a_file() -> None:
    settings = read(FILE, 'rules=[{label="x",schema1={window_turns=3}}]')
    assert ("x", 3) == (
        (found := find_settings(settings, CLAUDE)).label, found.schema1.window_turns
    )  # fmt: skip


OPENHANDS = RequestFacts("api.openai.com", "gpt-5", "/v1/chat/completions", "openhands")
RULES = b"""
[[observation_masking.rules]]
client = "qwen*"
[[observation_masking.rules]]
host = "api.openai.com"
label = "a team"
"""


@as_one_test
@pytest.mark.parametrize(
    ("text", "overrides", "expected"),
    [
        pytest.param(b"[observation_masking]", [], (36, ""), id="as shipped"),
        pytest.param(CONFIG.read_bytes(), [], (36, ""), id="a copy of the shipped file"),
        pytest.param(
            b"[observation_masking.schema1]\nwindow_turns = 8", [], (8, ""), id="the shipped value"
        ),
        pytest.param(
            b"[observation_masking]", ["schema1.window_turns=5"], (5, ""), id="an override"
        ),
        pytest.param(RULES, [], (36, "a team"), id="a rule of something else"),
        pytest.param(
            RULES + b"[observation_masking.rules.schema1]\nwindow_turns = 7", [], (7, "a team"),
            id="its rule",
        ),
        pytest.param(
            RULES + b"[observation_masking.schema1]\nwindow_turns = 9", [], (9, "a team"),
            id="the file under a rule",
        ),
        pytest.param(RULES, ["schema1.window_turns=3"], (3, "a team"), id="an override of a rule"),
        pytest.param(
            b"[observation_masking.schema1]\nkeep_errors = false", [], (36, ""),
            id="something else of the table",
        ),
    ],
)  # fmt: skip
def test_a_client_has_a_window_of_its_own_unless_a_user_has_set_one(
    text: bytes, overrides: list[str], expected: tuple[int, str]
) -> None:
    settings = read(text, *overrides)
    found = find_settings(settings, OPENHANDS)
    assert expected == (found.policy.window_turns, found.label)
    assert 36 == find_settings(Settings(), OPENHANDS).policy.window_turns
    other = find_settings(settings, OPENHANDS._replace(client="OpenAI/Python"))
    assert (expected[0] if expected[0] != 36 else 8) == other.policy.window_turns
    assert len(settings.by_rule) == (2 if b"rules" in text and text != CONFIG.read_bytes() else 0)


def test_what_changes_all_settings_changes_a_clients_own() -> None:
    changed = change_everywhere(read(RULES), lambda one: replace(one, price_list="a.json"))
    assert "a.json" == find_settings(changed, OPENHANDS).price_list
    off = read(b"[observation_masking]\nmode = 'off'")
    assert not find_settings(off, OPENHANDS).policy.enabled


def test_a_mistake_in_them_is_that_of_what_was_given() -> None:
    with pytest.raises(OverrideError) as caught:
        read(FILE, "rules=[{schema1={windw_turns=3}}]")
    assert "rules[0].schema1.windw_turns" == caught.value.path


def test_equal_settings_have_one_digest_whichever_rule_they_come_from() -> None:
    same = read(FILE.replace(b'"claude"', b'"other"').replace(b'"X-Team"', b'"X-Group"'))
    one, other = (find_settings(each, CLAUDE).digest for each in (read(FILE), same))
    assert one == other
    assert read(FILE).digest == read(FILE[: FILE.index(b"[[")]).digest
    assert 3 == len({one, read(FILE).digest, find_settings(read(FILE), TEAM).digest})


MISTAKES = [
    ("schema1 = {windw_turns = 3}", ".schema1.windw_turns", "did you mean 'window_turns'?"),
    ("schema1 = {window_turns = '3'}", ".schema1.window_turns",
     "expected a whole number, got a text"),
    ("schema1 = {placeholder_template = '{x}'}", ".schema1.placeholder_template", "{x}"),
    ("schema1 = {keep_tools = ['a', '']}", ".schema1.keep_tools[1]", "blank"),
    ("schema1 = {max_loss = -1}", ".schema1.max_loss", "from 0 up"),
    ("schema1 = {cache_pricing = [1]}", ".schema1.cache_pricing", "[read, write]"),
    ("mode = 'of'", ".mode", 'expected "on", "observe" or "off"'),
    ("holdout_percent = 101", ".holdout_percent", "at most 100"),
    ("holdout_salt = 'x'", ".holdout_salt", "whole proxy"),
    ("schema1 = {window_turns = 2026-01-01}", ".schema1.window_turns",
     "expected a whole number, got a date"),
    ("header = {x-a = '*', X-A = 'b'}", ".header", "named twice"),
    ("schema1 = 3", ".schema1", "expected a table, got a whole number"),
    ("redaction = {enabled = 'false'}", ".redaction.enabled", "expected true or false, got a text"),
    ("reduction = {x = 1}", ".reduction.x", "unknown key"),
    ("metrics = {path = 'x'}", ".metrics", "it holds for the whole proxy (a rule can set: mode"),
    ("hosts = {never = []}", ".hosts", "whole proxy"),
    ("rules = []", ".rules", "whole proxy"),
    ("window_turns = 3", ".window_turns", "did you mean 'schema1.window_turns'?"),
    ("schema1 = {x = {y = 1}}", ".schema1.x", "unknown key (known: enabled"),
    ("hist = 'a'", ".hist", "did you mean 'host'?"),
    ("host = 'https://a'", ".host", "without scheme"),
    ("host = 3", ".host", "expected a text in quotes, got a whole number"),
    ("model = ' '", ".model", "blank"),
    ("header = 'Cookie'", ".header.cookie", "credential"),
    ("header = {x-team = 'a', Authorization = '*'}", ".header.authorization", "credential"),
    ("header = {x-team = ''}", ".header.x-team", "blank"),
    ("header = {x-team = 3}", ".header.x-team", "expected a text in quotes, got a whole number"),
    ("header = {'a b' = '*'}", ".header.a b", "header's name"),
    ("header = ''", ".header.", "header's name"),
    ("header = ['x-team']", ".header", "a header's name, or a table"),
    ('label = "a\\u001b"', ".label", "one line"),
    (f"label = '{'x' * 65}'", ".label", "at most 64"),
]  # fmt: skip


@as_one_test
@pytest.mark.parametrize(("line", "path", "problem"), MISTAKES)
def test_a_mistake_in_a_rule_names_the_rule_and_the_key(line: str, path: str, problem: str) -> None:
    table = "[[observation_masking.rules]]\nlabel = 'right'\n[[observation_masking.rules]]\n"
    with pytest.raises(ConfigError) as caught:
        read(f"{table}{line}".encode())
    assert f"observation_masking.rules[1]{path}" == caught.value.path
    assert problem in caught.value.problem


@pytest.mark.parametrize("line", ["rules = 3", "rules = {host = 'a'}"])
def test_rules_are_a_list_of_tables(line: str) -> None:
    with pytest.raises(ConfigError, match=r"\[\[observation_masking\.rules\]\]"):
        read(f"[observation_masking]\n{line}".encode())


_facts = st.builds(
    RequestFacts,
    *(st.none() | st.text(max_size=9), st.none() | st.text(max_size=9), st.text(max_size=9)),
    *(st.none() | st.text(max_size=9), st.dictionaries(st.text(max_size=9), st.text(max_size=9))),
)


@given(facts=_facts)
def test_without_rules_every_request_has_the_files_own_settings(facts: RequestFacts) -> None:
    settings = read(FILE[: FILE.index(b"[[")])
    assert settings is find_settings(settings, facts)


@given(facts=_facts)
def test_a_rule_without_changes_changes_nothing(facts: RequestFacts) -> None:
    plain = read(FILE[: FILE.index(b"[[")])
    ruled = read(FILE[: FILE.index(b"[[")] + b"[[observation_masking.rules]]\n")
    assert plain == find_settings(ruled, facts)

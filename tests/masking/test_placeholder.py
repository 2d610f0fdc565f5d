from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masking.config import parse_settings
from masking.errors import ConfigError
from masking.tokens import TokenCounter, estimate_tokens
from masking.window import DEFAULT_TEMPLATE
from masking.window.placeholder import (
    DEFAULT_ARGUMENTS_CHARS,
    MAX_NAME_CHARS,
    RECALL_ID_CHARS,
    parse_template,
    recall_id,
)
from tests.support.builders import SECRET, TEMPLATE
from tests.support.marks import as_one_test
from tests.support.places import CONFIG


class Rendering(NamedTuple):
    case: str
    template: str
    expected: str
    call_id: str = "a"
    tool: str | None = "ls"
    arguments: object = None


RENDERINGS = [
    Rendering(
        "the built-in default",
        DEFAULT_TEMPLATE,
        "[Observation masquée: résultat d’outil ancien (tool_call_id=a, outil=ls, chars=12)]",  # noqa: RUF001
    ),
    Rendering("all fields", TEMPLATE, "<a|ls|12>"),
    Rendering("an unknown tool is inconnu", TEMPLATE, "<a|inconnu|12>", tool=None),
    Rendering("estimated tokens", "{original_tokens} of {original_chars}", "2 of 12"),
    Rendering("an id of 64", TEMPLATE, f"<{'i' * 64}|ls|12>", call_id="i" * 64),
    Rendering("a longer id is clipped", TEMPLATE, f"<{'i' * 64}|ls|12>", call_id="i" * 65),
    Rendering("a longer tool is clipped", TEMPLATE, f"<a|{'é' * 64}|12>", tool="é" * 900),
    Rendering("no field", "masked", "masked"),
    Rendering("only a field", "{original_chars}", "12"),
    Rendering("a field twice", "{tool_name}{tool_name} {original_chars}", "lsls 12"),
    Rendering("fields in any order", "{original_chars}{tool_name}{tool_call_id}", "12lsa"),
    Rendering("a value that is a field", TEMPLATE, "<{tool_name}|ls|12>", call_id="{tool_name}"),
    Rendering(
        "a tool named like a field", TEMPLATE, "<a|{original_chars}|12>", tool="{original_chars}"
    ),
    Rendering("a value with lone braces", TEMPLATE, "<}{|{0}|12>", call_id="}{", tool="{0}"),
    Rendering("lone braces are text", "}{ {", "}{ {"),
    Rendering(
        "a JSON template",
        '{"masked": true, "chars": {original_chars}}',
        '{"masked": true, "chars": 12}',
    ),
    Rendering("doubled braces are no escape", "{{tool_name}}", "{ls}"),
    Rendering("arguments", "{tool_name} {arguments}", 'ls {"p": 1}', arguments={"p": 1}),
    Rendering("no arguments", "{tool_name} {arguments}", "ls {}"),
    Rendering("arguments with a field", "{arguments}", "{recall} %s", arguments="{recall} %s"),
    Rendering("arguments are shortened", "{arguments}", "x" * 117 + "...", arguments="x" * 121),
    Rendering("a recall id", "recall {recall}", f"recall {recall_id('twelve chars')}"),
    Rendering("percent and dollar are text", "%s $tool_name \\1", "%s $tool_name \\1"),
]


@as_one_test
@pytest.mark.parametrize("given", RENDERINGS, ids=lambda given: given.case)
def test_render(given: Rendering) -> None:
    template = parse_template(given.template)
    rendered = template.render(given.call_id, given.tool, "twelve chars", given.arguments)
    assert given.expected == rendered


@as_one_test
@pytest.mark.parametrize(
    "field",
    [
        "{}",
        "{0}",
        "{chars}",
        "{TOOL_NAME}",
        "{ tool_name }",
        "{tool_name!r}",
        "{original_chars:>9}",
        "{tool_name.__class__}",
        "{tool_name[0]}",
        "{tool_call_id.__init__.__globals__}",
    ],
)
@pytest.mark.parametrize("around", ["%s", "text {tool_name} %s text"])
def test_an_unknown_field_is_a_configuration_error(field: str, around: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_template(around % field)
    assert caught.value.path == "placeholder_template"
    assert field in str(caught.value)


@pytest.mark.parametrize("template", ["", " ", "\n\t\u3000"])
def test_a_blank_template_would_empty_a_message(template: str) -> None:
    with pytest.raises(ConfigError, match=r"must not be blank in 'placeholder_template'"):
        parse_template(template)


def test_the_error_repeats_no_more_than_the_field() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_template(SECRET + "{nope}")
    assert SECRET not in str(caught.value)


class Recognition(NamedTuple):
    case: str
    template: str
    text: str
    expected: bool
    call_id: str = "a"
    tool: str | None = "ls"
    arguments: object = None


RECOGNITIONS = [
    Recognition("its own", TEMPLATE, "<a|ls|12>", True),
    Recognition("any number", TEMPLATE, "<a|ls|128000>", True),
    Recognition("nought", TEMPLATE, "<a|ls|0>", True),
    Recognition("unknown tool", TEMPLATE, "<a|inconnu|3>", True, tool=None),
    Recognition("another id", TEMPLATE, "<b|ls|12>", False),
    Recognition("a longer id", TEMPLATE, "<aa|ls|12>", False),
    Recognition("another tool", TEMPLATE, "<a|cat|12>", False),
    Recognition("no number", TEMPLATE, "<a|ls|>", False),
    Recognition("no digits", TEMPLATE, "<a|ls|x>", False),
    Recognition("a negative number", TEMPLATE, "<a|ls|-1>", False),
    Recognition("a leading zero", TEMPLATE, "<a|ls|012>", False),
    Recognition("other digits", TEMPLATE, "<a|ls|\u0661\u0662>", False),
    Recognition("text after it", TEMPLATE, "<a|ls|12> ", False),
    Recognition("text before it", TEMPLATE, " <a|ls|12>", False),
    Recognition("cut short", TEMPLATE, "<a|ls|12", False),
    Recognition("the template itself", TEMPLATE, TEMPLATE, False),
    Recognition("empty text", TEMPLATE, "", False),
    Recognition("no field", "masked", "masked", True),
    Recognition("no field, more digits", "masked", "masked1", False),
    Recognition("no count", "{tool_name}:", "ls:", True),
    Recognition("a digit after the count", "{original_chars}0", "120", True),
    Recognition("only that digit", "{original_chars}0", "0", False),
    Recognition("a digit before the count", "1{original_chars}", "12", True),
    Recognition("digits of the id beside the count", "{tool_call_id}{original_chars}", "7712",
                True, call_id="77"),
    Recognition("a tool of digits after the count", "{original_chars}{tool_name}", "1299",
                True, tool="99"),
    Recognition("the count twice", "{original_chars}/{original_chars}", "12/12", True),
    Recognition("two counts that differ", "{original_chars}/{original_chars}", "12/13", False),
    Recognition("two counts side by side", "{original_chars}{original_chars}", "1212", True),
    Recognition("two that differ", "{original_chars}{original_chars}", "1213", False),
    Recognition("tokens", "{original_tokens} tokens", "7 tokens", True),
    Recognition("tokens and chars", "{original_tokens}/{original_chars}", "3/12", True),
    Recognition("side by side", "{original_tokens}{original_chars}{original_tokens}", "3123",
                True),
    Recognition("side by side, two that differ",
                "{original_tokens}{original_chars}{original_tokens}", "3124", False),
    Recognition("one of two is missing", "{original_tokens}/{original_chars}", "3/", False),
    Recognition("a nought before a digit", "{original_tokens}{original_chars}", "012", True),
    Recognition("more digits than any text has", TEMPLATE, f"<a|ls|{'1' * 21}>", False),
    Recognition("a clipped id", TEMPLATE, f"<{'i' * 64}|ls|1>", True, call_id="i" * 900),
    Recognition("a clipped tool", TEMPLATE, f"<a|{'t' * 64}|1>", True, tool="t" * 900),
    Recognition("an id that was not clipped", TEMPLATE, f"<{'i' * 65}|ls|1>", False,
                call_id="i" * 65),
    Recognition("an id with braces", TEMPLATE, "<{tool_name}|ls|12>", True, call_id="{tool_name}"),
    Recognition("an id with a pattern's characters", TEMPLATE, "<a.*|ls|12>", True, call_id="a.*"),
    Recognition("its arguments", "<{arguments}>", "<ls -l>", True, arguments="ls -l"),
    Recognition("other arguments", "<{arguments}>", "<ls>", False, arguments="ls -l"),
    Recognition("arguments with a field", "{arguments}/{original_chars}", "{recall}/1", True,
                arguments="{recall}"),
    Recognition("any recall id", "<{recall}>", "<0123456789abcdef>", True),
    Recognition("no recall id", "<{recall}>", "<0123456789ABCDEF>", False),
    Recognition("a recall id that is cut short", "<{recall}>", "<0123456789abcde>", False),
    Recognition("a recall id twice", "{recall}{recall}", "0123456789abcdef" * 2, True),
    Recognition("two recall ids that differ", "{recall} {recall}",
                "0123456789abcdef 1123456789abcdef", False),
    Recognition("a number beside a recall id", "{original_chars}{recall}", "70123456789abcdef",
                True),
    Recognition("an id is no pattern", TEMPLATE, "<abc|ls|12>", False, call_id="a.*"),
]  # fmt: skip


@as_one_test
@pytest.mark.parametrize("given", RECOGNITIONS, ids=lambda given: given.case)
def test_recognises_what_it_could_have_rendered(given: Recognition) -> None:
    template = parse_template(given.template)
    assert given.expected == template.could_have_rendered(
        given.text, given.call_id, given.tool, given.arguments
    )


def test_the_shipped_template_is_short() -> None:
    shipped = parse_settings(CONFIG.read_bytes())
    assert shipped is not None
    template = parse_template(shipped.schema1.placeholder_template)
    assert template == parse_template(shipped.redaction.placeholder_template)
    placeholder = template.render("call_1", "read_file", "x" * 128_000)
    assert placeholder.isascii()
    assert TokenCounter().count(placeholder) <= 10
    assert estimate_tokens(placeholder) <= 11


@given(
    st.sampled_from(["<{tool_call_id}|{original_tokens}|{tool_name}|{original_chars}>",
                     "{original_tokens}{original_chars}0{tool_name}", DEFAULT_TEMPLATE,
                     "{arguments}{recall}{original_chars}{recall}"]),
    st.text(max_size=200),
    st.none() | st.text(min_size=1, max_size=200),
    st.text(max_size=2_000),
    st.none() | st.text() | st.dictionaries(st.text(), st.text() | st.integers()),
)  # fmt: skip
def test_it_recognises_all_that_it_renders_and_none_is_long(
    written: str, call_id: str, tool: str | None, text: str, arguments: object
) -> None:
    template = parse_template(written)
    placeholder = template.render(call_id, tool, text, arguments)
    assert template.could_have_rendered(placeholder, call_id, tool, arguments)
    assert not template.could_have_rendered(f"{placeholder}.", call_id, tool, arguments)
    names, recalled = 2 * MAX_NAME_CHARS + DEFAULT_ARGUMENTS_CHARS, 2 * RECALL_ID_CHARS
    assert len(placeholder) <= len(written) + names + recalled + 2 * len(str(len(text)))

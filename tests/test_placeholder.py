from typing import NamedTuple

import pytest

from masking.model import ConfigError
from masking.placeholder import parse_template
from masking.policy import DEFAULT_TEMPLATE
from tests.builders import SECRET, TEMPLATE


class Rendering(NamedTuple):
    case: str
    template: str
    expected: str
    call_id: str = "a"
    tool: str | None = "ls"


RENDERINGS = [
    Rendering(
        "the built-in default",
        DEFAULT_TEMPLATE,
        "[Observation masquée: résultat d’outil ancien (tool_call_id=a, outil=ls, chars=12)]",  # noqa: RUF001
    ),
    Rendering("all fields", TEMPLATE, "<a|ls|12>"),
    Rendering("an unknown tool is inconnu", TEMPLATE, "<a|inconnu|12>", tool=None),
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
    Rendering("percent and dollar are text", "%s $tool_name \\1", "%s $tool_name \\1"),
]


@pytest.mark.parametrize("given", RENDERINGS, ids=lambda given: given.case)
def test_render(given: Rendering) -> None:
    template = parse_template(given.template)
    assert given.expected == template.render(given.call_id, given.tool, 12)


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
    Recognition("an id with braces", TEMPLATE, "<{tool_name}|ls|12>", True, call_id="{tool_name}"),
    Recognition("an id with a pattern's characters", TEMPLATE, "<a.*|ls|12>", True, call_id="a.*"),
    Recognition("an id is no pattern", TEMPLATE, "<abc|ls|12>", False, call_id="a.*"),
]  # fmt: skip


@pytest.mark.parametrize("given", RECOGNITIONS, ids=lambda given: given.case)
def test_recognises_what_it_could_have_rendered(given: Recognition) -> None:
    template = parse_template(given.template)
    assert given.expected == template.could_have_rendered(given.text, given.call_id, given.tool)

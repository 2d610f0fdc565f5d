"""Chapter 5: what stands in a result's place."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from masking import ConfigError, MaskPolicy, find_format, mask_old_tool_results, rewrite_request
from masking.config import parse_settings
from masking.tokens import estimate_tokens
from masking.window import recall_id
from tests.spec.talk import IN_FORMATS_WITH_IDS, OUTPUT, SHORT, mask
from tests.support.builders import assistant, call, result
from tests.support.marks import as_one_test
from tests.support.places import CONFIG
from tests.support.wire_conversations import User, Writer, spell, turn, turns


def render(
    template: str, text: str = OUTPUT, *, call_id: str = "call_1", tool: object = "shell"
) -> object:
    """Return the placeholder of a Chat Completions result, with the arguments `{"path": "a"}`."""
    messages = [assistant(call(call_id, tool, "a")), result(call_id, text), assistant(call("z"))]
    return mask_old_tool_results(messages, replace(SHORT, placeholder_template=template))[1][
        "content"
    ]


def test_the_librarys_placeholder_is_that_of_the_tech_spec() -> None:
    expected = (
        "[Observation masquée: résultat d’outil ancien "  # noqa: RUF001
        "(tool_call_id=call_1, outil=shell, chars=600)]"
    )
    assert expected == render(MaskPolicy().placeholder_template)


def test_the_shipped_placeholder_is_ascii_and_takes_about_ten_tokens() -> None:
    settings = parse_settings(CONFIG.read_bytes())
    assert settings is not None
    found = str(render(settings.policy.placeholder_template))
    assert "[shell: 600 chars masked]" == found
    assert found.isascii()
    assert estimate_tokens(found) <= 10


@as_one_test
@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{tool_call_id}", "call_1"),
        ("{tool_name}", "shell"),
        ("{original_chars}", "600"),
        ("{original_tokens}", str(estimate_tokens(OUTPUT))),
        ("{arguments}", '{"path": "a"}'),
        ("{recall}", recall_id(OUTPUT)),
        ("{tool_name} {tool_name} 100%", "shell shell 100%"),
    ],
)
def test_a_template_has_these_fields(template: str, expected: str) -> None:
    assert expected == render(template)


@as_one_test
@pytest.mark.parametrize(
    ("template", "result", "expected"),
    [
        pytest.param(
            "{original_chars}", {"text": "é😀e\u0301"}, "4", id="a length is in code points"
        ),
        pytest.param("{tool_name}", {"tool": None}, "inconnu", id="a tool without a name"),
        pytest.param("{tool_name}", {"tool": "n" * 99}, "n" * 64, id="a name is clipped"),
        pytest.param("{tool_call_id}", {"call_id": "i" * 99}, "i" * 64, id="an id is clipped"),
        pytest.param("{tool_name}", {"tool": "{recall}%s"}, "{recall}%s", id="no field in a field"),
    ],
)
def test_what_a_field_is_filled_with(template: str, result: dict[str, Any], expected: str) -> None:
    """Nothing that a client sends can make a placeholder grow without bound."""
    assert expected == render(template, **result)


@as_one_test
@pytest.mark.parametrize(
    "template",
    ["{unknown}", "{tool_name.__class__}", "{tool_name[0]}", "{tool_name!r}", "{}", "{0}", "", " "],
)
def test_an_unknown_field_or_a_blank_template_is_a_configuration_error(template: str) -> None:
    with pytest.raises(ConfigError, match="placeholder_template"):
        MaskPolicy(placeholder_template=template)


@IN_FORMATS_WITH_IDS
def test_a_name_of_any_characters_is_written_as_json(writer: Writer) -> None:
    name = 'é "\\" 😀'
    told = writer.tell(User(), *turn(name, OUTPUT, name), *turns(1))
    assert spell(f"<{name} {name} 600>").encode() in mask(told, SHORT).body


def test_a_trailing_reminder_stays_and_chars_count_what_is_replaced() -> None:
    """claude-code puts reminders of its own behind what a tool has printed."""
    reminder = "\n\n<system-reminder>\nStay on task.\n</system-reminder>"
    match = find_format("POST", "/v1/messages")
    assert match is not None

    def tell(content: str) -> str:
        results: list[Mapping[str, Any]] = []
        for call_id, text in (("a", content), ("b", "ok")):
            use = {"type": "tool_use", "id": call_id, "name": "shell", "input": {}}
            given = {"type": "tool_result", "tool_use_id": call_id, "content": text}
            results += [
                {"role": "assistant", "content": [use]},
                {"role": "user", "content": [given]},
            ]
        return spell({"messages": results})

    body = rewrite_request(tell(OUTPUT.rstrip() + reminder).encode(), SHORT, match.wire).body
    assert tell(f"<a shell 599>{reminder}") == body.decode()

"""What is said of recall when a proxy starts."""

import pytest

from addon.metrics.advice import Advice
from addon.shared.state_lines import render_recall
from masking.config import parse_settings

NAMED = "[observation_masking.schema1]\nplaceholder_template = '<{recall}>'\n"
ON = "[observation_masking.recall]\nenabled = true\nfolder = '/srv/recall'\n"
KEPT = "what is masked is kept, content and all, in /srv/recall"
UNNAMED = (
    ", but no placeholder has its id. This one has: obsmask config set recall.enabled=true "
    "'schema1.placeholder_template=[{tool_name}: {original_chars} chars masked; to read: "
    "obsmask recall {recall}]'"
)
RULE = "[[observation_masking.rules]]\nhost = 'a'\n[observation_masking.rules.schema1]\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("[observation_masking]", None, id="off, as shipped"),
        pytest.param(f"{NAMED}{ON}", KEPT, id="the placeholder tells the id"),
        pytest.param(ON, KEPT + UNNAMED, id="no placeholder does"),
        pytest.param(f"{ON}{RULE}placeholder_template = '{{recall}}'", KEPT, id="a rule's does"),
        pytest.param(f"{ON}[observation_masking.schema1]\nenabled = false", None, id="unmasked"),
        pytest.param(f"[observation_masking]\nmode = 'observe'\n{ON}", None, id="observed"),
        pytest.param(
            ON.replace("/srv", "~nobody-of-this-name") + NAMED,
            KEPT.replace("/srv", "~nobody-of-this-name"),
            id="a home that is not there",
        ),
    ],
)
def test_the_start_says_where_content_is_kept(text: str, expected: str | None) -> None:
    settings = parse_settings(text.encode())
    assert settings is not None
    assert expected == render_recall(settings, Advice())


def test_without_a_home_it_is_said_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", _find_nobody)
    settings = parse_settings((NAMED + ON.replace("/srv/recall", "")).encode())
    assert settings is not None
    expected = KEPT.replace("/srv/recall", "the user's state directory")
    assert expected == render_recall(settings, Advice())


def _find_nobody(_: int) -> None:
    raise KeyError("uid not found")

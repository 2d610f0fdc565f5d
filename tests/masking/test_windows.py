"""How many tokens a model takes, and whether a prompt fits."""

import json
from pathlib import Path

import pytest

from masking.prices import OwnWindow, PriceSettings, find_pricing, find_window, fits_window

OPEN_AI, ANTHROPIC = "api.openai.com", "api.anthropic.com"


@pytest.mark.parametrize(
    ("host", "model", "expected"),
    [
        pytest.param(OPEN_AI, "gpt-5", 400_000, id="a listed host and model"),
        pytest.param(ANTHROPIC, "claude-sonnet-4-5-20250929", 200_000, id="a dated model"),
        pytest.param("localhost", "gpt-4o", 128_000, id="another host: its maker's"),
        pytest.param(None, "claude-opus-4-8", 1_000_000, id="no host: its maker's"),
        pytest.param(
            "gateway.test", "openrouter/openai/gpt-5-high", 400_000, id="a name with parts added"
        ),
        pytest.param(OPEN_AI, "tts-1", None, id="a listed model without a window"),
        pytest.param("localhost", "no-such-model", None, id="a model of nobody"),
        pytest.param(OPEN_AI, "", None, id="an empty name"),
        pytest.param(OPEN_AI, None, None, id="no name"),
    ],
)
def test_a_window_is_found_by_host_and_model_or_else_by_the_models_maker(
    host: str | None, model: str | None, expected: int | None
) -> None:
    assert expected == find_window(host, model)
    assert expected == find_pricing(PriceSettings(), host, model).window


def test_what_costs_nothing_has_a_window_and_a_list_of_ones_own_holds(tmp_path: Path) -> None:
    model = {"id": "m", "match": {"equals": "m"}, "input": 0, "window": 32_000}
    shop = {"id": "s", "name": "S", "api_pattern": "https://shop", "models": [model]}
    path = tmp_path / "prices.json"
    path.write_text(json.dumps({"date": "2026-11-22", "source": "a test", "providers": [shop]}))
    settings = PriceSettings(price_list=str(path))
    assert 32_000 == find_window("shop.test", "m", settings)
    assert None is find_window(OPEN_AI, "gpt-5", settings)


@pytest.mark.parametrize(
    ("host", "model", "expected"),
    [
        pytest.param("localhost", "qwen3-coder", 32_768, id="by the model"),
        pytest.param("127.0.0.1", "gpt-5", 9_000, id="by the host"),
        pytest.param("127.0.0.1", None, 9_000, id="by the host alone"),
        pytest.param("localhost", "gpt-5", 400_000, id="neither"),
        pytest.param(None, None, None, id="nothing is known"),
    ],
)
def test_what_a_user_says_of_windows_comes_first(
    host: str | None, model: str | None, expected: int | None
) -> None:
    windows = (OwnWindow(model="Qwen3*", tokens=32_768), OwnWindow(host="127.*", tokens=9_000))
    settings = PriceSettings(windows=windows)
    assert expected == find_window(host, model, settings)
    assert expected == find_pricing(settings, host, model).window


@pytest.mark.parametrize(
    ("tokens", "window", "counted", "expected"),
    [
        pytest.param(60_000, 100_000, False, True, id="estimated, three fifths"),
        pytest.param(60_001, 100_000, False, False, id="estimated, and more"),
        pytest.param(66_666, 100_000, True, True, id="counted, two thirds"),
        pytest.param(66_667, 100_000, True, False, id="counted, and more"),
        pytest.param(1e9, None, False, True, id="a window that is not known"),
        pytest.param(0, 1, False, True, id="nothing"),
    ],
)
def test_a_prompt_fits_that_leaves_room_for_the_answer(
    tokens: float, window: int | None, counted: bool, expected: bool
) -> None:
    assert expected == fits_window(tokens, window, counted=counted)

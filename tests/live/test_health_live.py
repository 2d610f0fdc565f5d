"""The proxy answers by its own name, and what is asked there goes nowhere."""

import json
from collections.abc import Iterator

import httpx
import pytest

from addon.commands.main import main
from addon.network import Address
from addon.proxy.health import Health, check_health
from tests.live.harness import (
    ON,
    SECONDS,
    Live,
    Upstream,
    answer,
    conversation,
    encoded,
    eventually,
    running_addon,
    waits_for_records,
)
from tests.support.page_parts import say

HEALTH = "http://obsmask.test/health"


@pytest.fixture(scope="module")
def live(upstream: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    folder = tmp_path_factory.mktemp("live")
    with running_addon(folder, upstream, *waits_for_records(folder), config=ON) as live:
        yield live


def test_it_says_what_it_does_and_where_its_records_are(live: Live) -> None:
    with live.client() as client:
        said = client.get(HEALTH).json()
    assert said["is_masking"] is True
    assert f"({said['config']})" in said["state"]
    assert said["config"] == str(live.folder / "config.toml")
    assert said["records"] == str(live.folder / "state/observation-masking/requests.jsonl")
    assert len(said["run"]) == 8
    assert said["state"] in live.proxy.log
    assert check_health(Address("127.0.0.1", live.proxy.port), SECONDS) == Health.model_validate(
        said
    )


def test_a_shell_is_led_to_a_proxy_that_answers(
    live: Live, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(live.folder))
    monkeypatch.setenv("XDG_DATA_HOME", str(live.folder / "data"))
    assert main(["env", "--proxy", live.proxy.url]) == 0
    assert f"export HTTPS_PROXY={live.proxy.url}" in capsys.readouterr().out.splitlines()


def test_all_that_came_to_its_end_is_recorded_when_it_answers(live: Live) -> None:
    for place in range(5):
        live.sink.answers[path := f"/health/{place}/chat/completions"] = answer()
        live.send(path, encoded(conversation()))
        with live.client() as client:
            client.get(HEALTH)
        assert path in [record["path"] for record in live.records()]


def test_its_page_is_led_to_and_shows_what_has_passed(
    live: Live, capsys: pytest.CaptureFixture[str]
) -> None:
    live.sink.answers[path := "/page/chat/completions"] = answer()
    live.send(path, encoded(conversation()))
    with live.client() as client:
        page = client.get(HEALTH).json()["page"]
        led = client.get("http://obsmask.test/")
    assert (307, page) == (led.status_code, led.headers["location"])
    eventually(lambda: f"page: {page}" in live.proxy.log or None)
    with httpx.stream("GET", f"{page}events", trust_env=False) as events:
        told = json.loads(next(events.iter_lines()).removeprefix("data: "))
    address = live.proxy.url.removeprefix("http://")
    assert f"obsmask run --proxy {address} -- claude" == told["texts"]["command"]
    (shown,) = [say(each["cells"][0]) for each in told["conversations"]]
    assert [] == [name for name in ("python-httpx", "gpt-4o", "localhost") if name not in shown]
    assert 0 == main(["page", "--print", "--proxy", live.proxy.url])
    assert f"{page}\n" == capsys.readouterr().out


def test_whom_a_request_is_sent_to_counts_and_not_its_host_header(live: Live) -> None:
    live.sink.answers["/health"] = answer(b'"of the server"')
    with live.client() as client:
        ours = client.get(HEALTH, headers={"host": "evil.example"})
        theirs = client.get(live.sink.url("/health"), headers={"host": "obsmask.test"})
    assert (200, True) == (ours.status_code, "run" in ours.json())
    assert "nosniff" == ours.headers["x-content-type-options"]
    assert "of the server" == theirs.json()


@pytest.mark.parametrize(
    ("method", "url", "status"),
    [
        ("HEAD", HEALTH, 200),
        ("GET", "http://OBSMASK.test./health?of=it", 200),
        ("POST", HEALTH, 405),
        ("GET", "http://obsmask.test/", 307),
        ("GET", "http://obsmask.test/nowhere", 404),
        ("POST", "http://obsmask.test/v1/chat/completions", 404),
        ("GET", "http://obsmask.test:8443/health", 200),
    ],
)
def test_whatever_is_asked_there_is_answered_by_the_proxy(
    live: Live, method: str, url: str, status: int
) -> None:
    with live.client() as client:
        assert client.request(method, url).status_code == status

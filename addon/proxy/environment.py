"""The variables by which clients find the proxy and trust it."""

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

from addon.agents import AGENTS
from addon.network import DEFAULT_URL, LOOPBACK_NAMES, reach

_DIRECT = ",".join(LOOPBACK_NAMES)
"""What clients reach without the proxy: their own machine, as without us."""

PROXY_VARIABLES = ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy")
"""In both spellings, because clients differ in which one they prefer, or read at all."""

OTHER_PROXY_VARIABLES = ("ALL_PROXY", "all_proxy")
"""Clients read them after the others, and so they are replaced only where they are set."""

DIRECT_VARIABLES = ("NO_PROXY", "no_proxy")

CA_VARIABLES = tuple(
    dict.fromkeys(
        (
            *("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"),
            *(name for agent in AGENTS for name in agent.authorities),
            *("GIT_SSL_CAINFO", "AWS_CA_BUNDLE", "DENO_CERT"),
        )
    )
)
"""Those of runtimes and tools that agents start, and of agents themselves."""

OTHER_CA_VARIABLES = (
    *("PIP_CERT", "CARGO_HTTP_CAINFO", "NPM_CONFIG_CAFILE", "npm_config_cafile"),
    *("NIX_SSL_CERT_FILE", "HTTPLIB2_CA_CERTS", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"),
    "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE",
)
"""Programs read them instead of one of those above, and so they are replaced where they are set."""

CA_FOLDERS_VARIABLE = "SSL_CERT_DIR"

REPLACED = "OBSMASK_REPLACED"
"""Holds, as JSON, what the other variables were before, so that they can be taken back: null for
those that were not there, where they are not always set."""

WGET_VARIABLE = "SYSTEM_WGETRC"
"""Debian's wget is built with GnuTLS, and reads no authorities but those in its settings."""

_NODE_SWITCH = "NODE_USE_ENV_PROXY"
_ALWAYS = (*PROXY_VARIABLES, *DIRECT_VARIABLES, *CA_VARIABLES, WGET_VARIABLE, _NODE_SWITCH)
_WHERE_SET = (*OTHER_PROXY_VARIABLES, *OTHER_CA_VARIABLES)
_NOTHING: Mapping[str, str] = MappingProxyType({})


def client_environment(
    url: str,
    bundle: Path,
    before: Mapping[str, str] = _NOTHING,
    changes: Mapping[str, str] = _NOTHING,
) -> dict[str, str]:
    """Return the variables by which the known clients find the proxy and trust its CA.

    `before` is the environment that they are added to. None of them changes what a client says
    about itself, but for `changes`, which are set and taken back with them.
    """
    others = [name for name in OTHER_PROXY_VARIABLES if before.get(name)]
    other_bundles = [name for name in OTHER_CA_VARIABLES if before.get(name)]
    variables = {
        **dict.fromkeys((*PROXY_VARIABLES, *others), url),
        **dict.fromkeys(DIRECT_VARIABLES, _DIRECT),
        **dict.fromkeys((*CA_VARIABLES, *other_bundles), str(bundle)),
        WGET_VARIABLE: str(wgetrc_beside(bundle)),
        _NODE_SWITCH: "1",
        **changes,
    }
    # Where our variables are set already, those that are always set are ours: what they replaced
    # the first time counts.
    names = _WHERE_SET if REPLACED in before else tuple(variables)
    replaced = {
        **values_before(names, before),
        **{name: before.get(name) for name in changes},
        **_read_replaced(before),
    }
    variables[REPLACED] = json.dumps(replaced, sort_keys=True)
    return variables


def trusting_environment(bundle: Path, before: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without any proxy, for a client that cannot miss ours.

    All that is added are the variables by which programs with authorities of their own trust it:
    others trust what the system does.
    """
    kept = dict(before)
    for name in (*PROXY_VARIABLES, *OTHER_PROXY_VARIABLES, *DIRECT_VARIABLES):
        kept.pop(name, None)
    others = [name for name in OTHER_CA_VARIABLES if kept.get(name)]
    return {**kept, **dict.fromkeys((*CA_VARIABLES, *others), str(bundle))}


def make_files_absolute(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment whose authorities are found from any working directory."""
    named = [name for name in (*CA_VARIABLES, *OTHER_CA_VARIABLES) if environment.get(name)]
    found = {name: str(Path(environment[name]).absolute()) for name in named}
    if folders := environment.get(CA_FOLDERS_VARIABLE):
        absolute = [str(Path(each).absolute()) for each in folders.split(os.pathsep) if each]
        found[CA_FOLDERS_VARIABLE] = os.pathsep.join(absolute)
    return {**environment, **found}


def wgetrc_beside(bundle: Path) -> Path:
    """Return the path of wget's settings that name a bundle: a file beside it."""
    return bundle.with_suffix(".wgetrc")


def values_before(names: Iterable[str], before: Mapping[str, str]) -> dict[str, str]:
    """Return those of the variables that are set already, with their values."""
    return {name: before[name] for name in names if name in before}


def take_back(environment: Mapping[str, str]) -> dict[str, str | None]:
    """Return our variables with what they were before; None for those that were not there.

    Where that is not known, they were not there.
    """
    replaced = _read_replaced(environment)
    return {name: replaced.get(name) for name in (*_ALWAYS, *replaced, REPLACED)}


def restore(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without our variables, as far as it says what they were before."""
    before = {**environment, **take_back(environment)}
    return {name: value for name, value in before.items() if value is not None}


def _read_replaced(environment: Mapping[str, str]) -> dict[str, str | None]:
    try:
        replaced = json.loads(environment.get(REPLACED) or "{}")
    except ValueError:
        return {}
    is_read = isinstance(replaced, dict) and all(
        each is None or isinstance(each, str) for each in replaced.values()
    )
    return replaced if is_read else {}


def render_call(listening: tuple[object, ...]) -> str:
    """Return the command that sets a client's environment for a proxy that listens there."""
    host, port = str(listening[0]), int(str(listening[1]))
    url = reach(host, port).url
    option = "" if url == DEFAULT_URL else f" --proxy {url}"
    return f'eval "$(obsmask env{option})"'

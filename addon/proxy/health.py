"""How a proxy is: it answers `GET http://obsmask.test/health`, and commands ask.

`.test` is a name that no server has (RFC 6761): without the proxy, the URL leads nowhere. That a
port is listened on proves nothing, because mitmdump can run without the addon.

Commands ask by `check_health`. mitmproxy takes a second to load, so only the answering side loads
it.
"""

import asyncio
import contextlib
import http.client
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

import orjson
from pydantic import BaseModel, ConfigDict, ValidationError

from addon.network import Address

if TYPE_CHECKING:
    from mitmproxy.http import HTTPFlow, Request

    from addon.config import ConfigFile
    from addon.engine import Engine

NAME = "obsmask.test"
PATH = "/health"

_URL = f"http://{NAME}{PATH}"
_MAX_BYTES = 1_000_000

_SETTLE_SECONDS = 5.0
"""How long an answer waits for records that are still to be written."""

_PATIENCE = 2 * _SETTLE_SECONDS


class Health(BaseModel):
    """The answer, as far as commands read it. Fields of later versions are ignored.

    run: the name of the proxy's run, as in its records.
    state: the line of its log that says what is on.
    base_urls: whether its port takes requests to `base_urls.behind`.
    changes_bound: as in `masking.config.Settings`.
    shortens: whether long results are shortened at arrival.
    records: the record file; None if there is no place for one.
    lost_records: how many could not be written there, as on a full disk.
    summary: the totals of the run so far, in a line, with those records.
    unopened: the connections that passed unopened for lack of trust, by host.
    unserved: the requests that passed because their format is not masked.
    page: where its live page is; None if it has none.
    recall_folder: where it keeps what is masked; None if it keeps nothing.
    """

    model_config = ConfigDict(frozen=True)

    software_version: str
    run: str
    state: str
    is_masking: bool
    base_urls: bool = False
    changes_bound: bool = False
    shortens: bool = False
    config: str
    records: str | None
    lost_records: int = 0
    summary: str = ""
    unopened: Mapping[str, int]
    unserved: int
    page: str | None = None
    recall_folder: str | None = None


def check_health(address: Address, patience: float = _PATIENCE) -> Health | None:
    """Ask a proxy how it is, once it has written its records; `patience` is in seconds.

    None if it is no proxy with this addon. Raises OSError if nothing listens there, or answers.
    """
    connection = http.client.HTTPConnection(*address, timeout=patience)
    try:
        connection.request("GET", _URL)
        return Health.model_validate_json(connection.getresponse().read(_MAX_BYTES))
    except (http.client.HTTPException, ValidationError):
        return None
    finally:
        connection.close()


def find_health(address: Address, patience: float = _PATIENCE) -> Health | None:
    """Return how the proxy with this addon is that answers at an address; None if none does."""
    try:
        return check_health(address, patience)
    except OSError:
        return None


def is_for_proxy(request: "Request") -> bool:
    """Whether a request is sent to the proxy itself, which answers it: none is ever sent on.

    It may look like one to a model.

    The address counts that a request is sent to, whatever its `Host` says (RFC 9112, 3.2.2).
    """
    return request.host.lower().rstrip(".") == NAME


def _is_for_page(flow: "HTTPFlow") -> bool:
    """Whether a browser may have been led here by a page.

    A name server of a hostile network can point `NAME` at this machine. A page from there would be
    of one origin with us, and would name our port: who asks us as a proxy has no reason to. Of an
    absolute URL mitmproxy has left nothing by now that would tell.
    """
    sockname = flow.client_conn.sockname
    is_by_port = sockname is not None and flow.request.port == sockname[1]
    return is_by_port or flow.request.headers.get("Sec-Fetch-Site", "none") != "none"


class CountsUnopened(Protocol):
    @property
    def passed(self) -> Mapping[str, int]: ...


class CountsUnserved(Protocol):
    unserved: Counter[tuple[str, str]]


class HealthEndpoint:
    """Answers what is sent to the proxy itself.

    passthrough, unsupported: the addons that count what is not masked (`addon/proxy/tls.py`,
        `addon/proxy/unsupported.py`).

    `page_url` is where the live page is, and `proxy` where agents of this machine reach the proxy
    that it is of; None while there is none.
    """

    def __init__(
        self, engine: "Engine", passthrough: "CountsUnopened", unsupported: "CountsUnserved"
    ) -> None:
        self.page_url: str | None = None
        self.proxy: Address | None = None
        self._engine, self._passthrough, self._unsupported = engine, passthrough, unsupported

    async def request(self, flow: "HTTPFlow") -> None:
        """Answer GET and HEAD of `PATH`.

        `/` redirects to the page, which has a port of its own: mitmproxy would hold back the events
        that it streams.
        """
        config = self._engine.config
        if config is None:
            return
        from mitmproxy.http import Response

        headers = {
            "content-type": "application/json",
            "cache-control": "no-store",
            "x-content-type-options": "nosniff",
        }
        method, path = flow.request.method, flow.request.path.partition("?")[0]
        if _is_for_page(flow):
            flow.response = Response.make(403, b'{"error": "not for pages"}', headers)
        elif path == "/" and self.page_url is not None:
            flow.response = Response.make(307, b"", {**headers, "location": self.page_url})
        elif path != PATH:
            flow.response = Response.make(404, b'{"error": "not found"}', headers)
        elif method == "GET":
            health = await self._describe(config)
            flow.response = Response.make(200, orjson.dumps(health), headers)
        elif method == "HEAD":
            flow.response = Response.make(200, b"", headers)
        else:
            flow.response = Response.make(405, b"", {**headers, "allow": "GET, HEAD"})

    def describe_run(self) -> Mapping[str, object]:
        """Return the run, its state and its counts, for the page; any thread may ask."""
        from addon.config import render_start

        run, config = self._engine.run, self._engine.config
        return {
            "name": run.name,
            "tag": run.tag,
            "proxy": str(self.proxy) if self.proxy else None,
            "state": render_start(config) if config else "",
            "unopened": self._passthrough.passed,
            "unserved": self._unsupported.unserved.total(),
        }

    async def _describe(self, config: "ConfigFile") -> Mapping[str, object]:
        """Return the fields of `Health`, and those that say by which software it was made.

        All requests that have ended by now are recorded first, so that whoever asks finds them.
        Their records may not get on, as on a hanging disk. Then the summary is left out.
        """
        from addon.config import render_start
        from addon.recall import kept_folder
        from addon.records.build import describe_software

        recorder, settings = self._engine.recorder, self._engine.settings
        summary = None
        with contextlib.suppress(TimeoutError):
            settled = asyncio.wrap_future(recorder.settle())
            summary = await asyncio.wait_for(settled, _SETTLE_SECONDS)
        return {
            **describe_software(settings),
            "run": self._engine.run.name,
            "state": render_start(config),
            "is_masking": settings.any_changes,
            "base_urls": True,
            "changes_bound": settings.changes_bound,
            "shortens": settings.strategies.shortens and settings.strategies.arrival.enabled,
            "config": str(config.path),
            "records": recorder.path,
            "lost_records": recorder.lost,
            "summary": f"{summary or ''}{recorder.left_out}",
            "unopened": self._passthrough.passed,
            "unserved": self._unsupported.unserved.total(),
            "page": self.page_url,
            "recall_folder": kept_folder(settings.recall),
        }

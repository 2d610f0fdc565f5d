"""The addon in mitmproxy's test harness: all of it, but for sockets."""

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import pytest
from mitmproxy import http
from mitmproxy.addons.proxyserver import Proxyserver
from mitmproxy.test import taddons, tflow, tutils

from addon.mask import ObservationMasking
from tests.support.hooks import call

CONFIG = """
[observation_masking.schema1]
window_turns = 1
placeholder_template = "<{tool_call_id} {tool_name} {original_chars}>"
cache_pricing = "none"
"""
NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class Addon:
    """An addon under a configuration; `folder` holds all that it writes."""

    def __init__(self, context: taddons.context, folder: Path) -> None:
        self.folder = folder
        self._context = context
        self._addon: ObservationMasking = context.master.addons.get("observationmasking")
        self._runs = False

    def start(self, config: str = CONFIG) -> None:
        path = self.folder / "config.toml"
        path.write_text(config)
        self._context.configure(self._addon, mask_config=str(path))
        self._addon.running()
        self._runs = True

    def pass_on(
        self,
        body: bytes,
        path: str = "/v1/chat/completions",
        *,
        method: str = "POST",
        host: str = "api.example.org",
        headers: Mapping[str, str] = NO_HEADERS,
        answer: bytes = b"{}",
    ) -> http.Request:
        """Let a request and its answer pass; the request that leaves."""
        fields = [(name.encode(), value.encode()) for name, value in headers.items()]
        request = tutils.treq(
            method=method.encode(),
            path=path.encode(),
            host=host,
            content=body,
            headers=http.Headers([(b"content-length", b"%d" % len(body)), *fields]),
        )
        flow = tflow.tflow(req=request)

        async def run() -> None:
            await call(self._addon, "request", flow)
            flow.response = tutils.tresp(content=answer)
            await call(self._addon, "responseheaders", flow)
            await call(self._addon, "response", flow)

        asyncio.run(run())
        return flow.request

    def stop(self) -> None:
        """End the run, unless it has ended: then all is written."""
        if self._runs:
            self._runs = False
            self._addon.done()

    def read_records(self) -> str:
        """Return the file with a record for each request, once the run has ended."""
        return next(self.folder.rglob("requests.jsonl")).read_text()


@pytest.fixture
def addon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Addon]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("OBSMASK_CONFIG", raising=False)
    monkeypatch.chdir(tmp_path)
    with taddons.context(Proxyserver(), ObservationMasking()) as context:
        addon = Addon(context, tmp_path)
        yield addon
        addon.stop()  # else its last rows are written later, into the folder of another test

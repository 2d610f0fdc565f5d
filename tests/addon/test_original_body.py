"""The client's own body, kept on the flow of a request that was changed."""

from pathlib import Path

import pytest
from mitmproxy.test import tflow

from addon.proxy.marks import METADATA_ORIGINAL, find_original, keep_original
from addon.recordings.flows import read_flows, write_flows

BODY = '{"messages": ["é"]}'.encode() * 1_000


def test_a_recording_holds_the_body_that_was_kept(tmp_path: Path) -> None:
    kept, untouched = tflow.tflow(), tflow.tflow()
    keep_original(kept, BODY)
    path = tmp_path / "out.flow"
    write_flows(path, [kept, untouched])
    assert [BODY, None] == [find_original(flow) for flow in read_flows(path)]


def test_the_body_that_was_kept_first_stays() -> None:
    flow = tflow.tflow()
    keep_original(flow, BODY)
    keep_original(flow, b"masked already")
    assert BODY == find_original(flow)


def test_what_is_kept_is_small() -> None:
    flow = tflow.tflow()
    keep_original(flow, BODY)
    assert len(flow.metadata[METADATA_ORIGINAL]) < len(BODY) / 10


def test_a_damaged_body_is_no_body() -> None:
    flow = tflow.tflow()
    flow.metadata[METADATA_ORIGINAL] = b"damaged"
    with pytest.raises(ValueError, match="the client's own body is damaged"):
        find_original(flow)


def test_what_another_addon_wrote_there_is_no_body() -> None:
    flow = tflow.tflow()
    flow.metadata[METADATA_ORIGINAL] = "text"
    assert find_original(flow) is None

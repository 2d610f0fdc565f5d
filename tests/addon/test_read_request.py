"""A request that is read once says what mitmproxy says of it."""

import pytest
from mitmproxy import http
from mitmproxy.test import tutils

from addon.proxy.flows import ReadRequest
from addon.request import client_of, digest_account, is_signed, is_subscription
from tests.support.marks import as_one_test

FIELDS = [
    pytest.param((), id="no field"),
    pytest.param(((b"Host", b"api.Example:8443"), (b"X-Api-Key", b"k")), id="letters of any case"),
    pytest.param(((b"cookie", b"a=1"), (b"Cookie", b"b=2")), id="one name twice"),
    pytest.param(((b"user-agent", b"caf\xe9/1.0"), (b"x-\xff", b"")), id="bytes that are no text"),
    pytest.param(((b"Authorization", b"AWS4-HMAC-SHA256 x"),), id="a signature"),
    pytest.param(((b"chatgpt-account-id", b"1"),), id="a subscription"),
    pytest.param(((b"host", b"[::1]:80"), (b"content-encoding", b"GZIP")), id="an address"),
]


@as_one_test
@pytest.mark.parametrize("fields", FIELDS)
def test_it_says_what_mitmproxy_says(fields: tuple[tuple[bytes, bytes], ...]) -> None:
    request = tutils.treq(headers=http.Headers(fields), path=b"/v1/messages?key=secret")
    read = ReadRequest(request)
    for name in ("Host", "cookie", "AUTHORIZATION", "x-api-key", "user-agent", "content-encoding"):
        expected, actual = request.headers, read.headers
        assert (name in expected) is (name in actual)
        assert expected.get(name, "-") == actual.get(name, "-")
        assert expected.get_all(name) == actual.get_all(name)
        if name in expected:
            assert expected[name] == actual[name]
    for tell in (digest_account, client_of, is_signed, is_subscription):
        assert tell(request) == tell(read)
    found = ("method", "path", "pretty_host", "raw_content")
    assert [getattr(request, part) for part in found] == [getattr(read, part) for part in found]


def test_its_body_is_the_one_that_it_has_now() -> None:
    request = tutils.treq(content=b"before")
    read = ReadRequest(request)
    request.content = b"after"
    assert b"after" == read.raw_content


def test_a_name_that_is_no_text_is_not_there() -> None:
    assert 1 not in ReadRequest(tutils.treq()).headers

"""Base URLs are read, and ours lead to a server by way of the proxy's port."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from addon.network import Address
from addon.proxy.base_urls import Server, behind, point_at, read_behind, read_server, read_target
from tests.support.marks import as_one_test

PROXY = Address("127.0.0.1", 8080)
OURS = "http://127.0.0.1:8080/to/http/localhost:8000"


@pytest.mark.parametrize(
    ("url", "server", "authority"),
    [
        (
            "http://localhost:11434",
            Server("http", "localhost", 11434),
            "localhost:11434",
        ),
        (
            "https://llm.example.com/v1/",
            Server("https", "llm.example.com", 443, "/v1"),
            "llm.example.com",
        ),
        ("http://[::1]:8000", Server("http", "::1", 8000), "[::1]:8000"),
    ],
)
def test_a_base_url_is_read(url: str, server: Server, authority: str) -> None:
    assert (server, authority) == (read_server(url), server.authority)


@as_one_test
@pytest.mark.parametrize(
    "url", ["", "localhost:11434", "ftp://a:1", "http://:1", "http://a:x", "http://a:1?b=c"]
)
def test_what_is_no_base_url_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"^expected the base URL of a server"):
        read_server(url)


SERVER = read_server("http://localhost:8000/v1")
ALL = {
    "OPENAI_BASE_URL": f"{OURS}/v1",
    "OPENAI_API_BASE": f"{OURS}/v1",
    "ANTHROPIC_BASE_URL": OURS,
    "GOOGLE_GEMINI_BASE_URL": OURS,
    "OLLAMA_HOST": OURS,
    "OLLAMA_API_BASE": OURS,
}


@as_one_test
@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, ALL),
        (
            {"ANTHROPIC_BASE_URL": "https://api.anthropic.com"},
            {name: url for name, url in ALL.items() if name != "ANTHROPIC_BASE_URL"},
        ),
        (
            {"OPENAI_API_BASE": "http://127.0.0.1:8000/api", "ANTHROPIC_BASE_URL": "https://a.b"},
            {"OPENAI_API_BASE": f"{OURS}/api"},
        ),
        ({"OLLAMA_HOST": "0.0.0.0:8000"}, {"OLLAMA_HOST": OURS}),
        (
            {"OPENAI_BASE_URL": "http://localhost:8001/v1"},
            {name: url for name, url in ALL.items() if name != "OPENAI_BASE_URL"},
        ),
    ],
    ids=[
        "no variable is set: all are",
        "one that leads elsewhere stays, and the others are set",
        "one that leads there keeps its path, and the others stay",
        "a variable without a scheme",
        "another port is another server",
    ],
)
def test_variables_lead_to_our_port(environment: dict[str, str], expected: dict[str, str]) -> None:
    assert expected == point_at(PROXY, SERVER, environment)


def test_the_openai_path_is_added_where_the_server_has_none() -> None:
    found = point_at(PROXY, read_server("http://localhost:11434"), {})
    assert f"{PROXY.url}/to/http/localhost:11434/v1" == found["OPENAI_BASE_URL"]


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        ("https://api.anthropic.com", "http://127.0.0.1:8080/to/https/api.anthropic.com"),
        ("https://llm.test:8443/v1", "http://127.0.0.1:8080/to/https/llm.test:8443/v1"),
        ("http://localhost:443", "http://127.0.0.1:8080/to/http/localhost:443"),
        ("http://[::1]:80/api", "http://127.0.0.1:8080/to/http/[::1]/api"),
    ],
)
def test_a_base_url_of_ours_names_the_server_in_its_path(server: str, expected: str) -> None:
    assert expected == behind(PROXY, read_server(server))


hosts = st.one_of(
    st.from_regex(r"[a-z0-9_-]{1,9}(\.[a-zA-Z0-9-]{1,9}){0,3}", fullmatch=True),
    st.ip_addresses(v=4).map(str),
    st.ip_addresses(v=6).map(str),
)
paths = st.one_of(st.just(""), st.text(st.characters(codec="latin-1")).map(lambda text: f"/{text}"))


@given(st.builds(Server, st.sampled_from(["http", "https"]), hosts, st.integers(1, 65_535), paths))
def test_what_is_put_behind_is_read_back(server: Server) -> None:
    path = behind(PROXY, server).removeprefix(PROXY.url)
    assert server == read_behind(path)


@as_one_test
@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/to/https/a.test", Server("https", "a.test", 443)),
        ("/to/https/a.test/", Server("https", "a.test", 443, "/")),
        ("/to/https/a.test//v1", Server("https", "a.test", 443, "//v1")),
        ("/to/http/a.test:1?b=c", Server("http", "a.test", 1, "?b=c")),
        (
            "/to/https/a.test/%2F%c3%A9/..?b=%20+#",
            Server("https", "a.test", 443, "/%2F%c3%A9/..?b=%20+#"),
        ),
        ("/to/http/%5B::1%5D:8000/v1", Server("http", "::1", 8000, "/v1")),
        ("/to/http/10.0.0.1/v1", Server("http", "10.0.0.1", 80, "/v1")),
    ],
)
def test_the_rest_of_a_path_is_untouched(path: str, expected: Server) -> None:
    assert expected == read_behind(path)


@as_one_test
@pytest.mark.parametrize(
    "path",
    [
        *(
            "/to/",
            "/to/https",
            "/to/https/",
            "/to/https//v1",
            "/to/ftp/a.test",
            "/to/https:/a.test",
        ),
        *(
            "/to/https/a.test:",
            "/to/https/a.test:0",
            "/to/https/a.test:65536",
            "/to/https/a.test:x",
        ),
        *("/to/https/me:pw@a.test", "/to/https/a%2Etest", "/to/https/a b", "/to/https/\u00e9.test"),
        *(
            "/to/http/::1/v1",
            "/to/http/[::1",
            "/to/http/[127.0.0.1]",
            "/to/http/[::g]",
            "/to/http/[]",
        ),
        *("/to/https/a.test#b", "/to/https/a.test\\b"),
        *("/to/https/api..openai.com/v1", "/to/http/.../x", f"/to/http/{'a' * 64}.test/x"),
    ],
)
def test_a_path_that_names_no_server_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match=r"^expected /to/SCHEME/HOST\[:PORT\]/PATH"):
        read_behind(path)


@as_one_test
@pytest.mark.parametrize("path", ["", "/", "/to", "/v1/messages", "/To/https/a.test", "*"])
def test_another_path_is_none_of_ours(path: str) -> None:
    assert read_behind(path) is None


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://a.example/v1", "https://a.example/v1"),
        ("http://127.0.0.1:8080/to/https/a.example/v1", "https://a.example/v1"),
        ("http://localhost:8080/to/http/%5B::1%5D:4000", "http://[::1]:4000"),
        ("https://a.example/to/https/b.example", "https://a.example/to/https/b.example"),
    ],
    ids=["a server", "behind a proxy of ours", "one of this machine", "a path of another's"],
)
def test_the_server_that_a_base_url_leads_to_is_read(url: str, expected: str) -> None:
    assert expected == read_target(url).url

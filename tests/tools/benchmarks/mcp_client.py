"""The client that MCP's conformance suite starts.

Run it by `python -m tests.tools.benchmarks.mcp_client URL`.

It lists the server's tools and calls each, authorised as the scenario wants it; the suite judges
what reaches its servers. The proxy is that of the environment.
"""

import asyncio
import json
import os
import sys
import warnings
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import mcp
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from mcp.shared.context import RequestContext
from mcp.types import ElicitRequestParams, ElicitResult, ErrorData
from pydantic import AnyUrl

Asked = RequestContext[mcp.ClientSession, Any]

_BACK = "http://localhost:3030/callback"
_METADATA = "https://conformance-test.local/client-metadata.json"
_ARGUMENTS = {"add_numbers": {"a": 5, "b": 3}}
_SECONDS = 60.0


class Storage:
    """Tokens and what the client is known by, for as long as it runs."""

    def __init__(self, client: OAuthClientInformationFull | None) -> None:
        self._tokens: OAuthToken | None = None
        self._client = client

    async def get_tokens(self) -> OAuthToken | None:
        return self._tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self._tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self._client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._client = client_info


class Browser:
    """Opens the page where a user would consent, and keeps what it sends back."""

    def __init__(self) -> None:
        self._query: dict[str, list[str]] = {}

    async def open(self, url: str) -> None:
        async with httpx.AsyncClient(timeout=_SECONDS) as client:
            response = await client.get(url)
        self._query = parse_qs(urlsplit(response.headers["location"]).query)

    async def read(self) -> tuple[str, str | None]:
        return self._query["code"][0], self._query.get("state", [None])[0]


def authorise(url: str, scenario: str, context: dict[str, Any]) -> httpx.Auth | None:
    """Return how a scenario wants the client to be authorised; None if it does not."""
    if not scenario.startswith("auth/"):
        return None
    known, secret = context.get("client_id", ""), context.get("client_secret", "")
    if key := context.get("private_key_pem"):
        signing = SignedJWTParameters(
            issuer=known, subject=known, signing_key=key, signing_algorithm="ES256"
        )
        provider = signing.create_assertion_provider()
        return PrivateKeyJWTOAuthProvider(url, Storage(None), known, provider)
    if scenario == "auth/client-credentials-basic":
        return ClientCredentialsOAuthProvider(url, Storage(None), known, secret)
    about = OAuthClientMetadata(client_name="conformance", redirect_uris=[AnyUrl(_BACK)])
    held = {
        "client_id": known,
        "client_secret": secret,
        "redirect_uris": [AnyUrl(_BACK)],
        "token_endpoint_auth_method": "client_secret_basic",
    }
    client = OAuthClientInformationFull.model_validate(held) if known else None
    browser = Browser()
    return OAuthClientProvider(
        url, about, Storage(client), browser.open, browser.read, client_metadata_url=_METADATA
    )


async def accept(context: Asked, params: ElicitRequestParams) -> ElicitResult | ErrorData:
    """Give every field its default."""
    schema = getattr(params, "requestedSchema", {})
    fields = schema.get("properties", {}).items()
    defaults = {name: field["default"] for name, field in fields if "default" in field}
    return ElicitResult(action="accept", content=defaults)


async def call_all(url: str, auth: httpx.Auth | None) -> None:
    async with (
        httpx.AsyncClient(auth=auth, timeout=_SECONDS, follow_redirects=True) as client,
        streamable_http_client(url, http_client=client) as (reading, writing, _),
        mcp.ClientSession(reading, writing, elicitation_callback=accept) as session,
    ):
        await session.initialize()
        for tool in (await session.list_tools()).tools:
            await session.call_tool(tool.name, _ARGUMENTS.get(tool.name, {}))


if __name__ == "__main__":
    warnings.simplefilter("ignore", DeprecationWarning)
    asked = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    scenario = os.environ["MCP_CONFORMANCE_SCENARIO"]
    asyncio.run(call_all(sys.argv[1], authorise(sys.argv[1], scenario, asked)))

"""LiteLLM's own routing with the hook: each deployment gets what it would get by itself."""

import json
from collections.abc import Iterator

import pytest

from tests.live.harness import read_records
from tests.live.litellm_proxy import NEEDS_LITELLM, LiteLLM, running_litellm
from tests.live.test_litellm_live import GPT, SLIDING, ask_chat, find_results, output_of
from tests.tools.provider.provider import Provider
from tests.tools.provider.script import Reply

pytestmark = NEEDS_LITELLM

SPARE = "gpt-4o"
TURNS = 8
WINDOW, WINDOW_OF_SPARE = 2, 5
CONFIG = (
    SLIDING
    + f"""
[[observation_masking.rules]]
model = "{SPARE}"

[observation_masking.rules.schema1]
window_turns = {WINDOW_OF_SPARE}
""".encode()
)

ROUTES = """model_list:
  - model_name: {GPT}
    litellm_params: {{model: openai/{GPT}, api_key: a, api_base: "{first}"}}
  - model_name: spare
    litellm_params: {{model: openai/{SPARE}, api_key: a, api_base: "{second}"}}
  - model_name: shared
    litellm_params: {{model: openai/{GPT}, api_key: a, api_base: "{first}"}}
  - model_name: shared
    litellm_params: {{model: openai/{GPT}, api_key: a, api_base: "{second}"}}
router_settings:
  num_retries: 0
  disable_cooldowns: true
  fallbacks: [{{"{GPT}": ["spare"]}}]
litellm_settings:
  callbacks: ["addon.gateways.litellm_hook.observation_masking"]
general_settings:
  master_key: os.environ/LITELLM_MASTER_KEY
"""


@pytest.fixture(scope="module")
def statuses() -> list[int]:
    """Return what the first provider answers, last; tests may change it."""
    return [200]


@pytest.fixture(scope="module")
def first(statuses: list[int]) -> Iterator[Provider]:
    with Provider(lambda _: Reply(content="One.", status=statuses[-1]), strict=True) as running:
        yield running


@pytest.fixture(scope="module")
def second() -> Iterator[Provider]:
    with Provider(lambda _: Reply(content="Two."), strict=True) as running:
        yield running


@pytest.fixture(scope="module")
def litellm(
    tmp_path_factory: pytest.TempPathFactory, first: Provider, second: Provider
) -> Iterator[LiteLLM]:
    routes = ROUTES.format(GPT=GPT, SPARE=SPARE, first=first.url, second=second.url)
    with running_litellm(tmp_path_factory.mktemp("routing"), first, CONFIG, routes) as running:
        yield running


def find_arrived(provider: Provider, begin: int) -> list[list[str]]:
    """Return the tool results of each request that has arrived since."""
    return [find_results(json.loads(each.body)) for each in provider.requests[begin:]]


def masked_texts(window: int) -> list[str]:
    texts = [output_of(turn) for turn in range(TURNS)]
    old = TURNS - window
    told = [f"<call_{turn} shell {len(text)}>" for turn, text in enumerate(texts[:old])]
    return [*told, *texts[old:]]


def test_a_fallback_is_masked_by_its_own_rule_from_what_the_client_sent(
    litellm: LiteLLM, first: Provider, second: Provider, statuses: list[int]
) -> None:
    before = len(read_records(litellm.folder))
    begin, begin_of_spare = len(first.requests), len(second.requests)
    statuses.append(503)
    try:
        response = litellm.post("/v1/chat/completions", {"model": GPT, **ask_chat(TURNS)})
    finally:
        statuses.pop()
    assert (200, "Two.") == (
        response.status_code,
        response.json()["choices"][0]["message"]["content"],
    )
    assert [masked_texts(WINDOW)] == find_arrived(first, begin)
    assert [masked_texts(WINDOW_OF_SPARE)] == find_arrived(second, begin_of_spare)
    records = litellm.records(before + 2)[before:]
    assert [(GPT, 503, TURNS - WINDOW), (SPARE, 200, TURNS - WINDOW_OF_SPARE)] == [
        (record["model"], record["status"], record["masked"]) for record in records
    ]


def test_all_deployments_of_a_model_get_the_same_texts(
    litellm: LiteLLM, first: Provider, second: Provider
) -> None:
    before = len(read_records(litellm.folder))
    begins = {provider: len(provider.requests) for provider in (first, second)}
    count = 0
    while not all(len(provider.requests) > begin for provider, begin in begins.items()):
        answer = litellm.post("/v1/chat/completions", {"model": "shared", **ask_chat(TURNS)})
        assert 200 == answer.status_code
        count += 1
    arrived = [texts for each, begin in begins.items() for texts in find_arrived(each, begin)]
    assert [masked_texts(WINDOW)] * count == arrived
    assert {200} == {record["status"] for record in litellm.records(before + count)[before:]}

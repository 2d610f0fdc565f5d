"""A short soak: some more than a thousand requests through two proxies that share a folder."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.tools.benchmarks.soak import soak
from tests.tools.soak.checks import Outcome, find_faults

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return asyncio.run(soak(1_200, 20, tmp_path_factory.mktemp("soak")))


def test_every_request_arrives_as_the_core_masks_it_and_has_one_record(outcome: Outcome) -> None:
    assert [] == [*find_faults(outcome)]


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        pytest.param(
            lambda outcome: outcome._replace(files=outcome.files[:1]), "records: ", id="a lost file"
        ),
        pytest.param(
            lambda outcome: outcome._replace(files=[*outcome.files, outcome.files[0]]),
            "tokens of all prompts",
            id="records that are there twice",
        ),
        pytest.param(
            lambda outcome: outcome._replace(logs=outcome.logs[:1]),
            "requests in the totals",
            id="a proxy without totals",
        ),
        pytest.param(
            lambda outcome: outcome._replace(files=[Path(__file__)]),
            "a record cannot be read",
            id="a line that is no record",
        ),
    ],
)
def test_what_is_missing_is_found(
    outcome: Outcome, spoil: Callable[[Outcome], Outcome], says: str
) -> None:
    assert any(says in fault for fault in find_faults(spoil(outcome)))

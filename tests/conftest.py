"""Settings of the whole suite."""

from collections.abc import Iterator

import pytest
from hypothesis import settings

settings.register_profile("suite", deadline=None, max_examples=150, print_blob=True)
settings.load_profile("suite")


@pytest.fixture(autouse=True, scope="session")
def no_stored_prices(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep a price list that the user has stored out of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        yield

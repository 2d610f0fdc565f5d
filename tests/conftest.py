"""Settings of the whole suite."""

from collections.abc import Iterator

import pytest
from hypothesis import settings

# The quick one tries the same examples each time, so that a run depends on the change alone; the
# deep one (`--hypothesis-profile=deep`) looks for new ones. Neither has a clock.
settings.register_profile("quick", deadline=None, max_examples=50, derandomize=True)
settings.register_profile("deep", deadline=None, max_examples=300, print_blob=True)
settings.load_profile("quick")


@pytest.fixture(autouse=True, scope="session")
def no_stored_prices(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep a price list that the user has stored out of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        yield

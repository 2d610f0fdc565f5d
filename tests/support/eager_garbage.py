"""A plugin that collects garbage all the time: `pytest -p tests.support.eager_garbage`.

A test that lets go of a flow which mitmproxy would still hold fails with it, and without it only
now and then: what is remembered of a flow goes with the flow (`WeakKeyDictionary`).
"""

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def eager_garbage() -> Iterator[None]:
    gc.collect()
    gc.freeze()  # so that each collection looks at what the test has made, and takes no time
    before = gc.get_threshold()
    gc.set_threshold(15, 1, 1)
    yield
    gc.set_threshold(*before)
    gc.unfreeze()

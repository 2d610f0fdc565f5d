"""A body's memory is not taken from the system anew for each copy of it."""

import platform
import subprocess
import sys

import pytest

PROGRAM = """
import resource
import threading

import addon.proxy.process_memory

def copy_bodies() -> None:
    for _ in range(50):
        b"x" * 1_000_000

copy_bodies()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
copy_bodies()
thread = threading.Thread(target=copy_bodies)
thread.start()
thread.join()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""

PAGES_OF_A_BODY = 1_000_000 // 4_096


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have no such call")
def test_copies_of_a_body_share_its_pages() -> None:
    shown = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, check=True, text=True
    ).stdout
    # Each of two threads takes the pages once; all the rest of a hundred copies has them.
    assert int(shown) < 10 * PAGES_OF_A_BODY

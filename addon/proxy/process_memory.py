"""Makes the process take less work and memory, when it is imported: before anything else.

What mitmproxy has loaded before the addon stays, so the garbage collector is spared it. Loading the
addon sets off several collections, and each would search all of mitmproxy again: a third of what
loading takes.

A block of 4 MB or more goes back to the system as soon as it is free. Of itself, glibc keeps ever
larger ones once it has seen them, and fills the space with small ones: 4 MB of it with the
vocabulary. Other C libraries have no such habit, or no such call.
"""

import ctypes
import gc
from contextlib import suppress

_M_MMAP_THRESHOLD = -3  # malloc.h
_LARGE_BYTES = 4 * 1024 * 1024

gc.freeze()
with suppress(AttributeError, OSError, TypeError):  # no such function, or no such library
    ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)

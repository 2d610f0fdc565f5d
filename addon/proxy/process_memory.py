"""Makes the process take less work and memory, when it is imported: before anything else.

What mitmproxy has loaded before the addon stays, so the garbage collector is spared it. Loading the
addon sets off several collections, and each would search all of mitmproxy again: a third of what
loading takes.

A block of 4 MB or more goes back to the system as soon as it is free. Of itself, glibc keeps ever
larger ones once it has seen them, and fills the space with small ones: 4 MB of it with the
vocabulary. Once it is told that, it gives back whatever is free at the end of a heap, too, from 128
kB on. Then each body of 1 MB is taken from the system anew, several times a request, page by page:
a fifth of what such a request takes. So 8 MB may stay there, as glibc itself would choose. Other C
libraries have no such habits, or no such call.
"""

import ctypes
import gc
from contextlib import suppress

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h
_LARGE_BYTES = 4 * 1024 * 1024

gc.freeze()
with suppress(AttributeError, OSError, TypeError):  # no such function, or no such library
    _library = ctypes.CDLL(None)
    _library.mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
    _library.mallopt(_M_TRIM_THRESHOLD, 2 * _LARGE_BYTES)

"""Keeps the connections that the proxy's end cuts off from looking like errors.

On Python 3.11 asyncio asks a connection's task for its exception even if it was cancelled, and logs
a traceback for each client that is connected when mitmproxy ends. Later versions do not.
"""

import asyncio
import logging


def leave_out_cancelled() -> None:
    """Let asyncio log no cancelled task, from now on: to be cancelled is no error."""
    logging.getLogger("asyncio").addFilter(_is_no_cancellation)


def _is_no_cancellation(record: logging.LogRecord) -> bool:
    kind = record.exc_info[0] if record.exc_info else None
    return kind is None or not issubclass(kind, asyncio.CancelledError)

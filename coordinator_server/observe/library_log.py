"""Writes log messages of libraries (aiohttp, asyncio) to this server's log.

Without it they write stack traces of many lines, one for every request that is no HTTP.
"""

import logging
from collections.abc import Callable
from typing import Any

Write = Callable[..., Any]
"""Called as `write(level, event, **fields)`."""


class LibraryLog(logging.Handler):
    """One line for each message."""

    def __init__(self, write: Write) -> None:
        super().__init__()
        self._write = write

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line; what a client has sent wrong is no fault of ours and has no stack trace."""
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and type(error).__module__.startswith("aiohttp."):
            self._write(logging.INFO, "http_request_refused", error=" ".join(str(error).split()))
            return
        fields = {"exc_info": error} if error is not None else {}
        message = record.getMessage()
        self._write(record.levelno, "library_message", name=record.name, message=message, **fields)

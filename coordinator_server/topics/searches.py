"""Searches by timestamp: each may walk through a whole log, so they have threads of their own.

Whoever opens, reads or checks something else in a thread must not wait for them.
"""

import threading
from functools import partial

from coordinator_protocol.errors import ErrorCode
from coordinator_server.storage.base import CorruptLog
from coordinator_server.storage.segments.log import SegmentLog
from coordinator_server.storage.segments.threads import DiskThreads
from coordinator_server.topics.errors import TopicError, check_not_closed
from coordinator_server.topics.timestamps import Search, SearchStopped, TimestampAndOffset

AT_ONCE = 2
"""Searches that go on at the same time; they are work for the interpreter most of all."""


class Searches:
    """Those that are under way, and those that wait for a thread."""

    def __init__(self) -> None:
        self._threads = DiskThreads("search", AT_ONCE)
        self._stopping: set[threading.Event] = set()
        """Stops each search that has not ended."""
        self._closed = False

    async def run(self, search: Search, log: SegmentLog, up_to: int) -> TimestampAndOffset | None:
        """Search the records before `up_to`; a task that is cancelled stops its search.

        Raises TopicError with KAFKA_STORAGE_ERROR.
        """
        stopping = threading.Event()
        self._stopping.add(stopping)
        try:
            self._check_open()
            found = await self._threads.run(partial(self._search, search, log, up_to, stopping))
        except (OSError, CorruptLog, SearchStopped) as failure:
            raise TopicError(ErrorCode.KAFKA_STORAGE_ERROR, str(failure)) from failure
        finally:
            stopping.set()
            self._stopping.discard(stopping)
        check_not_closed(log)
        return found

    def _search(
        self, search: Search, log: SegmentLog, up_to: int, stopping: threading.Event
    ) -> TimestampAndOffset | None:
        """In a thread, which may not have come to it before all searches were stopped."""
        self._check_open()
        return search(log, up_to, stopping)

    def _check_open(self) -> None:
        if self._closed:
            raise SearchStopped("the server stops")

    def close(self) -> None:
        """Stop all, and begin none any more."""
        self._closed = True
        for stopping in self._stopping:
            stopping.set()

"""Searches by timestamp: each may walk through a whole log, so they have threads of their own.

Whoever opens, reads or checks something else in a thread must not wait for them.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from threading import Event

from coordinator_server.storage.base import CorruptLog
from coordinator_server.storage.segments.log import SegmentLog
from coordinator_server.topics.errors import TopicError, check_not_closed
from coordinator_server.topics.timestamps import Search, SearchStopped, TimestampAndOffset
from protocol.errors import ErrorCode

AT_ONCE = 2
"""Searches that go on at the same time; they are work for the interpreter most of all."""


class Searches:
    """Those that are under way, and those that wait for a thread."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="search")
        self._stopping: set[Event] = set()
        """What stops each that has not ended."""

    async def run(self, search: Search, log: SegmentLog, up_to: int) -> TimestampAndOffset | None:
        """Search the records before `up_to`; a task that is cancelled stops its search.

        Raises TopicError with KAFKA_STORAGE_ERROR.
        """
        stopping = Event()
        self._stopping.add(stopping)
        searching = asyncio.get_running_loop().run_in_executor(
            self._threads, search, log, up_to, stopping
        )
        try:
            found = await searching
        except (OSError, CorruptLog, SearchStopped) as failure:
            raise TopicError(ErrorCode.KAFKA_STORAGE_ERROR, str(failure)) from failure
        finally:
            stopping.set()
            self._stopping.discard(stopping)
        check_not_closed(log)
        return found

    def close(self) -> None:
        """Stop all, and begin none any more."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for stopping in self._stopping:
            stopping.set()

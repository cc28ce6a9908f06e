"""Bounds the bytes that logs have buffered in memory and not written to their segments.

Above `ROOM_BYTES` producers wait. Above `HOLD_BYTES` no flush begins while segments are being
written, so acknowledgements slow down to the disk's speed. Above `MOST_BYTES` the coordinator's
logs refuse appends.
"""

import asyncio
import errno
from typing import Final

from coordinator_server.storage.segments.log import SegmentLog

ROOM_BYTES: Final = 8 << 20
HOLD_BYTES: Final = 16 << 20
MOST_BYTES: Final = 64 << 20
ROOM_SECONDS: Final = 5.0
"""Time after which a waiting producer is refused."""


class UnwrittenBytes:
    """Counts buffered bytes of all logs, on the event loop."""

    def __init__(self, room_bytes: int = ROOM_BYTES, most_bytes: int = MOST_BYTES) -> None:
        self.bytes = 0
        """At least as many bytes as are buffered; exact after `recount`."""
        self.exceeds_most = False
        """Whether the coordinator's logs refuse appends."""
        self._room_bytes = room_bytes
        self._most_bytes = most_bytes
        self._logs: dict[SegmentLog, None] = {}
        """Logs that may have buffered bytes."""
        self._producers: list[asyncio.Future[None]] = []
        """Producers in `wait_for_room`."""
        self._closed = False

    def count(self, log: SegmentLog) -> None:
        """Add the bytes appended to a log since the last call."""
        fresh = log.appended_bytes - log.counted_bytes
        if fresh:
            log.counted_bytes = log.appended_bytes
            self.bytes += fresh
            if self.bytes >= self._most_bytes:
                self.exceeds_most = True
            self._logs[log] = None

    def recount(self) -> None:
        """Count again after segments were written, and resume producers if there is room."""
        total = 0
        for log in list(self._logs):
            missing = 0 if log.failed is not None else log.unwritten_bytes
            total += missing
            if not missing:
                del self._logs[log]
        self.bytes = total
        self.exceeds_most = total >= self._most_bytes
        if total < self._room_bytes:
            self._release()

    @property
    def exceeds_hold(self) -> bool:
        """Whether flushes wait until segments are written."""
        return self.bytes >= HOLD_BYTES

    async def wait_for_room(self, seconds: float = ROOM_SECONDS) -> None:
        """Wait until a producer may append. Raises OSError if the disk is too slow.

        The caller must append before it awaits anything else: other producers see the same room.
        """
        while self.bytes >= self._room_bytes and not self._closed:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._producers.append(future)
            try:
                async with asyncio.timeout(seconds):
                    await future
            except TimeoutError:
                why = (
                    f"the disk is too slow: {self.bytes:,} bytes wait to be written, and there was "
                    f"no room for more within {seconds:g} s"
                )
                raise OSError(errno.EAGAIN, why) from None
            finally:
                if future in self._producers:
                    self._producers.remove(future)
        if self._closed:
            raise OSError(errno.EBADF, "the server is stopping")

    def close(self) -> None:
        """Refuse producers from now on."""
        self._closed = True
        self._release()

    def _release(self) -> None:
        producers, self._producers = self._producers, []
        for future in producers:
            if not future.done():
                future.set_result(None)

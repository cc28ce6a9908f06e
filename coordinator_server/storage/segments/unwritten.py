"""How much logs have taken that their segments lack: it is in memory, so it is bounded.

Above `ROOM_BYTES` producers wait. Above `HOLD_BYTES` no pass begins while segments are being
written, so that acknowledgements follow the disk. Above `MOST_BYTES` the coordinator's logs refuse.
"""

import asyncio
import errno
from typing import Final

from coordinator_server.storage.segments.log import SegmentLog

ROOM_BYTES: Final = 8 << 20
HOLD_BYTES: Final = 16 << 20
MOST_BYTES: Final = 64 << 20
ROOM_SECONDS: Final = 5.0
"""How long a producer waits before it is refused."""


class UnwrittenBytes:
    """Counts on the event loop: more with every append, less when segments have been written."""

    def __init__(self, room_bytes: int = ROOM_BYTES, most_bytes: int = MOST_BYTES) -> None:
        self.bytes = 0
        """Never less than there are."""
        self.exceeds_most = False
        """Whether even the coordinator's logs refuse more."""
        self._room_bytes = room_bytes
        self._most_bytes = most_bytes
        self._logs: dict[SegmentLog, None] = {}
        """Those that may lack something."""
        self._producers: list[asyncio.Future[None]] = []
        """Who waits for room."""
        self._closed = False

    def count(self, log: SegmentLog) -> None:
        """Take note of what a log was given since."""
        fresh = log.appended_bytes - log.counted_bytes
        if fresh:
            log.counted_bytes = log.appended_bytes
            self.bytes += fresh
            if self.bytes >= self._most_bytes:
                self.exceeds_most = True
            self._logs[log] = None

    def recount(self) -> None:
        """Segments have been written: look how much is left, and let producers go on."""
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
        """Whether acknowledgements wait until segments are written."""
        return self.bytes >= HOLD_BYTES

    async def wait_for_room(self, seconds: float = ROOM_SECONDS) -> None:
        """Wait until a producer's records may be taken. Raises OSError if the disk is too slow.

        Who appends without waiting for anything else keeps the others from taking the same room.
        """
        while self.bytes >= self._room_bytes and not self._closed:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._producers.append(future)
            try:
                async with asyncio.timeout(seconds):
                    await future
            except TimeoutError:
                size = f"{self.bytes:,} bytes wait to be written"
                why = f"the disk is too slow: {size}, none were for {seconds:g} s"
                raise OSError(errno.EAGAIN, why) from None
            finally:
                if future in self._producers:
                    self._producers.remove(future)
        if self._closed:
            raise OSError(errno.EBADF, "the server stops")

    def close(self) -> None:
        """Refuse producers from now on."""
        self._closed = True
        self._release()

    def _release(self) -> None:
        producers, self._producers = self._producers, []
        for future in producers:
            if not future.done():
                future.set_result(None)

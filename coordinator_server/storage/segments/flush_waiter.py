"""Objects that wait for a flush of a log."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from coordinator_server.storage.segments.log import SegmentLog

if TYPE_CHECKING:
    import asyncio


class FlushWaiter(ABC):
    """Waits until every record a log has at this moment is safe under the flush policy."""

    __slots__ = ("end", "log")

    def __init__(self, log: SegmentLog) -> None:
        self.log = log
        self.end = log.end_offset
        """The end offset of the log when the waiter was created."""

    @abstractmethod
    def flushed(self, error: OSError | None) -> None:
        """Called with None when the records are safe, or with the error of the flush.

        If this raises, the flusher calls it again with that exception as an OSError.
        """


class FutureWaiter(FlushWaiter):
    """Resolves a future."""

    __slots__ = ("_future",)

    def __init__(self, log: SegmentLog, future: "asyncio.Future[None]") -> None:
        super().__init__(log)
        self._future = future

    def flushed(self, error: OSError | None) -> None:
        """See FlushWaiter."""
        if self._future.done():
            return
        if error is None:
            self._future.set_result(None)
        else:
            self._future.set_exception(error)

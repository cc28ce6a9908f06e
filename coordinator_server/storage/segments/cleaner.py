"""Compacts the coordinator's logs in the background, in a thread: one by one, the dirtiest first.

What it takes is bounded twice: bytes read and written per second, and a quarter of one core.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

from coordinator_server.loop.task_keeper import is_cancelled
from coordinator_server.storage.segments.cleaner_checkpoint import CleanedOffsets
from coordinator_server.storage.segments.compact import (
    CompactionCancelled,
    CompactionResult,
    compact,
)
from coordinator_server.storage.segments.files import SYSTEM_FILES, Files
from coordinator_server.storage.segments.log import SegmentLog
from coordinator_server.storage.segments.threads import DiskThreads

MIN_DIRTY_BYTES: Final = 1024 * 1024
"""Below this a pass is not worth its renames, whatever the ratio."""
STOP_SECONDS: Final = 1.0
"""How long a compaction that was abandoned may take to end."""
SLICE_SECONDS: Final = 0.002
IDLE_PER_WORK: Final = 3.0
_LONGEST_WAIT_SECONDS: Final = 0.1
"""So that a stop is noticed soon."""


@dataclass(frozen=True, slots=True)
class CleanerSettings:
    """The settings `log.cleaner.*`, with their units."""

    min_cleanable_ratio: float = 0.5
    delete_retention_ms: int = 86_400_000
    backoff_ms: int = 15_000
    max_bytes_per_second: float = 10_485_760.0
    min_dirty_bytes: int = MIN_DIRTY_BYTES


class Throttle:
    """Implements compact.CompactionThrottle by waiting; asked from the compacting thread."""

    def __init__(
        self, max_bytes_per_second: float, closing: threading.Event, stopping: threading.Event
    ) -> None:
        self._rate = max_bytes_per_second
        self._closing = closing
        self._stopping = stopping
        self._bytes = 0
        self._began = time.monotonic()

    def spend(self, size: int) -> None:
        """See CompactionThrottle."""
        if self._closing.is_set() or self._stopping.is_set():
            raise CompactionCancelled
        self._bytes += size
        now = time.monotonic()
        worked = now - self._began
        owed = self._bytes / self._rate
        if worked >= SLICE_SECONDS or owed >= SLICE_SECONDS:
            self._wait_until(now + max(worked * IDLE_PER_WORK, owed - worked))
            self._bytes = 0
            self._began = time.monotonic()

    def _wait_until(self, end: float) -> None:
        while (left := end - time.monotonic()) > 0:
            if self._closing.wait(min(left, _LONGEST_WAIT_SECONDS)) or self._stopping.is_set():
                raise CompactionCancelled


class Lag(NamedTuple):
    """How far compaction is behind."""

    dirtiest_ratio: float
    """The largest share of dirty bytes in the closed segments of a log, from 0 to 1."""
    idle_seconds: float
    """Since the last compaction, or the start."""


class Cleaner:
    """Looks for logs to compact every `backoff_ms` while there is none."""

    def __init__(
        self,
        logs: Callable[[], Iterable[SegmentLog]],
        settings: CleanerSettings,
        wall_ms: Callable[[], int],
        report: Callable[..., None],
        count: Callable[[float], None],
        owner: str = "",
        files: Files = SYSTEM_FILES,
    ) -> None:
        """`logs` are those that are open; `count` gets the seconds of every compaction.

        `owner` names the checkpoint of one of several processes.
        """
        self._logs = logs
        self._settings = settings
        self._wall_ms = wall_ms
        self._report = report
        self._count = count
        self._cleaned = CleanedOffsets(files, owner)
        self._known: set[SegmentLog] = set()
        """Open logs whose clean offset was taken from the checkpoint."""
        self._last = time.monotonic()
        self._stopping = threading.Event()
        self._task: asyncio.Task[None] | None = None
        self._threads = DiskThreads("log-cleaner", 1)

    def start(self) -> None:
        """Begin, on the running event loop."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Abandon what is under way. A thread that waits for a disk is left to the process."""
        self._stopping.set()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))
            self._task = None
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_SECONDS):
                await self._threads.run(_nothing)

    def filthiest(self, logs: Iterable[SegmentLog] | None = None) -> SegmentLog | None:
        """The log with the largest share of dirty bytes, if one is worth a compaction.

        Blocks: the first look at a log reads how far it was compacted.
        """
        best, best_ratio = None, self._settings.min_cleanable_ratio
        logs = list(self._logs() if logs is None else logs)
        self._known.intersection_update(logs)
        for log in logs:
            self._recall(log)
            dirty = log.dirty_bytes
            # A log that has failed is closed and opened again by its owner.
            if (
                not log.compactable
                or not log.is_open
                or dirty < max(self._settings.min_dirty_bytes, 1)
            ):
                continue
            ratio = dirty / log.closed_bytes
            if ratio >= best_ratio:
                best, best_ratio = log, ratio
        return best

    def _recall(self, log: SegmentLog) -> None:
        """Begin where an earlier start has ended, at the first look at a log."""
        if log in self._known:
            return
        self._known.add(log)
        with suppress(OSError):
            log.clean_offset = max(log.clean_offset, self._cleaned.of(log))

    def lag(self) -> Lag:
        """For metrics."""
        ratios = [log.dirty_bytes / log.closed_bytes for log in self._logs() if log.closed_bytes]
        return Lag(max(ratios, default=0.0), time.monotonic() - self._last)

    async def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                logs = list(self._logs())
                log = await self._threads.run(partial(self.filthiest, logs))
                if log is None or not await self.clean(log):
                    await asyncio.sleep(self._settings.backoff_ms / 1000)
            except (Exception, asyncio.CancelledError) as error:
                # The next look may find all in order, unless the task was asked to end.
                if is_cancelled():
                    raise
                await self._failed(error)

    async def _failed(self, error: BaseException) -> None:
        """Report a failure and wait before the next look."""
        with suppress(Exception):
            self._report("log_cleaner_failed", error=f"{type(error).__name__}: {error}")
        try:
            await asyncio.sleep(self._settings.backoff_ms / 1000)
        except (Exception, asyncio.CancelledError):
            if is_cancelled():
                raise

    async def clean(self, log: SegmentLog) -> bool:
        """Compact a log and say so; whether it came to its end."""
        began = time.monotonic()
        try:
            done = await self._threads.run(partial(self._compact, log))
        except CompactionCancelled:
            return False
        except Exception as error:  # noqa: BLE001 - a bug with one log must not end the others'
            if not isinstance(error, OSError):
                log.compactable = False
            if not log.closing.is_set():
                self._report(
                    "log_compaction_failed", directory=str(log.directory), error=str(error)
                )
            return False
        self._last = time.monotonic()
        seconds = self._last - began
        self._count(seconds)
        self._report(
            "log_compacted",
            directory=str(log.directory),
            segments=done.segments,
            bytes_before=done.bytes_before,
            bytes_after=done.bytes_after,
            seconds=round(seconds, 3),
        )
        return True

    def _compact(self, log: SegmentLog) -> CompactionResult:
        settings = self._settings
        done = compact(
            log,
            throttle=Throttle(settings.max_bytes_per_second, log.closing, self._stopping),
            wall_ms=self._wall_ms,
            delete_retention_ms=settings.delete_retention_ms,
        )
        self._cleaned.note(log)
        return done


def _nothing() -> None:
    """Comes after what the thread is at."""

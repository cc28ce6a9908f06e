"""Group commit: one thread syncs every log that has something new, and then begins again.

While a pass is under way the next one accumulates, so the number of syncs follows the disk, not the
number of appends.
"""

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from typing import Final

from coordinator_server.storage.segments.log import SegmentLog

DEFAULT_INTERVAL_MS: Final = 1_000


class FlushPolicy(StrEnum):
    """When records are on disk (`log.flush`)."""

    COMMIT = "commit"
    """Before they are acknowledged."""
    INTERVAL = "interval"
    """Some time after they are."""
    OS = "os"
    """When the system likes."""


class Flusher:
    """Syncs the logs of one data directory."""

    def __init__(
        self,
        policy: FlushPolicy = FlushPolicy.COMMIT,
        interval_ms: int = DEFAULT_INTERVAL_MS,
    ) -> None:
        self._policy = policy
        self._interval_ms = interval_ms
        self._waiting: dict[SegmentLog, list[asyncio.Future[None]]] = {}
        self._pass: asyncio.Future[Mapping[SegmentLog, OSError]] | None = None
        self._begin: asyncio.Handle | None = None
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="flusher")

    def flush(self, log: SegmentLog) -> "asyncio.Future[None]":
        """Done when everything appended to the log so far is safe under the policy.

        Fails with the OSError of the log's sync, and only of this log's.
        """
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        waiting = self._waiting.setdefault(log, [])
        if self._policy is FlushPolicy.COMMIT:
            waiting.append(future)
        else:
            future.set_result(None)
        if self._begin is None and self._pass is None:
            self._schedule(loop)
        return future

    async def close(self) -> None:
        """Sync what is left, under every policy, and end the thread."""
        if self._begin is not None:
            self._begin.cancel()
            self._begin = None
        await self._settle()
        if self._waiting:
            self._begin_pass()
            await self._settle()
        self._executor.shutdown(wait=True)

    async def _settle(self) -> None:
        """Wait until no pass is under way."""
        while self._pass is not None:
            await asyncio.wait([self._pass])
            await asyncio.sleep(0)

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._policy is FlushPolicy.COMMIT:
            self._begin = loop.call_soon(self._begin_pass)
        elif self._policy is FlushPolicy.INTERVAL:
            self._begin = loop.call_later(self._interval_ms / 1000, self._begin_pass)

    def _begin_pass(self) -> None:
        self._begin = None
        logs, self._waiting = self._waiting, {}
        loop = asyncio.get_running_loop()
        self._pass = loop.run_in_executor(self._executor, _sync_all, list(logs))
        self._pass.add_done_callback(lambda done: self._end_pass(logs, done))

    def _end_pass(
        self,
        logs: Mapping[SegmentLog, list["asyncio.Future[None]"]],
        done: "asyncio.Future[Mapping[SegmentLog, OSError]]",
    ) -> None:
        self._pass = None
        failures = done.result()
        for log, waiting in logs.items():
            error = failures.get(log)
            for future in waiting:
                if future.done():
                    continue
                if error is None:
                    future.set_result(None)
                else:
                    future.set_exception(error)
        if self._waiting and self._begin is None:
            self._schedule(done.get_loop())


def _sync_all(logs: list[SegmentLog]) -> Mapping[SegmentLog, OSError]:
    """Sync every log; what failed, by log."""
    failures: dict[SegmentLog, OSError] = {}
    for log in logs:
        try:
            log.sync()
        except OSError as error:
            failures[log] = error
    return failures

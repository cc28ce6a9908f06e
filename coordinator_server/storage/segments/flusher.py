"""Group commit: one write, or one pass of syncs, for every log that has something new.

With a journal a pass is one write into it. If that has to be on disk first, a thread does it and
the next pass accumulates meanwhile, and may wait for more (`linger`), so the number of writes
follows the disk, not the number of appends; otherwise it is done at once, once per turn of the
event loop. The segments get what was kept back some time later. Without a journal a pass syncs
every log on its own.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from queue import SimpleQueue
from threading import Thread
from typing import Final, TypeVar

from coordinator_server.soon import Soon, SoonInLoop
from coordinator_server.storage.segments.journal import Journal
from coordinator_server.storage.segments.linger import LINGER_SECONDS, Linger, Records
from coordinator_server.storage.segments.log import SegmentLog

DEFAULT_INTERVAL_MS: Final = 1_000
WRITE_OUT_SECONDS: Final = 0.25
"""How long the segments may lack what the journal has."""
WRITE_OUT_BYTES: Final = 1 << 20
"""How much they may lack: it is kept in memory, of all logs together."""

CallLater = Callable[[float, Callable[[], None]], asyncio.Handle]
"""Has something called after so many seconds."""
_Failures = dict[SegmentLog, OSError]
_Result = TypeVar("_Result")


def _nothing(_result: object) -> None:
    """Nobody wants to know."""


class FlushPolicy(StrEnum):
    """When records are on disk (`log.flush`)."""

    COMMIT = "commit"
    """Before they are acknowledged."""
    INTERVAL = "interval"
    """Some time after they are."""
    OS = "os"
    """When the system likes."""


class Waiter(ABC):
    """Who waits until everything that a log has just now is safe under the policy."""

    __slots__ = ("end", "log")

    def __init__(self, log: SegmentLog) -> None:
        self.log = log
        self.end = log.end_offset
        """Where the log ends."""

    @abstractmethod
    def flushed(self, error: OSError | None) -> None:
        """Called once: with None when it is safe, or with what went wrong."""


class _WaitingFuture(Waiter):
    """Resolves a future."""

    __slots__ = ("_future",)

    def __init__(self, log: SegmentLog, future: "asyncio.Future[None]") -> None:
        super().__init__(log)
        self._future = future

    def flushed(self, error: OSError | None) -> None:
        """See Waiter."""
        if self._future.done():
            return
        if error is None:
            self._future.set_result(None)
        else:
            self._future.set_exception(error)


class Flusher:
    """Makes the logs of one data directory durable."""

    def __init__(
        self,
        policy: FlushPolicy = FlushPolicy.COMMIT,
        interval_ms: int = DEFAULT_INTERVAL_MS,
        journal: Journal | None = None,
        write_out_seconds: float = WRITE_OUT_SECONDS,
        soon: Soon | None = None,
        later: CallLater | None = None,
    ) -> None:
        """The journal, if there is one, belongs to whoever made it, and so do its logs."""
        self._policy = policy
        self._interval_seconds = interval_ms / 1000
        self._write_out_seconds = write_out_seconds
        self._journal = journal if journal is not None and journal.is_written else None
        self._answers_early = self._journal is None and policy is not FlushPolicy.COMMIT
        """Who flushes has nothing to wait for: the segments are written already."""
        self._waiting: list[Waiter] = []
        self._under_way: list[Waiter] | None = None
        """Who waits for the pass."""
        self._unsynced: dict[SegmentLog, None] = {}
        """Logs with something that is answered before it is synced."""
        self._soon = soon or SoonInLoop()
        self._is_due = False
        """Whether a pass is going to begin."""
        syncs = self._journal is not None and self._journal.syncs
        self._linger = Linger() if syncs else None
        self._call_later = later or _later_in_loop
        self._records: Records = {}
        """Of the pass that is under way, if passes may wait for more."""
        self._passes = 0
        """Those that have ended."""
        self._give_up: asyncio.Handle | None = None
        """Begins a pass that has waited for long."""
        self._later: asyncio.Handle | None = None
        """Begins a pass after an interval."""
        self._kept_back: list[SegmentLog] = []
        """Logs that may have something their segments lack; they know that they are among these."""
        self._write_out: asyncio.Handle | None = None
        self._write_out_at = WRITE_OUT_BYTES
        """Not to wait for that handle once the journal has got so many bytes."""
        self._sync_journal: asyncio.Handle | None = None
        self._settled: asyncio.Future[None] | None = None
        """What `close` waits for."""
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._syncer: Thread | None = None

    def flush(self, log: SegmentLog) -> "asyncio.Future[None]":
        """Done when everything appended to the log so far is safe under the policy.

        Fails with the OSError of the log's sync, and only of this log's.
        """
        future = asyncio.get_running_loop().create_future()
        self.wait(_WaitingFuture(log, future))
        return future

    def wait(self, waiter: Waiter) -> None:
        """As `flush`; the waiter is told, from the event loop or at once."""
        if self._answers_early:
            self._unsynced[waiter.log] = None
            self._begin_after_interval()
            waiter.flushed(None)
            return
        self._waiting.append(waiter)
        if not self._is_due and self._under_way is None:
            self._begin_soon()

    async def close(self) -> None:
        """Make durable what is left, under every policy, and end the thread."""
        if self._later is not None:
            self._later.cancel()
        self._linger = None
        if self._give_up is not None:
            self._give_up.cancel()
        await self._settle()
        if self._waiting or self._unsynced:
            self._begin_pass()
            await self._settle()
        for handle, begin in (
            (self._write_out, self._begin_write_out),
            (self._sync_journal, self._begin_sync),
        ):
            if handle is not None:
                handle.cancel()
                begin()
        if self._syncer is not None:
            self._jobs.put(None)
            await asyncio.to_thread(self._syncer.join)
            self._syncer = None

    async def _settle(self) -> None:
        """Wait until no pass is under way."""
        while self._under_way is not None:
            self._settled = asyncio.get_running_loop().create_future()
            await self._settled

    # --- passes ---

    def _begin_soon(self) -> None:
        self._is_due = True
        self._soon(self._begin_pass)

    def _begin_after_interval(self) -> None:
        if self._policy is FlushPolicy.INTERVAL and not self._is_due and self._under_way is None:
            self._is_due = True
            loop = asyncio.get_running_loop()
            self._later = loop.call_later(self._interval_seconds, self._begin_pass)

    def _begin_pass(self) -> None:
        self._is_due = False
        if self._under_way is not None:
            return
        if self._journal is None:
            self._begin_sync_pass()
        elif self._waiting and not self._waits_for_more():
            self._begin_journal_pass(self._journal)

    def _begin_journal_pass(self, journal: Journal) -> None:
        """Write what is new of all logs at once; nothing to do if nothing is."""
        waiting, self._waiting = self._waiting, []
        self._under_way = waiting
        logs: list[SegmentLog] = []
        parts: list[bytes] = []
        for waiter in waiting:
            log = waiter.log
            if log.failed is None and (entries := log.take_entries()):
                logs.append(log)
                parts.extend(entries)

        def write() -> None:
            try:
                journal.write(parts, logs)
            except OSError as error:
                for log in logs:
                    log.give_up(error)

        if logs and journal.syncs:
            self._do(write, self._end_journal_pass)
            return
        if logs:
            write()
        self._end_journal_pass()

    def _end_journal_pass(self, _result: None = None) -> None:
        under_way = self._end_pass()
        for waiter in under_way:
            log = waiter.log
            # One that failed meanwhile is cut to what was durable then.
            if log.failed is None:
                log.journaled(waiter.end)
                if not log.is_kept_back:
                    log.is_kept_back = True
                    self._kept_back.append(log)
            waiter.flushed(log.failed)
        if self._kept_back:
            self._finish_later()
        if self._linger is not None:
            self._learn(self._linger)
        self._wake_settled()

    def _begin_sync_pass(self) -> None:
        """Sync every log on its own."""
        waiting, self._waiting = self._waiting, []
        unsynced, self._unsynced = self._unsynced, {}
        logs = unsynced | dict.fromkeys([waiter.log for waiter in waiting])
        if not logs:
            return
        self._under_way = waiting

        def sync() -> _Failures:
            failures: _Failures = {}
            for log in logs:
                try:
                    log.sync()
                except OSError as error:
                    failures[log] = error
            return failures

        self._do(sync, self._end_sync_pass)

    def _end_sync_pass(self, failures: _Failures) -> None:
        for waiter in self._end_pass():
            waiter.flushed(failures.get(waiter.log))
        self._wake_settled()

    def _end_pass(self) -> list[Waiter]:
        """Let the next one begin; returns who waited for this one."""
        under_way, self._under_way = self._under_way or [], None
        if self._waiting and not self._is_due:
            self._begin_soon()
        if self._unsynced:
            self._begin_after_interval()
        return under_way

    def _wake_settled(self) -> None:
        if self._settled is not None and not self._settled.done():
            self._settled.set_result(None)

    # --- waiting for more ---

    def _waits_for_more(self) -> bool:
        linger = self._linger
        if linger is None:
            return False
        self._records = _new_records(self._waiting)
        return linger.wanted > 0 and sum(self._records.values()) < linger.wanted

    def _learn(self, linger: Linger) -> None:
        self._passes += 1
        linger.ended(self._records, _new_records(self._waiting))
        if linger.wanted and self._give_up is None:
            self._give_up_later(linger)

    def _give_up_later(self, linger: Linger) -> None:
        """One timer for many passes: it looks whether the same one waits as when it began."""
        passes = self._passes

        def look() -> None:
            self._give_up = None
            if self._under_way is None and self._passes == passes:
                if self._waiting:
                    linger.in_vain()
                else:
                    linger.stop()
                self._begin_pass()
            elif linger.wanted:
                self._give_up_later(linger)

        self._give_up = self._call_later(LINGER_SECONDS, look)

    # --- what follows a write of the journal ---

    def _finish_later(self) -> None:
        journal = self._journal
        assert journal is not None
        if journal.written_bytes >= self._write_out_at:
            self._begin_write_out()
        elif self._write_out is None:
            self._write_out = _later_in_loop(self._write_out_seconds, self._begin_write_out)
        if self._policy is FlushPolicy.INTERVAL and self._sync_journal is None:
            self._sync_journal = _later_in_loop(self._interval_seconds, self._begin_sync)

    def _begin_write_out(self) -> None:
        if self._write_out is not None:
            self._write_out.cancel()
            self._write_out = None
        if self._journal is not None:
            self._write_out_at = self._journal.written_bytes + WRITE_OUT_BYTES
        logs, self._kept_back = self._kept_back, []
        for log in logs:
            log.is_kept_back = False

        def write_out() -> None:
            for log in logs:
                # One that fails says so to whoever uses it next.
                with suppress(OSError):
                    log.write_out()

        self._do(write_out)

    def _begin_sync(self) -> None:
        self._sync_journal = None
        journal = self._journal
        assert journal is not None
        self._do(journal.sync, journal.abandon)

    # --- the thread ---

    def _do(self, work: Callable[[], _Result], then: Callable[[_Result], None] = _nothing) -> None:
        """Work in the thread; `then` is called with the result, from the event loop."""
        if self._syncer is None:
            self._syncer = Thread(target=self._run, name="flusher", daemon=True)
            self._syncer.start()
        loop = asyncio.get_running_loop()

        def job() -> None:
            result = work()
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(then, result)

        self._jobs.put(job)

    def _run(self) -> None:
        """Do what comes through the queue."""
        while (job := self._jobs.get()) is not None:
            job()


def _later_in_loop(seconds: float, call: Callable[[], None]) -> asyncio.Handle:
    return asyncio.get_running_loop().call_later(seconds, call)


def _new_records(waiting: list[Waiter]) -> Records:
    """How many records of logs the journal does not have yet."""
    records: Records = {}
    for waiter in waiting:
        log = waiter.log
        records[log.name] = log.end_offset - log.durable_offset
    return records

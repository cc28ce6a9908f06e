"""Group commit: one write, or one pass of syncs, for every log that has something new.

With a journal a pass is one write into it. If that has to be on disk first, a thread does it and
the next pass accumulates meanwhile, and may wait for more (`linger`), so the number of writes
follows the disk, not the number of appends; otherwise it is done at once, once per turn of the
event loop. The segments get what was kept back some time later. Without a journal a pass syncs
every log on its own.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
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
WRITE_OUT_SECONDS: Final = 0.05
"""How long the segments may lack what the journal has."""

Flushed = Callable[[OSError | None], None]
"""Called once: with None when all is safe, or with what went wrong."""
CallLater = Callable[[float, Callable[[], None]], asyncio.Handle]
"""Has something called after so many seconds."""
_Failures = Mapping[SegmentLog, OSError]
_Pass = Callable[[], _Failures]
"""Does the work of a pass; returns what failed, by log."""
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
        self._waiting: dict[SegmentLog, list[Flushed]] = {}
        self._under_way: list[tuple[SegmentLog, int, list[Flushed]]] | None = None
        """The logs of the pass, where they ended when it began, and who waits."""
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
        self._kept_back: dict[SegmentLog, None] = {}
        """Logs that may have something their segments lack."""
        self._write_out: asyncio.Handle | None = None
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

        def resolve(error: OSError | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)

        self.flush_then(log, resolve)
        return future

    def flush_then(self, log: SegmentLog, then: Flushed) -> None:
        """As `flush`; `then` is called, from the event loop or at once, when it is done."""
        waiting = self._waiting.get(log)
        if waiting is None:
            waiting = self._waiting[log] = []
        if not self._is_due and self._under_way is None:
            self._schedule()
        if self._answers_early:
            then(None)
        else:
            waiting.append(then)

    async def close(self) -> None:
        """Make durable what is left, under every policy, and end the thread."""
        if self._later is not None:
            self._later.cancel()
        self._linger = None
        if self._give_up is not None:
            self._give_up.cancel()
        await self._settle()
        if self._waiting:
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

    def _schedule(self) -> None:
        if not self._answers_early:
            self._is_due = True
            self._soon(self._begin_pass)
        elif self._policy is FlushPolicy.INTERVAL:
            self._is_due = True
            loop = asyncio.get_running_loop()
            self._later = loop.call_later(self._interval_seconds, self._begin_pass)

    def _begin_pass(self) -> None:
        self._is_due = False
        if self._under_way is not None or not self._waiting or self._waits_for_more():
            return
        waiting, self._waiting = self._waiting, {}
        self._under_way = [(log, log.end_offset, then) for log, then in waiting.items()]
        work = self._journal_pass(waiting) if self._journal else _sync_pass(waiting)
        if work is None:
            self._end_pass({})
        elif self._journal is not None and not self._journal.syncs:
            self._end_pass(work())
        else:
            self._do(work, self._end_pass)

    def _journal_pass(self, logs: Iterable[SegmentLog]) -> _Pass | None:
        """Write what is new of all logs at once; nothing to do if nothing is."""
        journal = self._journal
        assert journal is not None
        bodies = {log: body for log in logs if log.failed is None and (body := log.take_entries())}
        if not bodies:
            return None

        def write() -> _Failures:
            try:
                journal.write(b"".join(bodies.values()), [log.name for log in bodies])
            except OSError as error:
                for log in bodies:
                    log.give_up(error)
                return dict.fromkeys(bodies, error)
            return {}

        return write

    def _end_pass(self, failures: _Failures) -> None:
        under_way, self._under_way = self._under_way or [], None
        if self._waiting and not self._is_due:
            self._schedule()
        for log, end, waiting in under_way:
            error = failures.get(log)
            if self._journal is not None:
                # One that failed meanwhile is cut to what was durable then.
                error = error or log.failed
                if error is None:
                    log.journaled(end)
                    self._kept_back[log] = None
            for then in waiting:
                then(error)
        if self._kept_back:
            self._finish_later()
        if self._linger is not None:
            self._learn(self._linger)
        if self._settled is not None and not self._settled.done():
            self._settled.set_result(None)

    # --- waiting for more ---

    def _waits_for_more(self) -> bool:
        linger = self._linger
        if linger is None:
            return False
        self._records = _new_records(self._waiting)
        return sum(self._records.values()) < linger.wanted

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
        loop = asyncio.get_running_loop()
        if self._write_out is None:
            self._write_out = loop.call_later(self._write_out_seconds, self._begin_write_out)
        if self._policy is FlushPolicy.INTERVAL and self._sync_journal is None:
            self._sync_journal = loop.call_later(self._interval_seconds, self._begin_sync)

    def _begin_write_out(self) -> None:
        self._write_out = None
        logs, self._kept_back = list(self._kept_back), {}

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


def _new_records(logs: Iterable[SegmentLog]) -> Records:
    """How many records of logs the journal does not have yet."""
    return {log.name: log.end_offset - log.durable_offset for log in logs}


def _sync_pass(logs: Iterable[SegmentLog]) -> _Pass:
    """Sync every log on its own."""

    def sync() -> _Failures:
        failures: dict[SegmentLog, OSError] = {}
        for log in logs:
            try:
                log.sync()
            except OSError as error:
                failures[log] = error
        return failures

    return sync

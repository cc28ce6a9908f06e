"""Whatever goes wrong in a pass, or beside it, ends with it: the next one is as any other."""

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Any

import pytest

from coordinator_server.storage.segments import threads
from coordinator_server.storage.segments.flush_waiter import FlushWaiter
from coordinator_server.storage.segments.flusher import Flusher, FlushPolicy
from coordinator_server.storage.segments.log import SegmentLog
from coordinator_server.storage.segments.threads import DiskThreads, start_thread
from tests.support.journaled_logs import append, found, journal_on, log_on, simulated_disk

pytestmark = pytest.mark.interpreted

FAILURES = [MemoryError("no room"), RuntimeError("a bug"), OSError(5, "Input/output error")]
PATIENCE = 30
Reports = list[tuple[str, dict[str, Any]]]


class Site:
    """Two logs and a flusher, of which the tests may replace the threads."""

    def __init__(self, policy: FlushPolicy, *, journaled: bool) -> None:
        self.disk = simulated_disk()
        self.journal = journal_on(self.disk, syncs=policy is FlushPolicy.COMMIT)
        self.journal.is_written = journaled
        self.reports: Reports = []
        self.refuses = 0
        """How many threads the system has none for."""
        self.flusher = Flusher(
            policy,
            3_600_000,
            self.journal,
            write_out_seconds=3_600,
            report=lambda event, **fields: self.reports.append((event, fields)),
            start=self._start,
        )
        self.logs = [log_on(self.disk, self.journal, name) for name in ("a-0", "b-0")]

    def _start(self, run: Callable[[], None], name: str) -> threading.Thread:
        if self.refuses:
            self.refuses -= 1
            raise RuntimeError("can't start new thread")
        return start_thread(run, name)

    async def put(self, log: SegmentLog, number: int) -> None:
        append(log, number)
        await asyncio.wait_for(self.flusher.flush(log), PATIENCE)

    def fail_once(self, monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
        """Let the next write raise, whatever writes."""

        def fail(*_args: object) -> None:
            monkeypatch.undo()
            raise error

        monkeypatch.setattr(self.journal, "write", fail)
        for operation in ("sync", "write_out"):
            monkeypatch.setattr(SegmentLog, operation, fail)


@pytest.fixture(params=[*FlushPolicy])
def policy(request: pytest.FixtureRequest) -> FlushPolicy:
    return FlushPolicy(request.param)


@pytest.fixture(params=[True, False], ids=["journal", "files"])
def site(request: pytest.FixtureRequest, policy: FlushPolicy) -> Site:
    return Site(policy, journaled=request.param)


@pytest.mark.parametrize("error", FAILURES, ids=repr)
async def test_a_pass_that_fails_is_told_to_its_waiters_and_the_next_one_succeeds(
    site: Site, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, other = site.logs
    await site.put(first, 0)
    site.fail_once(monkeypatch, error)
    with pytest.raises(OSError, match=str(error.args[-1])):
        await site.put(first, 1)
    await site.put(other, 0)
    await site.flusher.close()
    assert found(other) == [0]


async def test_without_a_thread_the_pass_fails_and_the_next_one_tries_again(site: Site) -> None:
    first, other = site.logs
    site.refuses = 1
    with pytest.raises(OSError, match="the thread flusher: can't start new thread"):
        await site.put(first, 0)
    await site.put(other, 0)
    await site.flusher.close()


def kill_thread(monkeypatch: pytest.MonkeyPatch, before: Callable[[], None]) -> None:
    """Have the next job end its thread, which is noticed soon."""
    monkeypatch.setattr(threads, "CHECK_SECONDS", 0.001)
    monkeypatch.setattr(threading, "excepthook", lambda _args: None)
    run = threads.Job.run

    def die(_job: threads.Job) -> None:
        monkeypatch.setattr(threads.Job, "run", run)
        before()
        raise SystemExit

    monkeypatch.setattr(threads.Job, "run", die)


async def test_a_thread_that_has_died_is_replaced_and_its_pass_has_failed(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, other = site.logs
    kill_thread(monkeypatch, lambda: None)
    with pytest.raises(OSError, match="the thread flusher has ended"):
        await site.put(first, 0)
    await site.put(other, 0)
    await site.flusher.close()


async def test_a_thread_that_died_and_cannot_be_replaced_fails_all_that_waits(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, other = site.logs
    kill_thread(monkeypatch, lambda: setattr(site, "refuses", 1))
    with pytest.raises(OSError, match="has ended"):
        await site.put(first, 0)
    await site.put(other, 0)
    await site.flusher.close()


class _Raises(FlushWaiter):
    def __init__(self, log: SegmentLog, error: BaseException) -> None:
        super().__init__(log)
        self._error = error

    def flushed(self, error: OSError | None) -> None:
        raise self._error


@pytest.mark.parametrize("error", [*FAILURES, asyncio.CancelledError()], ids=repr)
async def test_a_waiter_that_raises_keeps_no_other_from_being_told(
    site: Site, error: BaseException
) -> None:
    bugs: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: bugs.append(context))
    first, other = site.logs
    append(first, 0)
    site.flusher.wait(_Raises(first, error))
    await site.put(other, 0)
    await site.put(first, 1)
    await site.flusher.close()
    assert [bug["exception"] for bug in bugs] == [error]
    assert "a-0" in bugs[0]["message"]


async def test_what_is_learned_from_a_pass_may_fail_and_the_passes_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bugs: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: bugs.append(context))
    site = Site(FlushPolicy.COMMIT, journaled=True)

    def fail(_linger: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(site.flusher, "_update_linger", fail)
    for number in range(3):
        await site.put(site.logs[0], number)
    await site.flusher.close()
    assert len(bugs) == 1


async def test_writing_out_that_fails_ends_the_log_alone_and_the_next_one_succeeds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site = Site(FlushPolicy.COMMIT, journaled=True)
    first, other = site.logs
    await site.put(first, 0)
    await site.put(other, 0)
    write_out = SegmentLog.write_out

    def fail(log: SegmentLog) -> int:
        if log is first:
            raise MemoryError("no room")
        return write_out(log)

    monkeypatch.setattr(SegmentLog, "write_out", fail)
    site.refuses = 1
    site.flusher._background._begin_write_out()
    assert [event for event, _ in site.reports] == ["segments_not_written"]
    await site.flusher.close()
    assert first.failed is not None
    assert other.failed is None
    assert other.unwritten_bytes == 0


async def test_what_a_full_disk_has_refused_takes_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(FlushPolicy.COMMIT, journaled=True)
    unwritten = site.flusher.unwritten

    def fail(*_args: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(site.journal, "write", fail)
        append(site.logs[0], 0, size=unwritten._room_bytes)
        with pytest.raises(OSError, match="No space left"):
            await site.flusher.flush(site.logs[0])
    await unwritten.wait_for_room(0.001)
    assert unwritten.bytes == 0
    assert not unwritten._logs
    await site.flusher.close()


async def test_a_completion_is_posted_again_where_there_was_no_memory_for_it(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    call = loop.call_soon_threadsafe
    failures = [MemoryError(), RuntimeError("busy")]

    def call_soon(*args: Any) -> asyncio.Handle:
        if failures:
            raise failures.pop()
        return call(*args)

    monkeypatch.setattr(loop, "call_soon_threadsafe", call_soon)
    await site.put(site.logs[0], 0)
    await site.flusher.close()
    assert failures == []


def test_a_thread_that_ends_after_the_event_loop_is_content(site: Site) -> None:
    gate = threading.Event()
    site.disk.on_operation = lambda _operation: None

    async def begin() -> None:
        def wait(operation: str) -> None:
            if operation in ("append", "write"):
                assert gate.wait(PATIENCE)

        site.disk.on_operation = wait
        append(site.logs[0], 0)
        site.flusher.flush(site.logs[0])
        await asyncio.sleep(0)

    asyncio.run(begin())
    gate.set()
    site.flusher._flush_thread.end()
    assert site.flusher._flush_thread._worker is not None
    site.flusher._flush_thread._worker.join(PATIENCE)
    assert not site.flusher._flush_thread.is_alive


async def test_after_the_end_nobody_waits_for_the_flusher(site: Site) -> None:
    await site.flusher.close()
    append(site.logs[0], 0)
    with pytest.raises(OSError, match="the server is stopping"):
        await site.flusher.flush(site.logs[0])


async def test_closing_gives_up_in_time_and_tells_who_waits(site: Site) -> None:
    gate, reached = threading.Event(), threading.Event()

    def wait(operation: str) -> None:
        if operation in ("append", "write", "sync"):
            reached.set()
            assert gate.wait(PATIENCE)

    site.disk.on_operation = wait
    append(site.logs[0], 0)
    future = site.flusher.flush(site.logs[0])
    assert await asyncio.to_thread(reached.wait, PATIENCE)
    left = await site.flusher.close(0.01)
    gate.set()
    assert left == [site.logs[0]]
    with pytest.raises(OSError, match=r"a-0 was not flushed within 0\.01 s"):
        await future
    event, fields = site.reports[-1]
    assert (event, fields["directories"]) == ("logs_not_flushed", ["a-0"])


async def test_work_for_disk_threads_fails_alone() -> None:
    starts = 0

    def start(run: Callable[[], None], name: str) -> threading.Thread:
        nonlocal starts
        starts += 1
        if starts == 1:
            raise RuntimeError("can't start new thread")
        return start_thread(run, name)

    pool = DiskThreads("some", 2, start)
    with pytest.raises(OSError, match="can't start new thread"):
        await pool.run(lambda: 1)

    def fail() -> None:
        raise MemoryError("no room")

    with pytest.raises(MemoryError):
        await pool.run(fail)
    names = [pool.run(lambda: threading.current_thread().name) for _ in range(9)]
    results = await asyncio.gather(*names)
    assert results == ["some"] * 9
    assert starts <= 3


@pytest.mark.parametrize("error", [*FAILURES, asyncio.CancelledError()], ids=repr)
async def test_a_pass_of_which_the_completion_raises_has_failed(
    site: Site, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)
    end_pass = site.flusher._end_flush

    def fail_once(*arguments: Any) -> None:
        monkeypatch.setattr(site.flusher, "_end_flush", end_pass)
        raise error

    monkeypatch.setattr(site.flusher, "_end_flush", fail_once)
    first, other = site.logs
    with pytest.raises(OSError):  # noqa: PT011 - whatever it was, as an error of the log
        await site.put(first, 0)
    await site.put(other, 0)
    await site.flusher.close()


@pytest.mark.parametrize("error", [*FAILURES, asyncio.CancelledError()], ids=repr)
async def test_a_waiter_that_could_not_take_its_result_has_failed(
    site: Site, error: BaseException
) -> None:
    asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)
    told: list[OSError | None] = []

    class RaisesOnce(FlushWaiter):
        def flushed(self, error_: OSError | None) -> None:
            told.append(error_)
            if len(told) == 1:
                raise error

    append(site.logs[0], 0)
    site.flusher.wait(RaisesOnce(site.logs[0]))
    await site.put(site.logs[1], 0)
    await site.flusher.close()
    assert told[0] is None
    assert isinstance(told[1], OSError)


async def test_a_write_out_that_cannot_begin_is_begun_after_the_next_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop = asyncio.get_running_loop()
    failed, exclusive_after_write = asyncio.Event(), asyncio.Event()
    loop.set_exception_handler(lambda _loop, _context: failed.set())
    site = Site(FlushPolicy.COMMIT, journaled=True)
    background = site.flusher._background
    background._write_out_seconds = 0.0
    begin, end = background._begin_write_out, background._end_write_out

    def fail_once() -> None:
        monkeypatch.setattr(background, "_begin_write_out", begin)
        raise MemoryError("no room")

    def ended() -> None:
        end()
        exclusive_after_write.set()

    monkeypatch.setattr(background, "_begin_write_out", fail_once)
    monkeypatch.setattr(background, "_end_write_out", ended)
    await site.put(site.logs[0], 0)
    await asyncio.wait_for(failed.wait(), PATIENCE)
    await site.put(site.logs[0], 1)
    await asyncio.wait_for(exclusive_after_write.wait(), PATIENCE)
    assert site.logs[0].unwritten_bytes == 0
    await site.flusher.close()


class FailingQueue(queue.SimpleQueue[Any]):
    """The first threads that take work from it die of that."""

    def __init__(self, failures: int) -> None:
        super().__init__()
        self.failures = failures

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        if self.failures:
            self.failures -= 1
            raise MemoryError
        return super().get(block, timeout)


async def test_work_of_a_thread_that_dies_before_it_takes_any_is_done_by_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(threading, "excepthook", lambda _args: None)
    started: list[threading.Thread] = []

    def start(run: Callable[[], None], name: str) -> threading.Thread:
        started.append(start_thread(run, name))
        return started[-1]

    pool = DiskThreads("some", 1, start)
    pool._jobs = FailingQueue(3)
    assert await asyncio.wait_for(pool.run(lambda: 7), 10) == 7
    for dead in started[:-1]:
        dead.join()


async def test_work_that_no_thread_can_be_started_for_any_more_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(threading, "excepthook", lambda _args: None)
    started: list[threading.Thread] = []

    def start(run: Callable[[], None], name: str) -> threading.Thread:
        if started:
            raise RuntimeError("can't start new thread")
        started.append(start_thread(run, name))
        return started[0]

    pool = DiskThreads("some", 1, start)
    pool._jobs = FailingQueue(1)
    with pytest.raises(OSError, match="can't start new thread"):
        await asyncio.wait_for(pool.run(lambda: 7), 10)
    started[0].join()

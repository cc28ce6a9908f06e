"""The threads that wait for disks.

All are daemon threads: the process can exit while a disk operation hangs. Records of such an
operation were never acknowledged, so none are lost.
"""

import asyncio
import errno
import queue
import threading
import time
from asyncio import CancelledError
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final, Protocol, TypeVar

StartThread = Callable[[Callable[[], None], str], threading.Thread]
"""`start(run, name)` starts a thread; raises RuntimeError if the system has none left."""

CHECK_SECONDS: Final = 1.0
"""Interval at which a thread with work is checked to be alive."""
POST_ATTEMPTS: Final = 100
POST_RETRY_SECONDS: Final = 0.01

_Result = TypeVar("_Result")


def start_thread(run: Callable[[], None], name: str) -> threading.Thread:
    """Start a daemon thread. Raises RuntimeError."""
    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return thread


def as_os_error(error: BaseException) -> OSError:
    """Return the error itself if it is an OSError, otherwise an OSError (EIO) caused by it."""
    if isinstance(error, OSError):
        return error
    wrapped = OSError(errno.EIO, f"{type(error).__name__}: {error}")
    wrapped.__cause__ = error
    return wrapped


def post(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> bool:
    """Schedule a call on the event loop from a thread; returns False if the loop is closed.

    Any other failure, such as MemoryError, is retried: without its completion a flush would never
    end.
    """
    for _ in range(POST_ATTEMPTS):
        try:
            loop.call_soon_threadsafe(call)
        except Exception:  # noqa: BLE001 - see above
            if loop.is_closed():
                return False
            time.sleep(POST_RETRY_SECONDS)
        else:
            return True
    return False


class Job:
    """Work for a thread, with callbacks on the event loop: `then` or `failed` is called once.

    If the callback raises, `failed` is called after it, so that nothing waits for the job forever.
    """

    __slots__ = ("_failed", "_is_over", "_loop", "_then", "_work")

    def __init__(
        self,
        work: Callable[[], object],
        then: Callable[[], None],
        failed: Callable[[OSError], None],
    ) -> None:
        """Must be called on the event loop that runs the callbacks."""
        self._work = work
        self._then = then
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._is_over = False

    def run(self) -> None:
        """Do the work in the thread; exceptions of the work go to `failed`."""
        try:
            self._work()
        except BaseException as error:  # noqa: BLE001 - whatever it is, the loop must learn of it
            self.fail(error)
        else:
            self._end(None)

    def fail(self, error: BaseException) -> None:
        """Report that the work failed or was not done."""
        self._end(as_os_error(error))

    def _end(self, error: OSError | None) -> None:
        if self._is_over:
            return
        self._is_over = True
        post(self._loop, partial(self._tell, error))

    def _tell(self, error: OSError | None) -> None:
        try:
            if error is None:
                self._then()
            else:
                self._failed(error)
        except (Exception, CancelledError) as bug:  # noqa: BLE001 - see above
            context = {"message": "the callback of a storage job has failed", "exception": bug}
            self._loop.call_exception_handler(context)
            self._failed(as_os_error(bug))


class JobThread:
    """Runs jobs in order in one thread, which is started on demand and replaced if it dies."""

    def __init__(self, name: str, start: StartThread = start_thread) -> None:
        self._name = name
        self._start = start
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._current: Job | None = None
        self._submitted = 0
        self._finished = 0
        """Counted by the thread; equal to `_submitted` when the thread is idle."""
        self._worker: threading.Thread | None = None
        self._check: asyncio.Handle | None = None
        """Timer that checks whether the thread is alive."""

    def submit(self, job: Job) -> None:
        """Queue a job. Raises OSError if the system cannot start a thread."""
        self._ensure()
        self._submitted += 1
        self._jobs.put(job)
        self._check_later()

    def end(self) -> None:
        """End the thread once it is idle; a thread that waits for a disk ends with the process."""
        if self._check is not None:
            self._check.cancel()
        if self._worker is not None:
            self._jobs.put(None)

    @property
    def is_alive(self) -> bool:
        """Whether the thread is running."""
        return self._worker is not None and self._worker.is_alive()

    def _ensure(self) -> None:
        """Start a thread if none is alive, and fail the job of a thread that has died.

        Raises OSError if the system cannot start a thread.
        """
        thread = self._worker
        if thread is not None:
            if thread.is_alive():
                return
            self._fail_current()
        try:
            self._worker = self._start(self._run, self._name)
        except RuntimeError as error:
            raise OSError(errno.EAGAIN, f"the thread {self._name}: {error}") from error

    def _fail_current(self) -> None:
        current, self._current = self._current, None
        if current is not None:
            self._finished += 1
            current.fail(OSError(errno.EIO, f"the thread {self._name} has ended"))

    def _check_later(self) -> None:
        if self._check is None:
            loop = asyncio.get_running_loop()
            self._check = loop.call_later(CHECK_SECONDS, self._check_thread)

    def _check_thread(self) -> None:
        """Replace a thread that has died; without a replacement, fail every queued job."""
        self._check = None
        if self._finished >= self._submitted:
            return
        try:
            self._ensure()
        except OSError as error:
            while not self._jobs.empty():
                job = self._jobs.get_nowait()
                self._finished += 1
                if job is not None:
                    job.fail(error)
        self._check_later()

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            self._current = job
            job.run()
            self._current = None
            self._finished += 1


def _resolve(future: "asyncio.Future[_Result]", how: Callable[[], None]) -> None:
    try:
        if not future.done():
            how()
    except (Exception, CancelledError) as error:  # noqa: BLE001 - nobody may wait for ever
        if not future.done():
            future.set_exception(as_os_error(error))


class _DiskJob(Protocol):
    def __call__(self, refused: OSError | None = None, /) -> None:
        """Do the work, unless it is refused."""


class DiskThreads:
    """A small pool of threads whose work is awaited on an event loop."""

    def __init__(self, name: str, most: int, start: StartThread = start_thread) -> None:
        self._name = name
        self._most = most
        self._start = start
        self._jobs: queue.SimpleQueue[_DiskJob] = queue.SimpleQueue()
        self._lock = threading.Lock()
        """Guards what follows."""
        self._threads = 0
        self._unfinished = 0

    async def run(self, work: Callable[[], _Result]) -> _Result:
        """Run work in a thread and return its result.

        A cancelled task cancels work that has not begun. Raises the exception of the work, and
        OSError if the system cannot start a thread.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[_Result] = loop.create_future()

        def job(refused: OSError | None = None) -> None:
            try:
                if future.cancelled():
                    return
                if refused is not None:
                    raise refused  # noqa: TRY301 - told as what the work itself raises
                result = work()
            except BaseException as error:  # noqa: BLE001 - it belongs to who awaits it
                failure = RuntimeError(repr(error)) if isinstance(error, StopIteration) else error
                post(loop, partial(_resolve, future, lambda: future.set_exception(failure)))
            else:
                post(loop, partial(_resolve, future, lambda: future.set_result(result)))

        self._submit(job)
        return await future

    def _submit(self, job: "_DiskJob") -> None:
        with self._lock:
            if self._unfinished >= self._threads and self._threads < self._most:
                self._start_one()
            self._unfinished += 1
            # `_replace` looks at the queue under the same lock.
            self._jobs.put(job)

    def _start_one(self) -> None:
        try:
            self._start(self._run, self._name)
        except RuntimeError as error:
            if not self._threads:
                raise OSError(errno.EAGAIN, f"the threads {self._name}: {error}") from error
        else:
            self._threads += 1

    def _run(self) -> None:
        try:
            while True:
                submitted = self._jobs.get()
                try:
                    submitted()
                finally:
                    with self._lock:
                        self._unfinished -= 1
        finally:
            self._replace()

    def _replace(self) -> None:
        """Start another thread for the queued work when this one dies.

        If that is not possible, the work is refused: it could wait forever for the next `run`.
        """
        refusal = None
        with self._lock:
            self._threads -= 1
            if not self._jobs.empty():
                try:
                    self._start_one()
                except OSError as error:
                    refusal = error
        if refusal is not None:
            self._refuse_all(refusal)

    def _refuse_all(self, error: OSError) -> None:
        with suppress(queue.Empty):
            while True:
                job = self._jobs.get_nowait()
                with self._lock:
                    self._unfinished -= 1
                job(error)


STORAGE_THREADS: Final = DiskThreads("storage", 6)
"""For the coordinator's logs, which must not wait for the topics' logs."""
TOPIC_THREADS: Final = DiskThreads("topic-storage", 6)
CLEANER_THREADS: Final = DiskThreads("log-cleaner", 1)

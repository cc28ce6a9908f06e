"""Locks, conditions, events, queues, threads and executors on a scheduler."""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from itertools import count
from types import TracebackType
from typing import Any

from tests.simulation.storage.scheduler import Killed, Scheduler, SimThread

_numbers = count()


class SimLock:
    """Replaces threading.Lock."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.owner: SimThread | None = None
        self._held = False
        self._waiting: list[SimThread] = []
        self._number = next(_numbers)

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        scheduler = self._scheduler
        if scheduler.is_dead:
            return True  # whatever is unwound may do so
        scheduler.step()
        while self._held:
            if not blocking:
                return False
            thread = scheduler.current
            assert thread is not None
            self._waiting.append(thread)
            owner = "nobody" if self.owner is None else self.owner.name
            scheduler.wait(f"lock {self._number} that {owner} holds")
        self._held = True
        self.owner = scheduler.current
        return True

    def release(self) -> None:
        if self._scheduler.is_dead:
            return
        if not self._held:
            raise RuntimeError("release unlocked lock")
        self._held, self.owner = False, None
        for thread in self._waiting:
            self._scheduler.wake(thread)
        self._waiting.clear()

    def locked(self) -> bool:
        return self._held

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


class SimRLock(SimLock):
    """Replaces threading.RLock."""

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__(scheduler)
        self._depth = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if self._held and self.owner is self._scheduler.current:
            self._depth += 1
            return True
        if not super().acquire(blocking, timeout):
            return False
        self._depth = 1
        return True

    def release(self) -> None:
        self._depth -= 1
        if self._depth == 0:
            super().release()


class SimCondition(SimRLock):
    """Replaces threading.Condition; its lock is its own."""

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__(scheduler)
        self._notified: list[SimThread] = []
        self._sleeping: list[SimThread] = []

    def wait(self, timeout: float | None = None) -> bool:
        scheduler = self._scheduler
        thread, depth = scheduler.current, self._depth
        assert thread is not None
        self._sleeping.append(thread)
        self._depth = 1
        self.release()
        until = None if timeout is None else scheduler.now_ms + int(timeout * 1000)
        scheduler.wait(f"notification of condition {self._number}", until)
        was_notified = thread not in self._sleeping
        if not was_notified:
            self._sleeping.remove(thread)
        self.acquire()
        self._depth = depth
        return was_notified

    def wait_for(self, predicate: Callable[[], bool], timeout: float | None = None) -> bool:
        while not predicate():
            if not self.wait(timeout):
                return predicate()
        return True

    def notify(self, n: int = 1) -> None:
        woken, self._sleeping = self._sleeping[:n], self._sleeping[n:]
        for thread in woken:
            self._scheduler.wake(thread)

    def notify_all(self) -> None:
        self.notify(len(self._sleeping))


class SimEvent:
    """Replaces threading.Event."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._is_set = False
        self._waiting: list[SimThread] = []

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        for thread in self._waiting:
            self._scheduler.wake(thread)
        self._waiting.clear()

    def clear(self) -> None:
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        scheduler = self._scheduler
        scheduler.step()
        if self._is_set:
            return True
        thread = scheduler.current
        assert thread is not None
        self._waiting.append(thread)
        until = None if timeout is None else scheduler.now_ms + max(int(timeout * 1000), 1)
        scheduler.wait("an event", until)
        if thread in self._waiting:
            self._waiting.remove(thread)
        return self._is_set


class SimQueue:
    """Replaces queue.SimpleQueue."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._items: deque[Any] = deque()
        self._waiting: list[SimThread] = []

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        if self._scheduler.is_dead:
            raise Killed
        self._items.append(item)
        if self._waiting:
            self._scheduler.wake(self._waiting.pop(0))

    def get(self) -> Any:
        scheduler = self._scheduler
        scheduler.step()
        while not self._items:
            thread = scheduler.current
            assert thread is not None
            self._waiting.append(thread)
            scheduler.wait("an item of a queue")
        return self._items.popleft()

    def get_nowait(self) -> Any:
        return self._items.popleft()

    def empty(self) -> bool:
        return not self._items

    def qsize(self) -> int:
        return len(self._items)


class SimThreading:
    """Replaces threading.Thread; `fails` may refuse to start one."""

    def __init__(
        self,
        scheduler: Scheduler,
        target: Callable[..., object],
        name: str = "thread",
        daemon: bool | None = None,
        args: tuple[Any, ...] = (),
    ) -> None:
        self.name = name
        self.daemon = daemon
        self._scheduler = scheduler
        self._target = target
        self._args = args
        self._thread: SimThread | None = None
        self._joining: list[SimThread] = []
        self._ended = False

    def start(self) -> None:
        if self._scheduler.is_dead:
            raise Killed
        self._thread = self._scheduler.spawn(self.name, self._run)

    def _run(self) -> None:
        try:
            self._target(*self._args)
        finally:
            self._ended = True
            for thread in self._joining:
                self._scheduler.wake(thread)

    def join(self, timeout: float | None = None) -> None:
        scheduler = self._scheduler
        scheduler.step()
        until = None if timeout is None else scheduler.now_ms + int(timeout * 1000)
        while not self._ended and (until is None or scheduler.now_ms < until):
            thread = scheduler.current
            assert thread is not None
            self._joining.append(thread)
            scheduler.wait(f"the end of {self.name}", until)

    def is_alive(self) -> bool:
        return self._thread is not None and not self._ended


class SimExecutor:
    """Replaces concurrent.futures.ThreadPoolExecutor."""

    def __init__(
        self, scheduler: Scheduler, max_workers: int | None = None, thread_name_prefix: str = "pool"
    ) -> None:
        self._scheduler = scheduler
        self._most = max_workers or 6
        self._name = thread_name_prefix
        self._jobs: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._idle: list[SimThread] = []
        self._workers: list[SimThreading] = []
        self._closed = False

    def submit(self, function: Callable[..., Any], *args: Any, **options: Any) -> "Future[Any]":
        if self._closed:
            raise RuntimeError("cannot schedule new futures after shutdown")
        future: Future[Any] = Future()
        self._jobs.append((future, lambda: function(*args, **options)))
        if self._idle:
            self._scheduler.wake(self._idle.pop())
        elif len(self._workers) < self._most:
            name = f"{self._name}-{len(self._workers)}"
            worker = SimThreading(self._scheduler, self._work, name)
            self._workers.append(worker)
            worker.start()
        return future

    def _work(self) -> None:
        scheduler = self._scheduler
        while True:
            scheduler.step()
            if self._jobs:
                future, job = self._jobs.popleft()
                if not future.set_running_or_notify_cancel():
                    continue
                try:
                    future.set_result(job())
                except Killed:
                    raise
                except BaseException as error:  # noqa: BLE001 - as the real one
                    future.set_exception(error)
            elif self._closed:
                return
            else:
                thread = scheduler.current
                assert thread is not None
                self._idle.append(thread)
                scheduler.wait("work of an executor")

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._closed = True
        if cancel_futures:
            while self._jobs:
                self._jobs.popleft()[0].cancel()
        for thread in self._idle:
            self._scheduler.wake(thread)
        self._idle.clear()
        if wait:
            for worker in self._workers:
                worker.join()

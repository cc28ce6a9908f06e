"""The event loop of the simulated process: one of its threads."""

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import Any

from coordinator_server.clock import Clock
from tests.simulation.loop import VirtualLoop
from tests.simulation.storage.primitives import SimExecutor
from tests.simulation.storage.scheduler import Scheduler, SimThread

BASE_WALL_MS = 1_700_000_000_000


class SimClock(Clock):
    """The scheduler's time."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def monotonic_ms(self) -> int:
        return self._scheduler.now_ms

    def wall_ms(self) -> int:
        return self._scheduler.now_ms + BASE_WALL_MS


class SimLoop(VirtualLoop):
    """A virtual loop that other threads can wake, and that waits as one of the threads."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.clock = SimClock(scheduler)
        super().__init__(self.clock, scheduler.fail)
        self._scheduler = scheduler
        self._thread: SimThread | None = None
        self._is_waiting = False
        self._default = SimExecutor(scheduler, 6, "asyncio")

    def call_soon_threadsafe(  # type: ignore[override]  # looser in the types of arguments
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        if self.is_closed():
            raise RuntimeError("Event loop is closed")
        handle = self.call_soon(callback, *args, context=context)
        if self._is_waiting and self._thread is not None:
            self._scheduler.wake(self._thread)
        return handle

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, function: Callable[..., Any], *args: Any
    ) -> "asyncio.Future[Any]":
        pool = self._default if executor is None else executor
        return asyncio.wrap_future(pool.submit(function, *args), loop=self)

    def run_main(self, main: Any) -> None:
        """Run a coroutine to its end; called in the loop's own thread."""
        self._thread = self._scheduler.current
        task = self.enter(self.create_task, main)
        while not task.done():
            if self.run_one():
                self._scheduler.step()
                continue
            self._is_waiting = True
            self._scheduler.wait("the event loop", self.next_timer())
            self._is_waiting = False
        task.result()

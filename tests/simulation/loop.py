"""An event loop without a selector, sleeps or randomness.

The runtime uses futures, tasks and `call_soon` of asyncio; the simulation replaces only the loop
below them. Callbacks run one by one in the order that asyncio guarantees, and the simulator
decides which event falls between two of them: a request, a response of the log, time, a crash.
"""

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from itertools import count
from math import ceil
from typing import Any, TypeVar

from coordinator_server.clock import Clock

T = TypeVar("T")

_RUNAWAY = 3_000
"""Callbacks at one point of time after which the loop counts as endless."""


class Timer:
    """An armed timer, which fires once."""

    __slots__ = ("callback", "cancelled")

    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class VirtualLoop(asyncio.BaseEventLoop):
    """Also implements runtime.timers.Timers, on the same clock."""

    def __init__(self, clock: Clock, failed: Callable[[str], None]) -> None:
        super().__init__()
        self._clock = clock
        self._failed = failed
        self._soon: deque[asyncio.Handle] = deque()
        self._armed: list[tuple[int, int, Timer]] = []
        self._number = count()
        self._unfinished: set[asyncio.Task[Any]] = set()

    # --- what asyncio asks of a loop ---

    def time(self) -> float:
        return self._clock.monotonic_ms() / 1000

    def call_soon(  # type: ignore[override]  # looser in the types of arguments
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._soon.append(handle)
        return handle

    def call_later(  # type: ignore[override]
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self.ring_at(ceil(when * 1000), lambda: self._soon.append(handle))
        return handle

    def create_task(self, coro: Any, **options: Any) -> asyncio.Task[Any]:
        task = super().create_task(coro, **options)
        self._unfinished.add(task)
        task.add_done_callback(self._unfinished.discard)
        return task

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self._failed(f"{context.get('message')}: {error!r}")

    def _timer_handle_cancelled(self, _handle: asyncio.TimerHandle) -> None:
        """Do nothing: a cancelled handle has no effect when it is due."""

    # --- driving it ---

    def now_ms(self) -> int:
        return self._clock.monotonic_ms()

    def ring_at(self, deadline_ms: int, callback: Callable[[], object]) -> Timer:
        timer = Timer(callback)
        heapq.heappush(self._armed, (deadline_ms, next(self._number), timer))
        return timer

    @property
    def is_idle(self) -> bool:
        """Whether nothing is ready to run and no timer is due."""
        if self._soon:
            return False
        next_timer = self.next_timer()
        return next_timer is None or next_timer > self._clock.monotonic_ms()

    def next_timer(self) -> int | None:
        while self._armed and self._armed[0][2].cancelled:
            heapq.heappop(self._armed)
        return self._armed[0][0] if self._armed else None

    def run_one(self) -> bool:
        """Run one callback or one due timer; returns whether there was any."""
        if self._soon:
            handle = self._soon.popleft()
            if not handle.cancelled():
                self._enter(handle._run)
            return True
        if self.is_idle:
            return False
        timer = heapq.heappop(self._armed)[2]
        self._enter(timer.callback)
        return True

    def run(self) -> int:
        """Run until nothing is ready; returns the number of callbacks."""
        for ran in range(_RUNAWAY):
            if not self.run_one():
                return ran
        self._failed(f"the loop is still busy after {_RUNAWAY} callbacks at one point of time")
        return _RUNAWAY

    def enter(self, function: Callable[..., T], *args: Any) -> T:
        """Call a function as if from a callback of this loop."""
        return self._enter(function, *args)

    def spawn(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        self._enter(self.create_task, coroutine)

    def kill(self) -> None:
        """Stop for ever, as after a loss of power; coroutines that resume find no loop."""
        self._failed = lambda _error: None
        self._armed.clear()
        for task in list(self._unfinished):
            task.cancel()
        while self._soon:
            self.run_one()
        self.close()

    def _enter(self, function: Callable[..., T], *args: Any) -> T:
        outside = asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        try:
            return function(*args)
        finally:
            asyncio._set_running_loop(outside)


class VirtualTimers:
    """runtime.timers.Timers on a virtual loop."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def call_at(self, deadline_ms: int, callback: Callable[[], None]) -> Timer:
        return self._loop.ring_at(deadline_ms, callback)


class VirtualClock(Clock):
    """The clock of all nodes; the wall clock may jump, the monotonic one may not."""

    def __init__(self) -> None:
        self._now = 1_000_000
        self._wall_ahead = 1_700_000_000_000

    def monotonic_ms(self) -> int:
        return self._now

    def wall_ms(self) -> int:
        return self._now + self._wall_ahead

    def advance_to(self, time: int) -> None:
        self._now = max(self._now, time)

    def jump_wall(self, ms: int) -> None:
        """Set the wall clock."""
        self._wall_ahead += ms

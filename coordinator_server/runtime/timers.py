"""How the runtime is woken: real timers of the event loop, or whatever a test moves."""

import asyncio
from asyncio import CancelledError
from collections.abc import Callable
from contextlib import suppress
from heapq import heapify, heappop, heappush
from typing import Final, Protocol

from coordinator_server.clock import Clock
from coordinator_server.group.purgatory import NEVER
from coordinator_server.runtime.alarm import Alarm


class Cancellable(Protocol):
    """An armed timer."""

    def cancel(self) -> None:
        """Never ring; harmless once it has rung."""
        ...


class Timers(Protocol):
    """Rings at a time of the monotonic clock, never inside the call that arms it."""

    def call_at(self, deadline_ms: int, callback: Callable[[], None]) -> Cancellable:
        """Ring once at `deadline_ms` or soon after; at once if that has passed."""
        ...


class LoopTimers:
    """All deadlines in one heap, behind a single timer of the running event loop.

    Every group has one, and a timer of the loop for each would cost more memory and time.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self._loop = loop
        self._clock = clock
        self._alarms: list[Alarm] = []
        """A heap, by deadline."""
        self._cancelled = 0
        """How many of them are."""
        self._handle: asyncio.TimerHandle | None = None
        self._awaited = NEVER
        """The deadline the loop's timer was armed for."""
        self._was_put_off = False
        """Whether the timer has rung late and was put off, until the sockets have been read."""

    def call_at(self, deadline_ms: int, callback: Callable[[], None]) -> Alarm:
        """See Timers."""
        alarm = Alarm(deadline_ms)
        alarm.callback = callback
        alarm.timers = self
        heappush(self._alarms, alarm)
        if deadline_ms < self._awaited:
            # The earliest: one for which the loop took no timer may be among them.
            self._await(int(self._alarms[0]))
        return alarm

    def forget_one(self) -> None:
        """An alarm was cancelled: it goes when its time comes, or with many others."""
        self._cancelled += 1
        if self._cancelled > _FEW and self._cancelled * 4 > len(self._alarms):
            self._alarms = [alarm for alarm in self._alarms if alarm.callback is not None]
            heapify(self._alarms)
            self._cancelled = 0

    def _await(self, deadline_ms: int) -> None:
        """Have the loop ring; a deadline of centuries is taken in steps it can count."""
        if self._handle is not None:
            self._handle.cancel()
        self._handle, self._awaited = None, NEVER
        delay = max(deadline_ms - self._clock.monotonic_ms(), 0)
        self._handle = self._loop.call_later(min(delay, _LONGEST_MS) / 1000, self._ring)
        self._awaited = deadline_ms

    def _ring(self) -> None:
        """Ring what is due; who arms another one meanwhile is rung in a later turn."""
        awaited, self._awaited = self._awaited, NEVER
        self._handle = None
        now = self._clock.monotonic_ms()
        if now - awaited > LATE_MS and not self._was_put_off:
            self._put_off(min(now - awaited, LONGEST_GRACE_MS), awaited)
            return
        self._was_put_off = False
        due: list[Alarm] = []
        while self._alarms and self._alarms[0] <= now and len(due) < _MOST_AT_ONCE:
            due.append(heappop(self._alarms))
        try:
            if self._alarms:
                self._await(int(self._alarms[0]))
        except (Exception, CancelledError) as error:  # noqa: BLE001 - those due must ring
            self._failed("no timer could be armed", error)
        for alarm in due:
            callback, alarm.callback = alarm.callback, None
            if callback is None:
                self._cancelled -= 1
            else:
                try:
                    callback()
                except (Exception, CancelledError) as error:  # noqa: BLE001 - the others must ring
                    self._failed(f"an alarm failed: {callback}", error)

    def _put_off(self, grace_ms: int, awaited: int) -> None:
        """Ring a little later: the loop was blocked, and what keeps a session may not be read yet.

        The loop reads its sockets meanwhile, which it may not have done before this timer rang.
        """
        try:
            self._handle = self._loop.call_later(grace_ms / 1000, self._ring)
            self._awaited = awaited
            self._was_put_off = True
        except (Exception, CancelledError) as error:  # noqa: BLE001 - the next `call_at` tries again
            self._failed("no timer could be armed", error)

    def _failed(self, message: str, error: BaseException) -> None:
        with suppress(Exception, CancelledError):
            self._loop.call_exception_handler({"message": message, "exception": error})


LATE_MS: Final = 100
"""A timer that rings so much late has been kept from it by a loop that was blocked."""
LONGEST_GRACE_MS: Final = 1_000
"""A late timer is put off by as much as it is late, and by no more than this."""
_FEW: Final = 1_000
_MOST_AT_ONCE: Final = 64
"""How many ring before other work gets a chance."""
_LONGEST_MS: Final = 24 * 60 * 60 * 1000
"""An actor that is woken early looks, finds nothing due and arms its timer again."""

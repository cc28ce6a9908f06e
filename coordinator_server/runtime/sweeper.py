"""Visits the groups of all partitions: to expire offsets, and to forget deleted topics.

The sweep reaches each group as an event, a chunk of groups per turn of the event loop, so that it
never holds up requests for long.
"""

import asyncio
from typing import TYPE_CHECKING, Final

from coordinator_server.group.events import ExpireOffsets
from coordinator_server.loop.task_keeper import TaskKeeper
from coordinator_server.runtime.coordinator import Coordinator
from coordinator_server.runtime.dependencies import RuntimeDependencies
from coordinator_server.runtime.partition import Report

if TYPE_CHECKING:
    from coordinator_server.runtime.timers import Cancellable

GROUPS_PER_TURN: Final = 200
LONGEST_CLOCK_JUMP_MS: Final = 60 * 60 * 1000
"""A wall clock that has moved this much more or less than time itself is not believed at once."""


class Sweeper:
    """Every `interval_ms`, and whenever topics are deleted."""

    def __init__(
        self,
        coordinator: Coordinator,
        dependencies: RuntimeDependencies,
        interval_ms: int,
        report: Report,
    ) -> None:
        self._coordinator = coordinator
        self._dependencies = dependencies
        self._interval_ms = interval_ms
        self._report = report
        self._timer: Cancellable | None = None
        self._due = 0
        """When to sweep next (monotonic milliseconds)."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._deleted: set[str] = set()
        """Topics that were deleted in this turn of the event loop."""
        self._skew = self._clock_skew()
        """Wall clock less monotonic clock, at the last look."""

    def start(self) -> None:
        """Sweep from now on."""
        self._skew = self._clock_skew()
        self._arm()

    def stop(self) -> None:
        """Sweep no more; what is under way ends where it is."""
        if self._timer is not None:
            self._timer.cancel()
        for task in tuple(self._tasks):
            task.cancel()

    def topic_deleted(self, topic: str) -> None:
        """Let every group forget its offsets of a topic, before anybody can make it anew."""
        if not self._deleted:
            asyncio.get_running_loop().call_soon(self._forget_deleted)
        self._deleted.add(topic)

    def _forget_deleted(self) -> None:
        try:
            self._coordinator.forget_topics(frozenset(self._deleted))
        finally:
            # Not tried again: somebody may have made a topic of that name anew.
            self._deleted.clear()

    def sweep(self) -> None:
        """Expire offsets, unless the wall clock has just jumped.

        A clock that was set wrong for a moment must not cost anybody's offsets: the sweep after a
        jump is left out, the next one believes the clock.
        """
        skew = self._clock_skew()
        jump, self._skew = skew - self._skew, skew
        if abs(jump) > LONGEST_CLOCK_JUMP_MS:
            self._dependencies.counters.sweeps_skipped += 1
            self._report("sweep_skipped", clock_jump_ms=jump)
            return
        counted = self._dependencies.counters.task_failures
        task = TaskKeeper(self._report, counted).once("expiry sweep", self._visit_all)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _clock_skew(self) -> int:
        return self._dependencies.clock.wall_ms() - self._dependencies.clock.monotonic_ms()

    def _arm(self) -> None:
        self._due = self._dependencies.clock.monotonic_ms() + self._interval_ms
        self._timer = self._dependencies.timers.call_at(self._due, self._ring)

    def _ring(self) -> None:
        """Sweep, unless the timer rings early: the interval may be longer than a timer can be."""
        is_early = False
        try:
            is_early = self._dependencies.clock.monotonic_ms() < self._due
            if not is_early:
                self.sweep()
        finally:
            # Whatever failed: without a timer nothing would ever expire again.
            if is_early:
                self._timer = self._dependencies.timers.call_at(self._due, self._ring)
            else:
                self._arm()

    async def _visit_all(self) -> None:
        for number, group in enumerate(self._coordinator.groups(), start=1):
            # It may have gone since, with its partition even.
            if self._coordinator.group(group.group_id) is not None:
                self._coordinator.submit(group.group_id, ExpireOffsets())
            if number % GROUPS_PER_TURN == 0:
                await asyncio.sleep(0)

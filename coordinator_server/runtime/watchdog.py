"""Looks once a second whether every partition goes on, and has one that does not loaded anew.

A partition that serves has stalled if requests have waited for the write timeout and nothing of
what is ahead of them has moved. A parked JoinGroup or SyncGroup waits for other members, and is not
looked at. Time in which the whole process stood still does not count: the clock leaves it out, and
between two looks the event loop has had its turn.
"""

from functools import partial
from typing import TYPE_CHECKING, Final

from coordinator_server.clock import Clock
from coordinator_server.runtime.coordinator import Coordinator
from coordinator_server.runtime.dependencies import RuntimeDependencies
from coordinator_server.runtime.failures import Failure
from coordinator_server.runtime.partition import Partition, PartitionState, Report
from coordinator_server.runtime.timers import Timers

if TYPE_CHECKING:
    from coordinator_server.runtime.timers import Cancellable

INTERVAL_MS: Final = 1_000
LEAST_LOOKS: Final = 3
"""So often the same thing must have been seen at the head: one late timer proves nothing."""


class _Seen:
    """The head of each queue at the last look.

    No dataclass: mypyc cannot compile one that has a field of type `object`.
    """

    __slots__ = ("head", "looks", "since")

    def __init__(self, head: object, since: int, looks: int) -> None:
        self.head = head
        self.since = since
        """Monotonic milliseconds."""
        self.looks = looks


class StalledPartition(Exception):
    """Requests have waited for the write timeout, and nothing has moved."""


class PartitionWatchdog:
    """Looks from `start` to `stop`."""

    def __init__(
        self,
        coordinator: Coordinator,
        dependencies: RuntimeDependencies,
        report: Report,
        *,
        clock: Clock,
        timers: Timers,
    ) -> None:
        """`clock` and `timers` run in real time, also where a test moves those of `dependencies`.

        A test that moves the clock by days must not look a million times, nor take the requests of
        that moment for requests that have waited for days.
        """
        self._coordinator = coordinator
        self._clock = clock
        self._timers = timers
        self._dependencies = dependencies
        self._report = report
        self._seen: dict[int, dict[object, _Seen]] = {}
        """By partition, and by what waits there."""
        self._timer: Cancellable | None = None

    def start(self) -> None:
        """Look for the first time after an interval."""
        deadline = self._clock.monotonic_ms() + INTERVAL_MS
        self._timer = self._timers.call_at(deadline, self._ring)

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ring(self) -> None:
        try:
            self.look()
        finally:
            self.start()

    def look(self) -> None:
        """Look at every partition; the failure of one look does not end the others."""
        for partition in self._coordinator.partitions:
            self._dependencies.attempt("watch a partition", "", partial(self._look_at, partition))

    def _look_at(self, partition: Partition) -> None:
        tenure = partition.tenure
        if tenure is None or tenure.ended or partition.state is not PartitionState.ACTIVE:
            self._seen.pop(partition.index, None)
            partition.recover()
            return
        waits = dict(tenure.waits())
        if not waits:
            if self._seen:
                self._seen.pop(partition.index, None)
            return
        now = self._clock.monotonic_ms()
        before = self._seen.get(partition.index, {})
        seen: dict[object, _Seen] = {}
        for place, head in waits.items():
            known = before.get(place)
            if known is None or not _is_same(known.head, head):
                known = _Seen(head, now, 0)
            known.looks += 1
            seen[place] = known
        self._seen[partition.index] = seen
        oldest = min(
            (each.since for each in seen.values() if each.looks > LEAST_LOOKS), default=now
        )
        if now - oldest >= self._dependencies.write_timeout_ms:
            self._reload(partition, now - oldest)

    def _reload(self, partition: Partition, waited_ms: int) -> None:
        tenure = partition.tenure
        assert tenure is not None, "only a partition that is served stalls"
        self._seen.pop(partition.index, None)
        self._dependencies.counters.tenures_stalled += 1
        self._dependencies.attempt(
            "report",
            "",
            lambda: self._report(
                "partition_stall_found",
                partition=partition.index,
                groups=len(tenure.actors),
                groups_waiting=len(tenure.waiting),
                oldest_wait_ms=waited_ms,
            ),
        )
        message = f"no waiting request was answered for {waited_ms} ms"
        tenure.end(Failure.TIMED_OUT, StalledPartition(message))


def _is_same(one: object, other: object) -> bool:
    """Whether nothing has moved: two equal events are two events, two equal numbers are one."""
    return one is other or (isinstance(one, int) and one == other)

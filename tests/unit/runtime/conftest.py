"""The runtime on a real event loop, with a log, a clock and timers that the test moves."""

import asyncio
import heapq
from collections.abc import AsyncIterator, Callable, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from coordinator_protocol.batch_builder import NewBatch
from coordinator_server.clock import ManualClock
from coordinator_server.group.context import Limits
from coordinator_server.group.events import Event
from coordinator_server.ids import CountingIds
from coordinator_server.runtime.coordinator import Coordinator
from coordinator_server.runtime.dependencies import RuntimeDependencies
from coordinator_server.runtime.partition import Partition, PartitionState
from coordinator_server.runtime.tenure import Tenure
from coordinator_server.runtime.ticket import CallbackTicket
from coordinator_server.storage.base import AppendCallback, LogRecord
from coordinator_server.storage.memory import MemoryLog, MemoryStorage
from tests.support.group_harness import GroupRequests, Request

if TYPE_CHECKING:
    from coordinator_server.group.group import TurnFailed
    from coordinator_server.group.rebalance_events import Observation

WRITE_TIMEOUT_MS = 5_000


class FakeTimer:
    """An armed timer."""

    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class FakeTimers:
    """Implements runtime.timers.Timers; only `advance` lets time pass."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._armed: list[tuple[int, int, FakeTimer]] = []
        self._number = count()

    def call_at(self, deadline_ms: int, callback: Callable[[], object]) -> FakeTimer:
        timer = FakeTimer(callback)
        heapq.heappush(self._armed, (deadline_ms, next(self._number), timer))
        return timer

    @property
    def armed(self) -> list[int]:
        """The deadlines that are awaited."""
        return sorted(deadline for deadline, _, timer in self._armed if not timer.cancelled)

    async def advance(self, ms: int) -> None:
        """Let time pass from one deadline to the next."""
        until = self._clock.monotonic_ms() + ms
        while self._armed and self._armed[0][0] <= until:
            deadline, _, timer = heapq.heappop(self._armed)
            if not timer.cancelled:
                self._clock.advance(max(deadline - self._clock.monotonic_ms(), 0))
                timer.callback()
                await settle()
        self._clock.advance(until - self._clock.monotonic_ms())
        await settle()


class WatchedStorage(MemoryStorage):
    """Remembers every append, and may fail to be claimed."""

    def __init__(self, **how: Any) -> None:
        super().__init__(**how)
        self.appends: list[Sequence[LogRecord]] = []
        """Those with records."""
        self.closed: list[int] = []
        """Epochs of the logs that were closed."""
        self.claim_errors: list[Exception] = []

    async def claim(self, partition: int) -> MemoryLog:
        if self.claim_errors:
            raise self.claim_errors.pop(0)
        log = await super().claim(partition)
        append, close = log.append, log.close

        def watched(batch: NewBatch, then: AppendCallback) -> None:
            if batch.records:
                self.appends.append(batch.decoded())
            append(batch, then)

        async def closing() -> None:
            self.closed.append(log.epoch)
            await close()

        log.append, log.close = watched, closing  # type: ignore[method-assign]
        return log


class Counter(GroupRequests):
    """Sends requests for one group to a coordinator."""

    def __init__(self, office: "Office", group_id: str) -> None:
        self._office = office
        self._group_id = group_id

    def send(self, event: Event, request: Request) -> None:
        event.token = CallbackTicket(request.answered)  # type: ignore[union-attr]
        self._office.coordinator.submit(self._group_id, event)


class Office:
    """A coordinator of few partitions and everything round it."""

    def __init__(
        self, partitions: int = 1, *, jitter: Callable[[], float] = lambda: 1.0, **limits: Any
    ) -> None:
        self.clock = ManualClock()
        self.timers = FakeTimers(self.clock)
        self.observed: list[Observation] = []
        self.bugs: list[tuple[str, TurnFailed]] = []
        self.reports: list[tuple[str, dict[str, Any]]] = []
        how = {"initial_rebalance_delay_ms": 0, "max_append_bytes": 1_000_000, **limits}
        self.storage = WatchedStorage(
            partitions=partitions, max_append_bytes=how["max_append_bytes"]
        )
        self.dependencies = RuntimeDependencies(
            clock=self.clock,
            ids=CountingIds(),
            timers=self.timers,
            limits=Limits(**how),
            observe=self.observed.append,
            log_bug=lambda group_id, bug: self.bugs.append((group_id, bug)),
            write_timeout_ms=WRITE_TIMEOUT_MS,
            jitter=jitter,
        )
        self.coordinator = Coordinator(
            partitions,
            self.storage,
            self.dependencies,
            lambda event, **f: self.reports.append((event, f)),
        )

    async def open(self) -> "Office":
        """Serve."""
        await self.coordinator.start()
        await settle()
        return self

    def group(self, group_id: str = "group") -> Counter:
        """Where to send requests for a group."""
        return Counter(self, group_id)

    @property
    def partition(self) -> Partition:
        """The first partition."""
        return self.coordinator.partitions[0]

    def state(self) -> PartitionState:
        """Of the first partition, which changes behind a type checker's back."""
        return self.partition.state

    @property
    def tenure(self) -> Tenure:
        """The tenure of the first partition."""
        assert self.partition.tenure is not None
        return self.partition.tenure

    def hold(self) -> None:
        """Let appends take time."""
        self.storage.hold(0)

    async def release(self) -> None:
        """Have everything appended be durable."""
        self.storage.release(0)
        await settle()

    async def fail(self, error: Exception) -> None:
        """Let the append in flight, or the next one, fail."""
        self.storage.fail_next(0, error)
        await self.release()


async def settle() -> None:
    """Let everything that is ready run."""
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.fixture
async def office() -> AsyncIterator[Office]:
    """A coordinator of one partition that is being served."""
    office = await Office().open()
    yield office
    await close(office)


async def close(office: Office) -> None:
    """Stop a coordinator, whatever state it is in."""
    for partition in range(len(office.coordinator.partitions)):
        office.storage.release(partition)
    await office.coordinator.stop()

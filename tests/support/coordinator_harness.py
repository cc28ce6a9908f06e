"""Runs the coordinator without a network: the real runtime over a log, on the test's event loop.

Time advances only when a test advances it, and appends are not durable while the log is held.
`GroupClient` has the methods of `GroupHarness`, but sends its requests to the coordinator.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.records import RecordKey, RecordValue, encode_key, encode_value
from coordinator_server.clock import ManualClock
from coordinator_server.group.classic.state import ClassicGroup
from coordinator_server.group.context import Limits
from coordinator_server.group.effects import Fetched, FetchedOffset
from coordinator_server.group.events import Describe, Event, FetchOffsets
from coordinator_server.ids import CountingIds
from coordinator_server.runtime.coordinator import Coordinator
from coordinator_server.runtime.dependencies import RuntimeDependencies
from coordinator_server.runtime.loader import Loader
from coordinator_server.runtime.partition import Partition, PartitionState
from coordinator_server.runtime.sweeper import Sweeper
from coordinator_server.runtime.ticket import CallbackTicket
from coordinator_server.storage.base import LogRecord, Storage
from coordinator_server.storage.memory import MemoryStorage
from coordinator_server.testing.timers import MovableTimers
from tests.support.classic import classic_of
from tests.support.group_harness import DELAY_MS, GroupHarness, Member, Request
from tests.support.offsets import by_place
from tests.support.written_group import is_as_written

if TYPE_CHECKING:
    from coordinator_server.group.group import Group, TurnFailed
    from coordinator_server.group.rebalance_events import Observation

SWEEP_MS = 600_000


class AdjustableClock(ManualClock):
    """A clock whose wall time a test may set."""

    jumped = 0

    def wall_ms(self) -> int:
        """Milliseconds since the epoch, shifted by `jumped`."""
        return super().wall_ms() + self.jumped


class CoordinatorHarness:
    """All partitions of one server, with the observations and log events that it has emitted."""

    def __init__(
        self,
        storage: Storage | None = None,
        *,
        partitions: int = 2,
        clock: AdjustableClock | None = None,
        **limits: Any,
    ) -> None:
        """Needs a running event loop; `limits` are fields of Limits."""
        self.storage = storage or MemoryStorage(partitions)
        self.clock = clock or AdjustableClock()
        self.timers = MovableTimers(asyncio.get_running_loop(), self.clock)
        self.observed: list[Observation] = []
        self.bugs: list[TurnFailed] = []
        self.reports: list[tuple[str, dict[str, Any]]] = []
        self.dependencies = RuntimeDependencies(
            clock=self.clock,
            ids=CountingIds(),
            timers=self.timers,
            limits=Limits(max_append_bytes=self.storage.max_append_bytes, **limits),
            observe=self.observed.append,
            log_bug=lambda _group_id, bug: self.bugs.append(bug),
        )
        self.coordinator = Coordinator(partitions, self.storage, self.dependencies, self._report)
        self.sweeper = Sweeper(self.coordinator, self.dependencies, SWEEP_MS, self._report)

    def _report(self, event: str, **fields: Any) -> None:
        self.reports.append((event, fields))

    @property
    def memory(self) -> MemoryStorage:
        """The storage, which must be in memory."""
        assert isinstance(self.storage, MemoryStorage)
        return self.storage

    async def start(self) -> "CoordinatorHarness":
        """Load all partitions."""
        await self.coordinator.start()
        for partition in self.coordinator.partitions:
            await opened(partition)
        return self

    async def stop(self) -> None:
        """Stop in order; fails if a turn of any group has raised."""
        self.sweeper.stop()
        for partition in range(len(self.coordinator.partitions)):
            if isinstance(self.storage, MemoryStorage):
                self.storage.release(partition)
        await self.coordinator.stop()
        assert self.bugs == []

    def partition(self, group_id: str) -> Partition:
        """The partition of a group."""
        return self.coordinator.partitions[self.coordinator.partition_for(group_id)]

    def group_client(self, group_id: str = "group") -> "GroupClient":
        """A client of a group."""
        return GroupClient(group_id=group_id, harness=self)

    def live_state_is_what_the_log_says(self) -> bool:
        """Whether a load of the log yields the state in memory; nothing may be in flight."""
        found = {group.group_id: group for group in self.coordinator.groups()}
        wanted = {
            name: group
            for index in range(len(self.coordinator.partitions))
            for name, group in replayed(self.memory.records(index)).groups.items()
            if not group.is_vacant
        }
        return found.keys() == wanted.keys() and all(
            is_as_written(group, wanted[name].durable) and _kept(group) == _kept(wanted[name])
            for name, group in found.items()
        )


def _kept(group: "Group") -> tuple[object, ...]:
    return group.past, group.offsets.committed, group.offsets.pending


def replayed(records: Sequence[LogRecord]) -> Loader:
    """A loader that has replayed the records."""
    loader = Loader()
    for entry in records:
        loader._replay(0, entry)
    return loader


async def opened(partition: Partition) -> None:
    """Wait until a partition has stopped opening, whatever the result."""
    while partition._opening is not None and not partition._opening.done():
        await asyncio.wait([partition._opening])


async def active(partition: Partition) -> None:
    """Wait until a partition is active, however often loading fails."""
    while partition.state is not PartitionState.ACTIVE:
        await opened(partition)


async def settle(turns: int = 50) -> None:
    """Run the event loop until nothing is left to do without advancing time."""
    for _ in range(turns):
        await asyncio.sleep(0)


def record(key: RecordKey, value: RecordValue | None, **fields: Any) -> LogRecord:
    """A record of the log."""
    return LogRecord(
        encode_key(key), None if value is None else encode_value(value), 1_700_000_000_000, **fields
    )


def fill(storage: MemoryStorage, partition: int, *entries: LogRecord) -> None:
    """Store records in a log before a load."""
    storage.store(partition, entries)


@dataclass
class GroupClient(GroupHarness):
    """A group harness whose requests go through the coordinator instead of to the group."""

    harness: CoordinatorHarness = field(kw_only=True)

    def send(self, event: Event, request: Request) -> None:
        """Submit the event to the coordinator."""
        setattr(event, "token", CallbackTicket(request.answered))  # noqa: B010 - events differ
        self.harness.coordinator.submit(self.group_id, event)

    def fetch_later(self, *topics: tuple[str, Sequence[int]], stable: bool = False) -> Request:
        """OffsetFetch of all offsets unless topics are given; does not wait for the response."""
        request = Request("OffsetFetch")
        self.send(FetchOffsets(request, topics or None, stable), request)
        return request

    def describe_later(self) -> Request:
        """DescribeGroups; does not wait for the response."""
        request = Request("DescribeGroups")
        self.send(Describe(request), request)
        return request

    async def fetched(
        self, *topics: tuple[str, Sequence[int]], stable: bool = False
    ) -> dict[tuple[str, int], FetchedOffset]:
        """OffsetFetch that must succeed."""
        request = self.fetch_later(*topics, stable=stable)
        await settle()
        assert isinstance(request.result, Fetched), request.result
        return by_place(request.result)

    def advance(self, ms: int) -> list[Request]:
        """Advance the clock of the coordinator."""
        self.harness.timers.advance(ms)
        return []

    @property
    def classic(self) -> ClassicGroup:
        """The group, which must exist."""
        group = self.harness.coordinator.group(self.group_id)
        assert group is not None
        return classic_of(group)

    @property
    def state(self) -> str:
        """The group's state, Dead if there is none."""
        group = self.harness.coordinator.group(self.group_id)
        return "Dead" if group is None or group.kind is None else classic_of(group).state.value

    async def all_join(self, *members: Member) -> None:
        """Let members join until the join phase ends."""
        for member in members:
            request = member.join()
            await settle()
            if not request.is_parked and request.error is ErrorCode.MEMBER_ID_REQUIRED:
                member.join()
        while self.state == "PreparingRebalance":
            self.advance(DELAY_MS)
            await settle()

    async def settled(self, *members: Member) -> None:
        """Let members join and sync; each is assigned its own name."""
        await self.all_join(*members)
        self.sync_all(*members)
        await settle()

"""A coordinator without a network: the real runtime over a log, on the event loop of a test.

Time stands still unless it is moved, and nothing is durable while the log is held. Requests are
those of `story`, so a `Seat` tells a group's story here as `Story` does of the group alone.
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
from tests.support.offsets import by_place
from tests.support.settled import is_as_written
from tests.support.story import DELAY_MS, Member, Request, Story

if TYPE_CHECKING:
    from coordinator_server.group.group import Group, TurnFailed
    from coordinator_server.group.rebalance_events import Observation

SWEEP_MS = 600_000


class JumpingClock(ManualClock):
    """A clock whose wall time somebody may set."""

    jumped = 0

    def wall_ms(self) -> int:
        """Milliseconds since the epoch, by whoever set the clock."""
        return super().wall_ms() + self.jumped


class Desk:
    """All partitions of one server, and what it told its observers."""

    def __init__(
        self,
        storage: Storage | None = None,
        *,
        partitions: int = 2,
        clock: JumpingClock | None = None,
        **limits: Any,
    ) -> None:
        """Prepare one; `limits` are fields of Limits. Call it on a running event loop."""
        self.storage = storage or MemoryStorage(partitions)
        self.clock = clock or JumpingClock()
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
        """The storage, which is one in memory."""
        assert isinstance(self.storage, MemoryStorage)
        return self.storage

    async def start(self) -> "Desk":
        """Load all partitions."""
        await self.coordinator.start()
        for partition in self.coordinator.partitions:
            await opened(partition)
        return self

    async def stop(self) -> None:
        """An orderly end; no turn of any group may have raised, ever."""
        self.sweeper.stop()
        for partition in range(len(self.coordinator.partitions)):
            if isinstance(self.storage, MemoryStorage):
                self.storage.release(partition)
        await self.coordinator.stop()
        assert self.bugs == []

    def partition(self, group_id: str) -> Partition:
        """Where a group is."""
        return self.coordinator.partitions[self.coordinator.partition_for(group_id)]

    def seat(self, group_id: str = "group") -> "Seat":
        """Where the members of a group ask."""
        return Seat(group_id=group_id, desk=self)

    def live_state_is_what_the_log_says(self) -> bool:
        """Whether memory and log agree; nothing may be in flight."""
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
    """What a load would make of records."""
    loader = Loader()
    for entry in records:
        loader._replay(0, entry)
    return loader


async def opened(partition: Partition) -> None:
    """Wait until a partition has settled on a state, however often it has to try."""
    while partition._opening is not None and not partition._opening.done():
        await asyncio.wait([partition._opening])


async def active(partition: Partition) -> None:
    """Wait until a partition is served again, however often that fails."""
    while partition.state is not PartitionState.ACTIVE:
        await opened(partition)


async def settle(turns: int = 50) -> None:
    """Let everything that can happen without time passing happen."""
    for _ in range(turns):
        await asyncio.sleep(0)


def record(key: RecordKey, value: RecordValue | None, **fields: Any) -> LogRecord:
    """A record of the log."""
    return LogRecord(
        encode_key(key), None if value is None else encode_value(value), 1_700_000_000_000, **fields
    )


def fill(storage: MemoryStorage, partition: int, *entries: LogRecord) -> None:
    """Put records into a log before anybody loads it."""
    storage.store(partition, entries)


@dataclass
class Seat(Story):
    """A group as its clients see it: requests go to the coordinator, not to the group."""

    desk: Desk = field(kw_only=True)

    def send(self, event: Event, request: Request) -> None:
        """Ask the coordinator."""
        setattr(event, "token", CallbackTicket(request.answered))  # noqa: B010 - events differ
        self.desk.coordinator.submit(self.group_id, event)

    def fetch_later(self, *topics: tuple[str, Sequence[int]], stable: bool = False) -> Request:
        """OffsetFetch, of everything unless topics are given."""
        request = Request("OffsetFetch")
        self.send(FetchOffsets(request, topics or None, stable), request)
        return request

    def describe_later(self) -> Request:
        """DescribeGroups."""
        request = Request("DescribeGroups")
        self.send(Describe(request), request)
        return request

    async def fetched(
        self, *topics: tuple[str, Sequence[int]], stable: bool = False
    ) -> dict[tuple[str, int], FetchedOffset]:
        """OffsetFetch that succeeds, answered when it may be."""
        request = self.fetch_later(*topics, stable=stable)
        await settle()
        assert isinstance(request.result, Fetched), request.result
        return by_place(request.result)

    def advance(self, ms: int) -> list[Request]:
        """Move the clock of everybody."""
        self.desk.timers.advance(ms)
        return []

    @property
    def classic(self) -> ClassicGroup:
        """The group, which must exist."""
        group = self.desk.coordinator.group(self.group_id)
        assert group is not None
        return classic_of(group)

    @property
    def state(self) -> str:
        """The group's state, Dead if there is none."""
        group = self.desk.coordinator.group(self.group_id)
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

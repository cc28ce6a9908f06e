"""The front door: which partition a group belongs to, and what there is in all of them."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.java import PartitionOf
from coordinator_server.group.commits import RepeatedCommit, repeated
from coordinator_server.group.effects import FetchedTopic, Refuse
from coordinator_server.group.events import CommitOffsets, Event, FetchOffsets, Token
from coordinator_server.group.group import Group
from coordinator_server.group.kind import GroupKind
from coordinator_server.group.rebalance_events import Culprit
from coordinator_server.runtime.actor import GroupActor
from coordinator_server.runtime.dependencies import RuntimeDependencies
from coordinator_server.runtime.partition import Partition, PartitionState, Report
from coordinator_server.runtime.refusals import tell_refused
from coordinator_server.storage.base import Storage


class ListedGroup(NamedTuple):
    """A group as ListGroups shows it."""

    group_id: str
    protocol_type: str
    state: str
    group_type: str


class GroupList(NamedTuple):
    """All groups, or what keeps us from listing them."""

    groups: Iterable[ListedGroup]
    """Looked at one by one: there may be too many for one turn of the event loop."""
    error: ErrorCode


class Recommittal:
    """A commit that may come again, and the partition of its group."""

    __slots__ = ("_group_id", "_partition", "_repeat")

    def __init__(self, partition: Partition, group_id: str, repeat: RepeatedCommit) -> None:
        self._partition = partition
        self._group_id = group_id
        self._repeat = repeat

    def make(self, offsets: Sequence[bytes], token: Token, now: int) -> bool:
        """Commit these offsets, for a token.

        True: they were accepted, the token gets its result when they are durable. False: nothing
        has happened, and `Coordinator.submit` has to find the answer.
        """
        return self._partition.commit_again(self._group_id, self._repeat, offsets, token, now)


class Coordinator:
    """Serves the groups of every partition that is ours."""

    def __init__(
        self,
        partitions: int,
        storage: Storage,
        dependencies: RuntimeDependencies,
        report: Report,
        ours: Callable[[int], bool] = lambda _: True,
    ) -> None:
        """`ours` says which of the partitions are ever to be served here."""
        self.partitions = [Partition(i, storage, dependencies, report) for i in range(partitions)]
        self._ours = [partition for partition in self.partitions if ours(partition.index)]
        self.dependencies = dependencies
        self._storage = storage
        self._report = report
        self._partition_of = PartitionOf(partitions)

    def partition_for(self, group_id: str) -> int:
        """Kafka's `partitionFor`: `Utils.abs(groupId.hashCode()) % partitions`."""
        return self._partition_of[group_id]

    def submit(self, group_id: str, event: Event) -> None:
        """Serve an event; its token gets exactly one result, possibly before this returns."""
        self.partitions[self._partition_of[group_id]].submit(group_id, event)

    def tell_refused(
        self,
        group_id: str,
        api: str,
        refuse: Refuse,
        member_id: str,
        group_instance_id: str | None,
        client_id: str,
        client_host: str,
    ) -> None:
        """A request was refused before its group was asked."""
        member = Culprit(member_id, group_instance_id, client_id, client_host)
        tell_refused(self.dependencies, group_id, api, refuse, member)

    def renew(
        self, group_id: str, member_id: str, instance_id: str | None, generation: int, now: int
    ) -> bool:
        """Renew a member's session at once, at `now` in monotonic milliseconds.

        Returns False if the heartbeat is not simply accepted; nothing has happened then, and
        `submit` finds the result.
        """
        actor = self.partitions[self._partition_of[group_id]].actor(group_id)
        return actor is not None and actor.renew(member_id, instance_id, generation, now)

    def fetched(self, group_id: str, event: FetchOffsets) -> Sequence[FetchedTopic] | None:
        """The offsets of a group in memory; None if `submit` has to find the result.

        The event's token is not used.
        """
        actor = self.partitions[self._partition_of[group_id]].actor(group_id)
        return None if actor is None else actor.fetched(event)

    def recommittal(self, group_id: str, asked: CommitOffsets) -> Recommittal:
        """A repeatable commit, for other offsets; `asked` has no token.

        Raises ValueError for a commit that cannot be laid out beforehand.
        """
        partition = self.partitions[self._partition_of[group_id]]
        return Recommittal(partition, group_id, repeated(group_id, asked))

    def forget_topics(self, topics: frozenset[str]) -> None:
        """These topics were deleted, and with them every offset of theirs."""
        for partition in self.partitions:
            partition.forget_topics(topics)

    def actors(self) -> Iterator[GroupActor]:
        """Those of every group in memory, of the partitions that are being served."""
        for partition in self.partitions:
            if partition.tenure is not None and partition.state is PartitionState.ACTIVE:
                for actor in list(partition.tenure.actors.values()):
                    if not actor.group.is_vacant:
                        yield actor

    def groups(self) -> Iterator[Group]:
        """Every group in memory, of the partitions that are being served."""
        return (actor.group for actor in self.actors())

    def group(self, group_id: str) -> Group | None:
        """One group, if it exists and its partition is being served."""
        partition = self.partitions[self._partition_of[group_id]]
        if partition.tenure is None or partition.state is not PartitionState.ACTIVE:
            return None
        actor = partition.tenure.actors.get(group_id)
        return None if actor is None or actor.group.is_vacant else actor.group

    def list_groups(self) -> GroupList:
        """ListGroups of this node."""
        if any(p.state is PartitionState.LOADING for p in self.partitions):
            return GroupList((), ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        kinds = (group.kind for group in self.groups())
        return GroupList((_listed(kind) for kind in kinds if kind is not None), ErrorCode.NONE)

    def partition_states(self) -> Counter[PartitionState]:
        """How many of our partitions are in each state."""
        return Counter(partition.state for partition in self._ours)

    def unserved(self) -> Iterator[tuple[int, PartitionState, str]]:
        """Our partitions that are not served, with their states and why each failed last."""
        for partition in self._ours:
            if partition.state is not PartitionState.ACTIVE:
                yield partition.index, partition.state, partition.failure

    @property
    def is_ready(self) -> bool:
        """Whether every partition that is ours is being served."""
        states = self.partition_states()
        return states[PartitionState.ACTIVE] > 0 and not (
            states[PartitionState.LOADING]
            or states[PartitionState.FAILED]
            or states[PartitionState.INITIAL]
        )

    async def start(self) -> None:
        """Begin to serve; partitions load in the background. Raises OSError."""
        await self._storage.start(self._on_assigned, self._on_lost)

    async def stop(self) -> None:
        """Answer the parked, flush and close every partition, then the storage."""
        stops = (partition.stop() for partition in self.partitions)
        results = await asyncio.gather(*stops, return_exceptions=True)
        for partition, result in zip(self.partitions, results, strict=True):
            if isinstance(result, BaseException):
                self._report(
                    "partition_close_failed", partition=partition.index, error=repr(result)
                )
        await self._storage.stop()

    async def _on_assigned(self, partition: int) -> None:
        self.partitions[partition].assigned()

    async def _on_lost(self, partition: int) -> None:
        await self.partitions[partition].lost()


def _listed(kind: GroupKind) -> ListedGroup:
    summary = kind.summary()
    return ListedGroup(summary.group_id, summary.protocol_type, summary.state, kind.group_type)

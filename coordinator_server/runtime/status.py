"""The coordinator as the observers see it: counts, groups, and whom a rebalance waits for."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice

from coordinator_server.group.deletion import Expiry
from coordinator_server.group.kind import GroupKind
from coordinator_server.group.rebalance_events import RebalanceEvent
from coordinator_server.group.rebalance_log import PastEvents
from coordinator_server.observe.status import (
    Census,
    GroupGauges,
    GroupStatus,
    GroupSummary,
    OffsetStatus,
    Unserved,
    WaitingStatus,
)
from coordinator_server.runtime.coordinator import Coordinator
from coordinator_server.runtime.group_counts import AT_ONCE, gauges_of, take_census


class CoordinatorStatus:
    """Implements observe.status.StatusSource over the groups in memory."""

    def __init__(
        self,
        coordinator: Coordinator,
        loads: Callable[[], Mapping[int, tuple[int, int]]] = dict,
    ) -> None:
        """`loads` tells what the storage has read of partitions that are being loaded."""
        self._coordinator = coordinator
        self._dependencies = coordinator.dependencies
        self._loads = loads

    def partitions(self) -> Mapping[str, int]:
        """Number of coordinator partitions by state."""
        states = self._coordinator.partition_states()
        return {state.value: count for state, count in states.items()}

    def unserved(self) -> Sequence[Unserved]:
        """The partitions that do not serve, and why."""
        return [
            Unserved(index, state.value, failure)
            for index, state, failure in self._coordinator.unserved()
        ]

    def max_groups(self) -> int:
        """How many groups the settings allow."""
        return self._dependencies.limits.max_groups

    def loading(self) -> Mapping[int, tuple[int, int]]:
        """Bytes read and bytes in all, by partition that is being loaded."""
        return self._loads()

    def census(self) -> Iterator[Census]:
        """Count all groups, a few at a time."""
        return take_census(self._coordinator)

    def gauges(self, group_id: str) -> GroupGauges | None:
        """A group in numbers, or None."""
        group = self._coordinator.group(group_id)
        if group is None or group.kind is None:
            return None
        return gauges_of(group, group.kind)

    def groups(self) -> Sequence[GroupSummary]:
        """All groups."""
        groups = self._coordinator.groups()
        return [group.kind.summary() for group in groups if group.kind is not None]

    def group_ids(self) -> Iterator[list[str]]:
        """The ids of all groups, some at a time, which are sorted."""
        groups = self._coordinator.groups()
        ids = (group.group_id for group in groups if group.kind is not None)
        while some := sorted(islice(ids, AT_ONCE)):
            yield some

    def summary(self, group_id: str) -> GroupSummary | None:
        """A group as it is listed, or None."""
        kind = self._find(group_id)
        return None if kind is None else kind.summary()

    def group(self, group_id: str) -> GroupStatus | None:
        """A group with its members, or None."""
        kind = self._find(group_id)
        return None if kind is None else kind.status()

    def waiting(self, group_id: str) -> WaitingStatus | None:
        """Whom a group waits for, or None."""
        kind, clock = self._find(group_id), self._dependencies.clock
        return None if kind is None else kind.waiting(clock.wall_ms() - clock.monotonic_ms())

    def offsets(self, group_id: str) -> Sequence[OffsetStatus]:
        """The committed offsets of a group, by topic and partition."""
        return list(self.each_offset(group_id))

    def each_offset(self, group_id: str, *, only_expiring: bool = False) -> Iterator[OffsetStatus]:
        """The committed offsets of a group one by one, by topic and partition."""
        group = self._coordinator.group(group_id)
        if group is None:
            return
        expiry = Expiry(group, self._dependencies.limits)
        spared = {topic for topic in group.offsets.topics() if expiry.spares(topic)}
        if only_expiring and len(spared) == len(group.offsets.topics()):
            return
        for topic, partition in sorted(group.offsets.partitions()):
            if only_expiring and topic in spared:
                continue
            value = group.offsets.get(topic, partition)
            # There is none if it is only pending, or has been removed meanwhile.
            if value is not None:
                yield OffsetStatus(
                    topic=topic,
                    partition=partition,
                    offset=value.offset,
                    leader_epoch=value.leader_epoch,
                    metadata=value.metadata,
                    commit_ms=value.commit_timestamp,
                    expire_ms=expiry.of(topic, value),
                )

    def past(self, group_id: str) -> Sequence[RebalanceEvent]:
        """The finished rebalances of a group that its log has, the oldest first."""
        group = self._coordinator.group(group_id)
        return () if group is None else PastEvents(group_id, group.past)

    def is_elsewhere(self, group_id: str, host: str) -> bool:
        """Whether a group has a member that is not on a host."""
        kind = self._find(group_id)
        return kind is not None and any(other != host for other in kind.member_hosts())

    def _find(self, group_id: str) -> GroupKind | None:
        group = self._coordinator.group(group_id)
        return None if group is None else group.kind

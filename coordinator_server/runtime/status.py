"""The coordinator as the observers see it: counts, groups, and whom a rebalance waits for."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice

from coordinator_protocol.errors import Malformed
from coordinator_protocol.subscription import decode_assignment, subscribed_topics
from coordinator_server.group.classic.state import (
    CONSUMER_PROTOCOL_TYPE,
    ClassicGroup,
    ClassicMember,
)
from coordinator_server.group.deletion import Expiry
from coordinator_server.group.rebalance_events import RebalanceEvent
from coordinator_server.group.rebalance_log import PastEvents
from coordinator_server.observe.status import (
    Census,
    GroupGauges,
    GroupStatus,
    GroupSummary,
    MemberStatus,
    OffsetStatus,
    Unserved,
    WaitingStatus,
)
from coordinator_server.runtime.awaited_members import awaited_members, waiting_status
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
        self._world = coordinator.world
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
        return self._world.limits.max_groups

    def loading(self) -> Mapping[int, tuple[int, int]]:
        """Bytes read and bytes in all, by partition that is being loaded."""
        return self._loads()

    def census(self) -> Iterator[Census]:
        """Count all groups, a few at a time."""
        return take_census(self._coordinator)

    def gauges(self, group_id: str) -> GroupGauges | None:
        """A group in numbers, or None."""
        group = self._coordinator.group(group_id)
        if group is None or group.classic is None:
            return None
        return gauges_of(group, group.classic)

    def groups(self) -> Sequence[GroupSummary]:
        """All groups."""
        return [_summary(group) for group in self._classic()]

    def group_ids(self) -> Iterator[list[str]]:
        """The ids of all groups, some at a time, which are sorted."""
        groups = self._coordinator.groups()
        ids = (group.group_id for group in groups if group.classic is not None)
        while some := sorted(islice(ids, AT_ONCE)):
            yield some

    def summary(self, group_id: str) -> GroupSummary | None:
        """A group as it is listed, or None."""
        classic = self._find(group_id)
        return None if classic is None else _summary(classic)

    def group(self, group_id: str) -> GroupStatus | None:
        """A group with its members, or None."""
        classic = self._find(group_id)
        if classic is None:
            return None
        return GroupStatus(
            summary=_summary(classic),
            leader=classic.leader,
            members=[_member(classic, member) for member in classic.members.values()],
            waiting_for=[member for member, _ in awaited_members(classic)],
            state_since_ms=None if classic.state_since < 0 else classic.state_since,
        )

    def waiting(self, group_id: str) -> WaitingStatus | None:
        """Whom a group waits for, or None."""
        classic = self._find(group_id)
        return None if classic is None else waiting_status(classic, self._world.clock)

    def offsets(self, group_id: str) -> Sequence[OffsetStatus]:
        """The committed offsets of a group, by topic and partition."""
        return list(self.each_offset(group_id))

    def each_offset(self, group_id: str, *, only_expiring: bool = False) -> Iterator[OffsetStatus]:
        """The committed offsets of a group one by one, by topic and partition."""
        group = self._coordinator.group(group_id)
        if group is None:
            return
        expiry = Expiry(group, self._world.limits)
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
        classic = self._find(group_id)
        members = () if classic is None else classic.members.values()
        return any(member.client_host != host for member in members)

    def _find(self, group_id: str) -> ClassicGroup | None:
        group = self._coordinator.group(group_id)
        return None if group is None else group.classic

    def _classic(self) -> list[ClassicGroup]:
        groups = self._coordinator.groups()
        return [group.classic for group in groups if group.classic is not None]


def _summary(group: ClassicGroup) -> GroupSummary:
    return GroupSummary(
        group_id=group.group_id,
        state=group.state,
        protocol_type=group.protocol_type or "",
        protocol=group.protocol_name or "",
        generation=group.generation,
        members=len(group.members),
    )


def _member(group: ClassicGroup, member: ClassicMember) -> MemberStatus:
    waits = "join" if member.join_token else "sync" if member.sync_token else None
    consumer = group.protocol_type == CONSUMER_PROTOCOL_TYPE
    return MemberStatus(
        member=member.culprit,
        session_timeout_ms=member.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        waits_for=waits,
        topics=_topics(group, member) if consumer else (),
        assigned=_assigned(member) if consumer else {},
    )


def _topics(group: ClassicGroup, member: ClassicMember) -> Sequence[str]:
    """By the selected protocol, else the one the member likes best; what is unreadable is empty."""
    metadata = dict(member.protocols)
    name = group.protocol_name or next(iter(metadata), "")
    try:
        return subscribed_topics(metadata.get(name, b""))
    except Malformed:
        return ()


def _assigned(member: ClassicMember) -> Mapping[str, Sequence[int]]:
    try:
        return decode_assignment(member.assignment).partitions
    except Malformed:
        return {}

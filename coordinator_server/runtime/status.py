"""The coordinator as the observers see it: counts, groups, and whom a rebalance waits for."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from coordinator_server.group.classic.state import (
    ClassicGroup,
    ClassicGroupState,
    ClassicMember,
)
from coordinator_server.group.reasons import Culprit
from coordinator_server.observe.status import GroupStatus, GroupSummary, MemberStatus
from coordinator_server.runtime.coordinator import Coordinator

_S = ClassicGroupState


class CoordinatorStatus:
    """Implements observe.status.StatusSource over the groups in memory."""

    def __init__(
        self,
        coordinator: Coordinator,
        loads: Callable[[], Mapping[int, tuple[int, int]]] = dict,
    ) -> None:
        """`loads` tells what the storage has read of partitions that are being loaded."""
        self._coordinator = coordinator
        self._loads = loads

    def partitions(self) -> Mapping[str, int]:
        """Number of coordinator partitions by state."""
        states = self._coordinator.partition_states()
        return {state.value: count for state, count in states.items()}

    def loading(self) -> Mapping[int, tuple[int, int]]:
        """Bytes read and bytes in all, by partition that is being loaded."""
        return self._loads()

    def group_counts(self) -> Mapping[tuple[str, str], int]:
        """Number of groups by (state, protocol type)."""
        return Counter((group.state, group.protocol_type or "") for group in self._classic())

    def member_counts(self) -> Mapping[str, int]:
        """Number of members by kind."""
        counts: Counter[str] = Counter()
        for group in self._classic():
            counts["static"] += len(group.static_members)
            counts["dynamic"] += len(group.members) - len(group.static_members)
            counts["pending"] += len(group.pending)
        return counts

    def offset_count(self) -> int:
        """Number of committed offsets."""
        return sum(len(group.offsets) for group in self._coordinator.groups())

    def groups(self) -> Sequence[GroupSummary]:
        """All groups."""
        return [_summary(group) for group in self._classic()]

    def group(self, group_id: str) -> GroupStatus | None:
        """A group with its members, or None."""
        group = self._coordinator.group(group_id)
        if group is None or group.classic is None:
            return None
        classic = group.classic
        return GroupStatus(
            summary=_summary(classic),
            leader=classic.leader,
            members=[_member(member) for member in classic.members.values()],
            waiting_for=_waiting_for(classic),
        )

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


def _member(member: ClassicMember) -> MemberStatus:
    waits = "join" if member.join_token else "sync" if member.sync_token else None
    return MemberStatus(
        member=member.culprit,
        session_timeout_ms=member.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        waits_for=waits,
    )


def _waiting_for(group: ClassicGroup) -> list[Culprit]:
    """Who holds the rebalance up: pending ids, and members that have not joined or synced."""
    members = group.members.values()
    match group.state:
        case _S.PREPARING_REBALANCE:
            late = [member.culprit for member in members if member.join_token is None]
            return late + [
                Culprit(member_id, None, pending.client_id, pending.client_host)
                for member_id, pending in group.pending.items()
            ]
        case _S.COMPLETING_REBALANCE:
            return [m.culprit for m in members if m.member_id in group.pending_sync]
        case _:
            return []

"""Actions of operators on groups: events like those of requests, answered when durable."""

import asyncio
from collections.abc import Callable, Sequence

from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.messages.offset_commit import (
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from coordinator_server.group.effects import Committed, Refuse, Result
from coordinator_server.group.events import (
    DeleteGroup,
    Event,
    ForceRebalance,
    KickMember,
    ResetOffsets,
)
from coordinator_server.observe.status import AdminResult
from coordinator_server.runtime.coordinator import Coordinator
from coordinator_server.runtime.ticket import CallbackTicket, Ticket


class CoordinatorAdmin:
    """Implements observe.status.GroupAdmin."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator

    async def kick(
        self, group_id: str, member_id: str, group_instance_id: str | None, reason: str
    ) -> AdminResult:
        """Remove a member, by its id or, with an empty one, by its instance id."""
        return await self._ask(
            group_id, lambda token: KickMember(token, member_id, group_instance_id, reason)
        )

    async def force_rebalance(self, group_id: str, reason: str) -> AdminResult:
        """Make the members of a Stable group join anew."""
        return await self._ask(group_id, lambda token: ForceRebalance(token, reason))

    async def delete_group(self, group_id: str) -> AdminResult:
        """Delete an Empty group, with its offsets and its history."""
        return await self._ask(group_id, DeleteGroup)

    async def reset_offsets(
        self, group_id: str, offsets: Sequence[tuple[str, int, int]]
    ) -> AdminResult:
        """Commit (topic, partition, offset) for an Empty group."""
        topics: dict[str, list[OffsetCommitRequestPartition]] = {}
        for topic, partition, offset in offsets:
            given = OffsetCommitRequestPartition(
                partition_index=partition, committed_offset=offset, committed_metadata=""
            )
            topics.setdefault(topic, []).append(given)
        wanted = [
            OffsetCommitRequestTopic(name=topic, partitions=partitions)
            for topic, partitions in topics.items()
        ]
        return await self._ask(group_id, lambda token: ResetOffsets(token, wanted))

    async def _ask(self, group_id: str, event: Callable[[Ticket], Event]) -> AdminResult:
        answer: asyncio.Future[Result] = asyncio.get_running_loop().create_future()

        def deliver(result: Result) -> None:
            # Whoever asked may have gone.
            if not answer.done():
                answer.set_result(result)

        def failed(bug: Exception) -> None:
            if not answer.done():
                answer.set_exception(bug)

        self._coordinator.submit(group_id, event(CallbackTicket(deliver, failed)))
        return _result(await answer)


def _result(result: Result) -> AdminResult:
    match result:
        case Refuse():
            return AdminResult(result.error.name, result.detail or result.rule)
        case Committed():
            failed = next((error for error in result.errors if error), ErrorCode.NONE)
            return AdminResult(failed.name)
        case _:
            return AdminResult(ErrorCode.NONE.name)

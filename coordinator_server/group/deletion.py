"""How offsets and groups end: OffsetDelete, DeleteGroups, deleted topics, and expiry.

Every decision and its tombstones fall into one turn of the group, so that nothing comes between.
"""

from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.history import RebalanceHistoryKey
from coordinator_protocol.offset_value import OffsetCommitValue
from coordinator_protocol.records import GroupMetadataKey, OffsetCommitKey
from coordinator_server.group.context import Context, Limits
from coordinator_server.group.effects import DONE, Deleted, Effects, Refuse, Rule, Write
from coordinator_server.group.events import (
    DeleteGroup,
    DeleteOffsets,
    ExpireOffsets,
    TopicsDeleted,
)
from coordinator_server.group.group_state import GroupMemory
from coordinator_server.group.kind import GroupKind
from coordinator_server.group.rebalance_events import (
    GroupRemoved,
    OffsetsRemoved,
    OffsetsRemovedReason,
)
from coordinator_server.group.rebalance_log import PastEvents, aged, key_of
from coordinator_server.group.refusals import group_not_found


def delete_offsets(group: GroupMemory, event: DeleteOffsets, _ctx: Context, out: Effects) -> None:
    """OffsetDelete: not of topics that members subscribe to (KIP-496)."""
    kind = group.kind
    if kind is None:
        out.reply(event.token, group_not_found(group.group_id))
        return
    refusal = kind.refuse_offset_deletion()
    if refusal is not None:
        out.reply(event.token, refusal)
        return
    in_use = kind.topics_in_use([topic for topic, _ in event.topics])
    results = []
    for topic, partitions in event.topics:
        used = topic in in_use
        error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if used else ErrorCode.NONE
        results.append((topic, [(partition, error) for partition in partitions]))
        if not used:
            for partition in partitions:
                _forget(group, topic, partition, out)
    _tell(group, OffsetsRemovedReason.DELETED, out)
    refused = [_subscribed(topic) for topic, _ in event.topics if topic in in_use]
    out.reply(event.token, Deleted(results, refused[:1]))


def _subscribed(topic: str) -> Refuse:
    detail = f"members subscribe to {topic!r}"
    return Refuse(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, Rule.TOPIC_SUBSCRIBED, detail)


def refuse_unless_empty(group: GroupMemory) -> Refuse | None:
    """Return why a request that needs an Empty group is refused, or None."""
    if group.kind is None:
        return group_not_found(group.group_id)
    return group.kind.refuse_unless_empty()


def delete_group(group: GroupMemory, event: DeleteGroup, _ctx: Context, out: Effects) -> None:
    """DeleteGroups: an Empty group goes with all its offsets (KIP-229)."""
    refusal = refuse_unless_empty(group)
    if refusal is not None:
        out.reply(event.token, refusal)
    else:
        for topic, partition in group.offsets.partitions():
            _forget(group, topic, partition, out)
        _tell(group, OffsetsRemovedReason.DELETED, out)
        _end_group(group, out)
        out.reply(event.token, DONE)


def topics_deleted(group: GroupMemory, event: TopicsDeleted, _ctx: Context, out: Effects) -> None:
    """Offsets of topics that are gone mean nothing, and would mislead those of the same name."""
    for topic, partition in list(group.offsets.partitions()):
        if topic in event.topics:
            _forget(group, topic, partition, out)
    _tell(group, OffsetsRemovedReason.TOPIC_DELETED, out)
    if event.token is not None:
        out.reply(event.token, DONE)


def expire(group: GroupMemory, _event: ExpireOffsets, ctx: Context, out: Effects) -> None:
    """Expire offsets, then a group without any, and its history."""
    _expire_offsets(group, ctx, out)
    if not any(isinstance(observation, GroupRemoved) for observation in out.observed):
        _forget_aged_rebalances(group, ctx, out)


def _expire_offsets(group: GroupMemory, ctx: Context, out: Effects) -> None:
    """Offsets that nobody needs any more, and the group if nothing else is left of it (KIP-211).

    Follows `OffsetMetadataManager.cleanupExpiredOffsets`. Offsets of open transactions stay, and
    so does a group that has handed out member ids.
    """
    kind = group.kind
    if kind is None or not kind.offsets_may_expire:
        return
    in_use = kind.topics_in_use(group.offsets.topics())
    kept = bool(group.offsets.pending or in_use)
    for topic in group.offsets.topics():
        if topic in in_use:
            continue
        for partition, value in group.offsets.of_topic(topic).items():
            expired = ctx.wall >= _expires_at(kind, value, ctx.limits)
            if expired and not group.offsets.is_pending(topic, partition):
                _forget(group, topic, partition, out)
            else:
                kept = True
    _tell(group, OffsetsRemovedReason.EXPIRED, out)
    if not kept and kind.is_removable:
        _end_group(group, out)


def _end_group(group: GroupMemory, out: Effects) -> None:
    """The group goes, and with it the history of its rebalances."""
    group.ended_generation = group.last_generation
    forget_history(group, out)
    out.write(GroupMetadataKey(group.group_id), None)
    out.observed.append(GroupRemoved(group.group_id, PastEvents(group.group_id, group.past)))


def forget_history(group: GroupMemory, out: Effects) -> None:
    """The group is gone: so are its rebalances."""
    _forget_rebalances(group, len(group.past), out)


def forget_oldest_rebalances(group: GroupMemory, ctx: Context, out: Effects) -> None:
    """No group keeps more rebalances than it may; those of this turn count."""
    if len(group.past) + len(out.writes) <= ctx.limits.history_max_rebalances:
        return
    new = sum(
        isinstance(write, Write)
        and isinstance(write.key, RebalanceHistoryKey)
        and write.value is not None
        for write in out.writes
    )
    over = len(group.past) + new - ctx.limits.history_max_rebalances
    if new and over > 0:
        _forget_rebalances(group, over, out)


def _forget_aged_rebalances(group: GroupMemory, ctx: Context, out: Effects) -> None:
    _forget_rebalances(group, aged(group.past, ctx.wall - ctx.limits.history_retention_ms), out)


def _forget_rebalances(group: GroupMemory, count: int, out: Effects) -> None:
    for raw in group.past[:count]:
        out.write(key_of(group.group_id, raw), None)


def _expires_at(kind: GroupKind, value: OffsetCommitValue, limits: Limits) -> int:
    """When the retention of an offset is over; one given by the request counts alone."""
    if value.expire_timestamp != -1:
        return value.expire_timestamp
    return kind.retention_begins(value.commit_timestamp) + limits.offsets_retention_ms


class Expiry:
    """When the offsets of a group expire if nothing happens to it; for whoever wants to know."""

    def __init__(self, group: GroupMemory, limits: Limits) -> None:
        self._kind = group.kind
        self._limits = limits
        self._in_use = frozenset[str]()
        if group.kind is not None:
            self._in_use = group.kind.topics_in_use(group.offsets.topics())

    def spares(self, topic: str) -> bool:
        """Whether no offset of a topic expires as things are."""
        return self._kind is None or not self._kind.offsets_may_expire or topic in self._in_use

    def of(self, topic: str, value: OffsetCommitValue) -> int | None:
        """Wall-clock milliseconds; None while the offset is in use."""
        if self._kind is None or self.spares(topic):
            return None
        return _expires_at(self._kind, value, self._limits)


def _forget(group: GroupMemory, topic: str, partition: int, out: Effects) -> None:
    """A tombstone, if there is anything to forget."""
    offsets = group.offsets
    if offsets.has(topic, partition) or offsets.is_pending(topic, partition):
        out.write(OffsetCommitKey(group.group_id, topic, partition), None)


def _tell(group: GroupMemory, reason: OffsetsRemovedReason, out: Effects) -> None:
    if out.writes:
        out.observed.append(OffsetsRemoved(group.group_id, reason, len(out.writes)))

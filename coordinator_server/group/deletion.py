"""How offsets and groups end: OffsetDelete, DeleteGroups, deleted topics, and expiry.

Every decision and its tombstones fall into one turn of the group, so that nothing comes between.
"""

from coordinator_server.group.classic.state import (
    CONSUMER_PROTOCOL_TYPE,
    ClassicGroup,
    ClassicGroupState,
)
from coordinator_server.group.classic.subscription import topics_in_use
from coordinator_server.group.classic.validation import group_not_found
from coordinator_server.group.context import Context
from coordinator_server.group.effects import DONE, Deleted, Effects, Refuse, Rule
from coordinator_server.group.events import (
    DeleteGroup,
    DeleteOffsets,
    ExpireOffsets,
    TopicsDeleted,
)
from coordinator_server.group.memory import GroupMemory
from coordinator_server.group.reasons import OffsetsRemoved, OffsetsRemovedReason
from protocol.errors import ErrorCode
from protocol.records import GroupMetadataKey, OffsetCommitKey, OffsetCommitValue

_S = ClassicGroupState


def delete_offsets(group: GroupMemory, event: DeleteOffsets, _ctx: Context, out: Effects) -> None:
    """OffsetDelete: not of topics that members subscribe to (KIP-496)."""
    classic = group.classic
    if classic is None:
        out.reply(event.token, group_not_found(group.group_id))
        return
    if classic.state is not _S.EMPTY and classic.protocol_type != CONSUMER_PROTOCOL_TYPE:
        out.reply(event.token, _not_empty(classic))
        return
    in_use = topics_in_use(classic, [topic for topic, _ in event.topics])
    results = []
    for topic, partitions in event.topics:
        used = topic in in_use
        error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if used else ErrorCode.NONE
        results.append((topic, [(partition, error) for partition in partitions]))
        if not used:
            for partition in partitions:
                _forget(group, topic, partition, out)
    _tell(group, OffsetsRemovedReason.DELETED, out)
    out.reply(event.token, Deleted(results))


def delete_group(group: GroupMemory, event: DeleteGroup, _ctx: Context, out: Effects) -> None:
    """DeleteGroups: an Empty group goes with all its offsets (KIP-229)."""
    if group.classic is None:
        out.reply(event.token, group_not_found(group.group_id))
    elif group.classic.state is not _S.EMPTY:
        out.reply(event.token, _not_empty(group.classic))
    else:
        for topic, partition in group.offsets.partitions():
            _forget(group, topic, partition, out)
        _tell(group, OffsetsRemovedReason.DELETED, out)
        out.write(GroupMetadataKey(group.group_id), None)
        out.reply(event.token, DONE)


def topics_deleted(group: GroupMemory, event: TopicsDeleted, _ctx: Context, out: Effects) -> None:
    """Offsets of topics that are gone mean nothing, and would mislead those of the same name."""
    for topic, partition in list(group.offsets.partitions()):
        if topic in event.topics:
            _forget(group, topic, partition, out)
    _tell(group, OffsetsRemovedReason.TOPIC_DELETED, out)
    if event.token is not None:
        out.reply(event.token, DONE)


def expire_offsets(group: GroupMemory, _event: ExpireOffsets, ctx: Context, out: Effects) -> None:
    """Offsets that nobody needs any more, and the group if nothing else is left of it (KIP-211).

    Follows `OffsetMetadataManager.cleanupExpiredOffsets`. Offsets of open transactions stay, and
    so does a group that has handed out member ids.
    """
    classic = group.classic
    if classic is None or not _may_expire(classic):
        return
    in_use = topics_in_use(classic, group.offsets.topics())
    kept = bool(group.offsets.pending or in_use)
    for topic in group.offsets.topics():
        if topic in in_use:
            continue
        for partition, value in group.offsets.of_topic(topic).items():
            if _is_expired(classic, value, ctx) and not group.offsets.is_pending(topic, partition):
                _forget(group, topic, partition, out)
            else:
                kept = True
    _tell(group, OffsetsRemovedReason.EXPIRED, out)
    if not kept and classic.state is _S.EMPTY and not classic.pending:
        out.write(GroupMetadataKey(group.group_id), None)


def _may_expire(group: ClassicGroup) -> bool:
    """Kafka's conditions by protocol type and state (`ClassicGroup.offsetExpirationCondition`)."""
    if group.protocol_type is None or group.state is _S.EMPTY:
        return True
    return group.protocol_type == CONSUMER_PROTOCOL_TYPE and group.state is _S.STABLE


def _is_expired(group: ClassicGroup, value: OffsetCommitValue, ctx: Context) -> bool:
    """Whether the retention of an offset is over; one given by the request counts alone.

    For a group that was a group, the time runs from when it became Empty.
    """
    if value.expire_timestamp != -1:
        return ctx.wall >= value.expire_timestamp
    since = value.commit_timestamp
    if group.protocol_type is not None and group.state is _S.EMPTY and group.state_since != -1:
        since = group.state_since
    return ctx.wall - since >= ctx.limits.offsets_retention_ms


def _forget(group: GroupMemory, topic: str, partition: int, out: Effects) -> None:
    """A tombstone, if there is anything to forget."""
    offsets = group.offsets
    if offsets.get(topic, partition) is not None or offsets.is_pending(topic, partition):
        out.write(OffsetCommitKey(group.group_id, topic, partition), None)


def _tell(group: GroupMemory, reason: OffsetsRemovedReason, out: Effects) -> None:
    if out.writes:
        out.observed.append(OffsetsRemoved(group.group_id, reason, len(out.writes)))


def _not_empty(group: ClassicGroup) -> Refuse:
    return Refuse(
        ErrorCode.NON_EMPTY_GROUP,
        Rule.GROUP_NOT_EMPTY,
        f"the group is {group.state} with {len(group.members)} members",
    )

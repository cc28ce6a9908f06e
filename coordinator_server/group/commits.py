"""OffsetCommit and OffsetFetch of a group."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from coordinator_protocol.commit_template import CommitTemplate, Place
from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.messages.offset_commit import OffsetCommitRequestTopic
from coordinator_protocol.offset_value import pack_offset
from coordinator_server.group.context import RECORD_OVERHEAD, Context
from coordinator_server.group.deletion import refuse_unless_empty
from coordinator_server.group.effects import (
    Committed,
    Effects,
    Fetched,
    FetchedTopic,
    Refuse,
    Rule,
    WriteOffsets,
)
from coordinator_server.group.events import CommitOffsets, FetchOffsets, ResetOffsets
from coordinator_server.group.group_state import GroupMemory
from coordinator_server.group.refusals import fits, group_not_found, text_too_long

_NONE: Final = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class RepeatedCommit:
    """A commit that comes again and again with other offsets."""

    asked: CommitOffsets
    """The first commit of this form, without a token."""
    template: CommitTemplate
    """Its records."""
    most_bytes: int
    """The most bytes of the records, measured as for every commit."""
    longest_metadata: int
    """Of a partition, in UTF-16 units."""
    accepted: Committed
    """The result, if it is accepted: all of it is."""


def commit(group: GroupMemory, event: CommitOffsets, ctx: Context, out: Effects) -> None:
    """Commit offsets; one whose metadata is too long does not keep the others from it."""
    refusal = _refuse(group, event, ctx)
    if refusal is not None:
        out.reply(event.token, refusal)
        return
    if group.kind is not None:
        group.kind.committed(event, ctx.now)
    errors: list[ErrorCode] = []
    refused: list[Refuse] = []
    wall, expires = ctx.wall, _expire_timestamp(event, ctx)
    for topic in event.topics:
        accepted = []
        for given in topic.partitions:
            metadata = given.committed_metadata or ""
            if metadata and _is_too_long(metadata, expires, ctx):
                errors.append(ErrorCode.OFFSET_METADATA_TOO_LARGE)
                refused = refused or [_metadata_too_long(topic.name, given.partition_index, ctx)]
                continue
            errors.append(_NONE)
            value = pack_offset(
                given.committed_offset, given.committed_leader_epoch, metadata, wall, expires
            )
            accepted.append((given.partition_index, value))
        if accepted:
            out.writes.append(WriteOffsets(group.group_id, topic.name, accepted))
    out.reply(event.token, Committed(errors, refused))


def repeated(group_id: str, asked: CommitOffsets) -> RepeatedCommit:
    """Lay out a commit that is likely to come again.

    Raises ValueError where that cannot be, or is not worth it.
    """
    if asked.retention_ms != -1:
        raise ValueError("a commit with a retention time of its own")
    places = [
        Place(
            topic.name,
            given.partition_index,
            given.committed_leader_epoch,
            given.committed_metadata or "",
        )
        for topic in asked.topics
        for given in topic.partitions
    ]
    return RepeatedCommit(
        asked,
        CommitTemplate(group_id, places),
        sum(_most_bytes(group_id, topic) for topic in asked.topics),
        max(_chars(place.metadata) for place in places),
        Committed([_NONE] * len(places)),
    )


def takes_again(group: GroupMemory, repeat: RepeatedCommit, ctx: Context) -> bool:
    """Whether `commit` would accept all of it; then the member's session has begun anew.

    False: nothing has happened.
    """
    kind, limits = group.kind, ctx.limits
    return (
        kind is not None
        and repeat.most_bytes <= limits.max_append_bytes
        and repeat.longest_metadata <= limits.offset_metadata_max_chars
        and kind.takes_again(repeat.asked, ctx.now)
    )


def reset_offsets(group: GroupMemory, event: ResetOffsets, ctx: Context, out: Effects) -> None:
    """An operator sets offsets; members would not notice, so there must be none."""
    refusal = refuse_unless_empty(group)
    if refusal is not None:
        out.reply(event.token, refusal)
    else:
        offsets = CommitOffsets(event.token, "", None, -1, event.topics, -1, True)
        commit(group, offsets, ctx, out)


def _expire_timestamp(event: CommitOffsets, ctx: Context) -> int:
    """When the offsets expire by the request's own retention; -1 where it has none."""
    if event.retention_ms == -1:
        return -1
    return min(ctx.wall + event.retention_ms, _LATEST)


_LATEST: Final = 2**63 - 1


def _refuse(group: GroupMemory, event: CommitOffsets, ctx: Context) -> Refuse | None:
    if group.kind is not None:
        refusal = group.kind.refuse_commit(event)
        if refusal is not None:
            return refusal
    elif event.generation >= 0:
        if event.knows_group_id_not_found:
            return group_not_found(group.group_id)
        return Refuse(
            ErrorCode.ILLEGAL_GENERATION,
            Rule.GROUP_UNKNOWN,
            f"generation {event.generation} of a group that does not exist",
        )
    elif not fits(group.group_id):
        return text_too_long("group id", group.group_id)
    size = sum(_most_bytes(group.group_id, topic) for topic in event.topics)
    if size > ctx.limits.max_append_bytes:
        return Refuse(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            Rule.COMMIT_TOO_LARGE,
            f"up to {size} bytes of records, the log takes {ctx.limits.max_append_bytes}",
        )
    return None


def _most_bytes(group_id: str, topic: OffsetCommitRequestTopic) -> int:
    """The most bytes of the records of a topic's offsets."""
    each = RECORD_OVERHEAD + 4 * (len(group_id) + len(topic.name))
    texts = sum([len(given.committed_metadata or "") for given in topic.partitions])
    return each * len(topic.partitions) + 4 * texts


def _is_too_long(metadata: str, expires: int, ctx: Context) -> bool:
    """By the limit, and by the old version of the record that has an expire timestamp."""
    if _chars(metadata) > ctx.limits.offset_metadata_max_chars:
        return True
    return expires != -1 and not fits(metadata)


def _metadata_too_long(topic: str, partition: int, ctx: Context) -> Refuse:
    limit = ctx.limits.offset_metadata_max_chars
    return Refuse(
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
        Rule.METADATA_TOO_LONG,
        f"the metadata of partition {partition} of {topic!r} is too long: "
        f"offset.metadata.max.bytes allows {limit} characters",
    )


def _chars(text: str) -> int:
    """The length as Java counts it, in UTF-16 units."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def fetch(group: GroupMemory, event: FetchOffsets, _ctx: Context, out: Effects) -> None:
    """Tell offsets; there is no error for what does not exist, its offset is -1."""
    out.reply(event.token, Fetched(fetched(group, event)))


def fetched(group: GroupMemory, event: FetchOffsets) -> Sequence[FetchedTopic]:
    """The offsets asked for; the group does not change."""
    return group.offsets.fetch(event.topics, require_stable=event.require_stable)

"""OffsetCommit, OffsetFetch, OffsetDelete and requests about the whole group in every situation."""

from typing import Final

from coordinator_protocol.errors import ErrorCode
from coordinator_server.group.events import (
    CommitOffsets,
    DeleteGroup,
    DeleteOffsets,
    Describe,
    ExpireOffsets,
    FetchOffsets,
    TopicsDeleted,
)
from tests.specification.model import (
    NOBODY,
    Row,
    Situation,
    Written,
    alike,
    answered,
    never,
    row,
    same,
    silent,
)

_E, _S = ErrorCode, Situation

_TOLD = answered(_E.NONE)
_UNKNOWN = answered(_E.UNKNOWN_MEMBER_ID)
_FENCED = answered(_E.FENCED_INSTANCE_ID)
_ILLEGAL = answered(_E.ILLEGAL_GENERATION)
_AWAIT_ASSIGNMENT = answered(_E.REBALANCE_IN_PROGRESS)
_NOT_FOUND = answered(_E.GROUP_ID_NOT_FOUND)
_NOT_EMPTY = answered(_E.NON_EMPTY_GROUP)
_SUBSCRIBED = answered(_E.GROUP_SUBSCRIBED_TO_TOPIC)
_DELETED = answered(_E.NONE, Written.OFFSET_TOMBSTONE)
_WRITTEN = answered(_E.NONE, Written.OFFSET, renews=True)
_TOO_LONG = answered(_E.OFFSET_METADATA_TOO_LARGE)
_TOO_LONG_OF_MEMBER = answered(_E.OFFSET_METADATA_TOO_LARGE, renews=True)
_TOO_LARGE = answered(_E.UNKNOWN_SERVER_ERROR)
_ALL_TOMBSTONES = (
    Written.OFFSET_TOMBSTONE,
    Written.REBALANCE_TOMBSTONE,
    Written.GROUP_TOMBSTONE,
)
_STORY_ENDS = silent(Written.REBALANCE_TOMBSTONE)
_NO_OFFSETS = never("there are no offsets")
_FORGOTTEN = silent(Written.OFFSET_TOMBSTONE)
_KEPT = silent()

COMMITS: Final[tuple[Row, ...]] = (
    row(
        "commit_member",
        CommitOffsets,
        "a member",
        absent=NOBODY,
        empty=NOBODY,
        delayed=_ILLEGAL,
        preparing=_WRITTEN,
        completing=_AWAIT_ASSIGNMENT,
        stable=_WRITTEN,
    ),
    alike(
        "commit_other_generation",
        CommitOffsets,
        "a member of another generation",
        absent=NOBODY,
        empty=NOBODY,
        occupied=_ILLEGAL,
    ),
    alike(
        "commit_unknown",
        CommitOffsets,
        "a member id nobody has, with a generation",
        absent=_NOT_FOUND,
        empty=_UNKNOWN,
        occupied=_UNKNOWN,
    ),
    alike(
        "commit_unknown_old",
        CommitOffsets,
        "the same before version 9",
        absent=_ILLEGAL,
        empty=_UNKNOWN,
        occupied=_UNKNOWN,
    ),
    alike(
        "commit_fenced",
        CommitOffsets,
        "a group instance id with a member id that is not its own",
        absent=_NOT_FOUND,
        empty=_UNKNOWN,
        occupied=_FENCED,
    ),
    alike(
        "commit_simple",
        CommitOffsets,
        "a simple consumer: no member id, no generation",
        absent=answered(_E.NONE, Written.OFFSET, then=_S.EMPTY),
        empty=answered(_E.NONE, Written.OFFSET),
        occupied=_UNKNOWN,
    ),
    row(
        "commit_long_metadata",
        CommitOffsets,
        "a member, or a simple consumer, with metadata that is too long",
        absent=_TOO_LONG,
        empty=_TOO_LONG,
        delayed=_ILLEGAL,
        preparing=_TOO_LONG_OF_MEMBER,
        completing=_AWAIT_ASSIGNMENT,
        stable=_TOO_LONG_OF_MEMBER,
    ),
    row(
        "commit_too_large",
        CommitOffsets,
        "a member, or a simple consumer, with more than the log takes",
        absent=_TOO_LARGE,
        empty=_TOO_LARGE,
        delayed=_ILLEGAL,
        preparing=_TOO_LARGE,
        completing=_AWAIT_ASSIGNMENT,
        stable=_TOO_LARGE,
    ),
)

OFFSETS: Final[tuple[Row, ...]] = (
    same("fetch", FetchOffsets, "anybody", _TOLD),
    alike(
        "fetch_unstable",
        FetchOffsets,
        "stable offsets are required, of a partition in an open transaction",
        absent=_NO_OFFSETS,
        empty=answered(_E.UNSTABLE_OFFSET_COMMIT),
        occupied=answered(_E.UNSTABLE_OFFSET_COMMIT),
    ),
    alike(
        "delete_subscribed",
        DeleteOffsets,
        "of a topic that members subscribe to",
        absent=_NOT_FOUND,
        empty=_DELETED,
        occupied=_SUBSCRIBED,
    ),
    row(
        "delete_unsubscribed",
        DeleteOffsets,
        "of a topic that no member subscribes to",
        absent=_NOT_FOUND,
        empty=_DELETED,
        # Before the first vote nobody knows which metadata counts: all topics are in use.
        delayed=_SUBSCRIBED,
        preparing=_DELETED,
        completing=_DELETED,
        stable=_DELETED,
    ),
    alike(
        "delete_other_type",
        DeleteOffsets,
        "of a group whose members are no consumers",
        absent=_NOT_FOUND,
        empty=_DELETED,
        occupied=_NOT_EMPTY,
    ),
    alike(
        "topic_deleted",
        TopicsDeleted,
        "a topic the group has offsets of",
        absent=_NO_OFFSETS,
        empty=_FORGOTTEN,
        occupied=_FORGOTTEN,
    ),
    alike(
        "expire_young",
        ExpireOffsets,
        "no offset's retention is over",
        absent=_KEPT,
        empty=_KEPT,
        occupied=_KEPT,
    ),
    row(
        "expire_aged",
        ExpireOffsets,
        "the retention of all offsets is over; one is of a topic nobody subscribes to",
        absent=_NO_OFFSETS,
        empty=silent(*_ALL_TOMBSTONES, then=_S.ABSENT),
        delayed=_KEPT,
        preparing=_KEPT,
        completing=_KEPT,
        stable=_FORGOTTEN,
    ),
    alike(
        "expire_in_transaction",
        ExpireOffsets,
        "the same, but that one is in an open transaction",
        absent=_NO_OFFSETS,
        empty=_FORGOTTEN,
        occupied=_KEPT,
    ),
    alike(
        "expire_rebalances",
        ExpireOffsets,
        "the retention of the group's finished rebalances is over",
        absent=never("there is no history"),
        empty=_STORY_ENDS,
        occupied=_STORY_ENDS,
    ),
)

GROUPS: Final[tuple[Row, ...]] = (
    alike(
        "describe",
        Describe,
        "anybody",
        absent=_NOT_FOUND,
        empty=_TOLD,
        occupied=_TOLD,
    ),
    alike(
        "delete_group",
        DeleteGroup,
        "an administrator",
        absent=_NOT_FOUND,
        empty=answered(_E.NONE, *_ALL_TOMBSTONES, then=_S.ABSENT),
        occupied=_NOT_EMPTY,
    ),
)

"""The effects of an event: records to append, replies to send, observations to publish."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.offset_value import decode_offset
from coordinator_protocol.record_headers import NO_HEADERS, PackedHeaders
from coordinator_protocol.records import OffsetCommitKey, RecordKey, RecordValue
from coordinator_server.group.events import Token
from coordinator_server.group.rebalance_events import Culprit, Observation


class Rule(StrEnum):
    """The named rule behind a refusal, so that every error can be explained."""

    GROUP_UNKNOWN = "group_unknown"
    GROUP_EMPTY = "group_empty"
    GROUP_NOT_EMPTY = "group_not_empty"
    GROUP_FULL = "group_full"
    MEMBER_UNKNOWN = "member_unknown"
    MEMBER_ID_REQUIRED = "member_id_required"
    MEMBER_REMOVED = "member_removed"
    INSTANCE_UNKNOWN = "instance_unknown"
    INSTANCE_FENCED = "instance_fenced"
    INSTANCE_REPLACED = "instance_replaced"
    GENERATION_DIFFERS = "generation_differs"
    PROTOCOL_INCONSISTENT = "protocol_inconsistent"
    REBALANCE_UNDER_WAY = "rebalance_under_way"
    ASSIGNMENT_TOO_LARGE = "assignment_too_large"
    COMMIT_TOO_LARGE = "commit_too_large"
    TEXT_TOO_LONG = "text_too_long"
    METADATA_TOO_LONG = "metadata_too_long"
    MEMBER_METADATA_TOO_LARGE = "member_metadata_too_large"
    TOO_MANY_GROUPS = "too_many_groups"
    COMMIT_WITHOUT_MEMBERSHIP = "commit_without_membership"
    TOPIC_SUBSCRIBED = "topic_subscribed"
    TOPIC_UNKNOWN = "topic_unknown"
    NOT_AUTHORIZED = "not_authorized"
    GROUP_ID_EMPTY = "group_id_empty"
    SESSION_TIMEOUT_OUT_OF_RANGE = "session_timeout_out_of_range"
    LOADING = "loading"
    NOT_OWNED = "not_owned"
    NOT_AVAILABLE = "not_available"
    TENURE_ENDED = "tenure_ended"
    TIMED_OUT = "timed_out"
    SHUTTING_DOWN = "shutting_down"


@dataclass(slots=True, init=False)
class Refuse:
    """An error answer, with the rule that made it."""

    error: ErrorCode
    rule: Rule
    detail: str
    """For people: what was sent and what was expected."""
    member_id: str
    """The fields of a JoinGroup response besides the error."""
    since_ms: int
    """Since when what was expected holds (wall-clock milliseconds); -1 where that says nothing."""

    def __init__(
        self,
        error: ErrorCode,
        rule: Rule,
        detail: str = "",
        member_id: str = "",
        since_ms: int = -1,
    ) -> None:
        self.error = error
        self.rule = rule
        self.detail = detail
        self.member_id = member_id
        self.since_ms = since_ms


JoinedMember = tuple[str, str | None, bytes]
"""A member as the leader is told of it: id, group instance id, metadata. There may be thousands."""


@dataclass(slots=True, init=False)
class Joined:
    """JoinGroup succeeded."""

    member_id: str
    generation: int
    protocol_type: str | None
    protocol_name: str | None
    leader: str
    members: Sequence[JoinedMember]
    """For the leader; empty for everybody else."""
    skip_assignment: bool

    def __init__(
        self,
        member_id: str,
        generation: int,
        protocol_type: str | None,
        protocol_name: str | None,
        leader: str,
        members: Sequence[JoinedMember],
        skip_assignment: bool = False,
    ) -> None:
        self.member_id = member_id
        self.generation = generation
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.leader = leader
        self.members = members
        self.skip_assignment = skip_assignment


@dataclass(slots=True, init=False)
class Synced:
    """SyncGroup succeeded."""

    protocol_type: str | None
    protocol_name: str | None
    assignment: bytes

    def __init__(
        self,
        protocol_type: str | None,
        protocol_name: str | None,
        assignment: bytes,
    ) -> None:
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.assignment = assignment


@dataclass(slots=True)
class Done:
    """Success without a body."""


DONE: Final = Done()


class LeftMember(NamedTuple):
    """The result of one member of a LeaveGroup batch."""

    member_id: str
    group_instance_id: str | None
    error: ErrorCode


@dataclass(slots=True)
class Left:
    """LeaveGroup was carried out."""

    members: Sequence[LeftMember]
    refused: Sequence[Refuse] = field(default=(), compare=False)
    """Why those with an error were not removed, in their order."""


@dataclass(slots=True)
class Committed:
    """OffsetCommit was accepted; an error per partition, in the order of the event."""

    errors: Sequence[ErrorCode]
    refused: Sequence[Refuse] = field(default=(), compare=False)
    """Why the first of those with an error was not committed."""


class FetchedOffset(NamedTuple):
    """A committed offset; offset and leader epoch are -1 where there is none."""

    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    error: ErrorCode


FetchedTopic = tuple[str, Sequence[tuple[int, bytes | ErrorCode | None]]]
"""A topic and its partitions, each with the offset as its record has it, None where there is none,
or the error why it is not told."""


def unpacked(partition: int, found: bytes | ErrorCode | None) -> FetchedOffset:
    """The offset of a partition, decoded."""
    if found is None:
        return FetchedOffset(partition, -1, -1, "", ErrorCode.NONE)
    if isinstance(found, bytes):
        value = decode_offset(found)
        return FetchedOffset(
            partition, value.offset, value.leader_epoch, value.metadata, ErrorCode.NONE
        )
    return FetchedOffset(partition, -1, -1, "", found)


@dataclass(slots=True)
class Fetched:
    """OffsetFetch of one group."""

    topics: Sequence[FetchedTopic]


@dataclass(slots=True)
class Deleted:
    """OffsetDelete was carried out; an error per topic and partition."""

    topics: Sequence[tuple[str, Sequence[tuple[int, ErrorCode]]]]
    refused: Sequence[Refuse] = field(default=(), compare=False)
    """Why the offsets of topics with an error were not deleted."""


class DescribedMember(NamedTuple):
    """A member as DescribeGroups shows it."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(slots=True)
class Described:
    """DescribeGroups of an existing group."""

    state: str
    protocol_type: str
    protocol_name: str
    members: Sequence[DescribedMember]


Result = Refuse | Joined | Synced | Done | Left | Committed | Fetched | Deleted | Described


class Asked(NamedTuple):
    """Which request of whom a reply is to, where that is not what the turn is about."""

    api: str
    """As in `JoinGroup`."""
    member: Culprit


@dataclass(slots=True, init=False)
class Reply:
    """An answer to a token."""

    token: Token
    result: Result
    member_id: str | None
    """The member whose session is renewed when its held reply is sent."""
    asked: Asked | None

    def __init__(
        self,
        token: Token,
        result: Result,
        member_id: str | None = None,
        asked: Asked | None = None,
    ) -> None:
        self.token = token
        self.result = result
        self.member_id = member_id
        self.asked = asked


@dataclass(slots=True, init=False)
class Write:
    """A record to append; a None value is a tombstone."""

    key: RecordKey
    value: RecordValue | None
    headers: PackedHeaders

    def __init__(
        self,
        key: RecordKey,
        value: RecordValue | None,
        headers: PackedHeaders = NO_HEADERS,
    ) -> None:
        self.key = key
        self.value = value
        self.headers = headers


class WriteOffsets(NamedTuple):
    """Plain commits of one topic: their records to append, in order.

    The values are as they will be in the log: most are never looked at again.
    """

    group_id: str
    topic: str
    offsets: Sequence[tuple[int, bytes]]
    """Partitions and values."""

    def writes(self) -> list[Write]:
        """The same, one by one."""
        return [
            Write(OffsetCommitKey(self.group_id, self.topic, partition), decode_offset(value))
            for partition, value in self.offsets
        ]


class Effects:
    """The effects of one turn of a group."""

    __slots__ = ("_replies", "_to_all", "observed", "writes")
    observed: list[Observation]

    def __init__(self) -> None:
        self.writes: list[Write | WriteOffsets] = []
        self._replies: list[Reply] = []
        self._to_all: Sequence[Reply] = ()
        self.observed = []

    @property
    def replies(self) -> Sequence[Reply]:
        """All answers; those to thousands of members are made when they are looked at."""
        if not self._to_all:
            return self._replies
        return [*self._replies, *self._to_all] if self._replies else self._to_all

    def reply(
        self,
        token: Token,
        result: Result,
        member_id: str | None = None,
        asked: Asked | None = None,
    ) -> None:
        """Answer a token, once the writes before it are durable."""
        self._replies.append(Reply(token, result, member_id, asked))

    def reply_to_all(self, replies: Sequence[Reply]) -> None:
        """Answer all members, which happens at most once in a turn."""
        assert not self._to_all, "nobody is answered twice"
        self._to_all = replies

    def write(
        self,
        key: RecordKey,
        value: RecordValue | None,
        headers: PackedHeaders = NO_HEADERS,
    ) -> None:
        """Append a record; at the end of the turn it is applied to the group's durable state."""
        self.writes.append(Write(key, value, headers))

"""The events of a group, which do not depend on API versions.

What old versions of a request lack is defaulted by the API module that makes the event, and
behaviour that depends on the version is a field that names the capability.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from coordinator_protocol.messages.offset_commit import OffsetCommitRequestTopic

Token = object
"""A parked or pending reply. The group hands it back with the result and never looks inside."""

ProtocolMetadata = tuple[str, bytes]
"""A protocol's name and the member's metadata for it, opaque to the state machine."""


@dataclass(slots=True, init=False)
class Join:
    """JoinGroup."""

    token: Token
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Sequence[ProtocolMetadata]
    """In order of preference."""
    client_reason: str | None
    requires_known_member_id: bool
    """A dynamic member is first given an id to join with (KIP-394)."""
    can_skip_assignment: bool
    """A returning static leader may be told to skip the assignment (KIP-814)."""

    def __init__(
        self,
        token: Token,
        member_id: str,
        group_instance_id: str | None,
        client_id: str,
        client_host: str,
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
        protocol_type: str,
        protocols: Sequence[ProtocolMetadata],
        client_reason: str | None,
        requires_known_member_id: bool,
        can_skip_assignment: bool,
    ) -> None:
        self.token = token
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.protocol_type = protocol_type
        self.protocols = protocols
        self.client_reason = client_reason
        self.requires_known_member_id = requires_known_member_id
        self.can_skip_assignment = can_skip_assignment


@dataclass(slots=True, init=False)
class Sync:
    """SyncGroup."""

    token: Token
    member_id: str
    group_instance_id: str | None
    generation: int
    protocol_type: str | None
    """None where the version does not carry it: not checked (KIP-559)."""
    protocol_name: str | None
    assignments: Mapping[str, bytes]
    """By member id; only the leader's count."""

    def __init__(
        self,
        token: Token,
        member_id: str,
        group_instance_id: str | None,
        generation: int,
        protocol_type: str | None,
        protocol_name: str | None,
        assignments: Mapping[str, bytes],
    ) -> None:
        self.token = token
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.generation = generation
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.assignments = assignments


@dataclass(slots=True)
class Heartbeat:
    """Heartbeat."""

    token: Token
    member_id: str
    group_instance_id: str | None
    generation: int


@dataclass(slots=True)
class LeavingMember:
    """One member of a LeaveGroup batch; an empty member id leaves by instance id (KIP-345)."""

    member_id: str
    group_instance_id: str | None
    client_reason: str | None = None


@dataclass(slots=True)
class Leave:
    """LeaveGroup."""

    token: Token
    members: Sequence[LeavingMember]


@dataclass(slots=True)
class CommitOffsets:
    """OffsetCommit, of the partitions that exist and the caller may commit."""

    token: Token
    member_id: str
    group_instance_id: str | None
    generation: int
    """-1: not a member."""
    topics: Sequence[OffsetCommitRequestTopic]
    """As they were decoded: there may be thousands of partitions."""
    retention_ms: int
    """-1: the configured retention."""
    knows_group_id_not_found: bool
    """Else a missing group is answered ILLEGAL_GENERATION (before version 9)."""


@dataclass(slots=True)
class FetchOffsets:
    """OffsetFetch of one group."""

    token: Token
    topics: Sequence[tuple[str, Sequence[int]]] | None
    """Topics and partitions; None for all there are."""
    require_stable: bool
    """Refuse partitions with offsets of an open transaction (KIP-447)."""


@dataclass(slots=True)
class DeleteOffsets:
    """OffsetDelete (KIP-496)."""

    token: Token
    topics: Sequence[tuple[str, Sequence[int]]]


@dataclass(slots=True)
class DeleteGroup:
    """DeleteGroups, one group of it (KIP-229)."""

    token: Token


@dataclass(slots=True)
class KickMember:
    """An operator removes a member, or an id that was handed out."""

    token: Token
    member_id: str
    group_instance_id: str | None
    """Names the member where `member_id` is empty."""
    client_reason: str
    """The operator's own words."""


@dataclass(slots=True)
class ForceRebalance:
    """An operator wants the members to join anew."""

    token: Token
    client_reason: str
    """The operator's own words."""


@dataclass(slots=True)
class ResetOffsets:
    """An operator sets offsets of an Empty group."""

    token: Token
    topics: Sequence[OffsetCommitRequestTopic]


@dataclass(slots=True)
class Describe:
    """DescribeGroups, one group of it."""

    token: Token


@dataclass(slots=True)
class TopicsDeleted:
    """These topics do not exist any more."""

    topics: frozenset[str]
    token: Token | None = None
    """Told when the tombstones are durable, if anybody wants to know."""


@dataclass(slots=True)
class ExpireOffsets:
    """The sweep comes by: offsets whose retention is over go."""


@dataclass(slots=True, init=False)
class Released:
    """Replies to these members were held until records were durable and have now left.

    Their sessions start anew: they could not heartbeat while they waited for the answer.
    """

    member_ids: Sequence[str]

    def __init__(self, member_ids: Sequence[str]) -> None:
        self.member_ids = member_ids


@dataclass(slots=True)
class Loaded:
    """The partition's log has been replayed: members get a full session from now on."""

    spent_generation: int = 0
    """The last one that members may know from before and the log may not have; 0 if none."""


@dataclass(slots=True)
class Tick:
    """Time has passed; whatever is due happens."""


Event = (
    Join
    | Sync
    | Heartbeat
    | Leave
    | CommitOffsets
    | FetchOffsets
    | DeleteOffsets
    | DeleteGroup
    | KickMember
    | ForceRebalance
    | ResetOffsets
    | Describe
    | TopicsDeleted
    | ExpireOffsets
    | Released
    | Loaded
    | Tick
)

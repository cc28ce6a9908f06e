"""Members of one group that send requests and keep the results."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coordinator_protocol.errors import ErrorCode
from coordinator_server.group.effects import (
    Joined,
    Refuse,
    Result,
    Rule,
    Synced,
)
from coordinator_server.group.events import (
    CommitOffsets,
    DeleteGroup,
    Event,
    FetchOffsets,
    ForceRebalance,
    Heartbeat,
    Join,
    KickMember,
    Leave,
    LeavingMember,
    ProtocolMetadata,
    ResetOffsets,
    Sync,
)
from tests.support.offsets import OffsetToCommit, topics_of

RANGE: Sequence[ProtocolMetadata] = (("range", b"r"),)
DELAY_MS = 3_000
SESSION_MS = 10_000
REBALANCE_MS = 60_000


@dataclass(eq=False)
class Request:
    """A request; also the token of its event."""

    what: str
    member: "Member | None" = None
    result: Result | None = None

    def answered(self, result: Result) -> None:
        """Store the result; fails if there is one."""
        assert self.result is None, f"{self.what} was answered {self.result} and then {result}"
        self.result = result
        if self.member is not None:
            self.member.on_response(result)

    @property
    def is_parked(self) -> bool:
        """Whether the request has no result yet."""
        return self.result is None

    @property
    def error(self) -> ErrorCode:
        """The error code of the result, NONE for a success."""
        assert self.result is not None, f"{self.what} is still parked"
        return self.result.error if isinstance(self.result, Refuse) else ErrorCode.NONE

    @property
    def rule(self) -> Rule | None:
        """The rule by which the request was refused."""
        return self.result.rule if isinstance(self.result, Refuse) else None

    @property
    def joined(self) -> Joined:
        """The result of a successful JoinGroup."""
        assert isinstance(self.result, Joined), self.result
        return self.result

    @property
    def assignment(self) -> bytes:
        """The assignment in the result of a SyncGroup."""
        assert isinstance(self.result, Synced), self.result
        return self.result.assignment


@dataclass(eq=False)
class Member:
    """A member that keeps its member id and generation."""

    requests: "GroupRequests"
    name: str
    instance: str | None = None
    session: int = SESSION_MS
    rebalance: int = REBALANCE_MS
    protocols: Sequence[ProtocolMetadata] = RANGE
    protocol_type: str = "consumer"
    known: bool = True
    """JoinGroup version 4 and later: MEMBER_ID_REQUIRED first."""
    skips: bool = True
    """JoinGroup version 9 and later."""
    member_id: str = ""
    generation: int = -1

    def on_response(self, result: Result) -> None:
        """Take the member id and the generation from a result."""
        if isinstance(result, Joined):
            self.member_id, self.generation = result.member_id, result.generation
        elif isinstance(result, Refuse) and result.error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = result.member_id

    def join(self, reason: str | None = None, **changes: Any) -> Request:
        """JoinGroup with the current member id; `changes` are fields of Join."""
        request = Request(f"JoinGroup of {self.name}", self)
        event = Join(
            token=request,
            member_id=self.member_id,
            group_instance_id=self.instance,
            client_id=self.name,
            client_host=f"/{self.name}"[:40],
            session_timeout_ms=self.session,
            rebalance_timeout_ms=self.rebalance,
            protocol_type=self.protocol_type,
            protocols=self.protocols,
            client_reason=reason,
            requires_known_member_id=self.known,
            can_skip_assignment=self.skips,
        )
        for name, value in changes.items():
            setattr(event, name, value)
        self.requests.send(event, request)
        return request

    def enter(self, reason: str | None = None) -> Request:
        """JoinGroup, and again with the member id if one is required."""
        request = self.join(reason)
        if request.result is not None and request.error is ErrorCode.MEMBER_ID_REQUIRED:
            return self.join(reason)
        return request

    def restarted(self) -> "Member":
        """The same static member in a new process."""
        return Member(
            self.requests,
            self.name,
            self.instance,
            self.session,
            self.rebalance,
            self.protocols,
            self.protocol_type,
            self.known,
            self.skips,
        )

    def sync(self, assignments: "Mapping[Member, bytes] | None" = None, **changes: Any) -> Request:
        """SyncGroup; the leader's with assignments."""
        request = Request(f"SyncGroup of {self.name}")
        event = Sync(
            token=request,
            member_id=self.member_id,
            group_instance_id=self.instance,
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=None,
            assignments={m.member_id: given for m, given in (assignments or {}).items()},
        )
        for name, value in changes.items():
            setattr(event, name, value)
        self.requests.send(event, request)
        return request

    def heartbeat(self, generation: int | None = None) -> Request:
        """Heartbeat."""
        request = Request(f"Heartbeat of {self.name}")
        sent = self.generation if generation is None else generation
        self.requests.send(Heartbeat(request, self.member_id, self.instance, sent), request)
        return request

    def leave(self, reason: str | None = None) -> Request:
        """LeaveGroup."""
        return self.requests.leave(LeavingMember(self.member_id, self.instance, reason))

    def commit(self, *offsets: OffsetToCommit, **changes: Any) -> Request:
        """OffsetCommit by the member; of one partition unless said otherwise."""
        given = {
            "member_id": self.member_id,
            "group_instance_id": self.instance,
            "generation": self.generation,
        }
        return self.requests.commit(*offsets, **{**given, **changes})


def offset(
    number: int, partition: int = 0, topic: str = "orders", metadata: str = "", epoch: int = -1
) -> OffsetToCommit:
    """An offset to commit."""
    return OffsetToCommit(topic, partition, number, epoch, metadata)


class GroupRequests:
    """Builds the requests to one group; a subclass implements `send`."""

    def send(self, event: Event, request: Request) -> None:
        """Send the event of a request."""
        raise NotImplementedError

    def member(self, name: str, instance: str | None = None, **how: Any) -> Member:
        """A client that has not joined yet."""
        return Member(self, name, instance, **how)

    def leave(self, *members: LeavingMember) -> Request:
        """LeaveGroup of several members."""
        request = Request("LeaveGroup")
        self.send(Leave(request, members), request)
        return request

    def commit(self, *offsets: OffsetToCommit, **changes: Any) -> Request:
        """OffsetCommit without a member id, unless `changes` has one."""
        request = Request("OffsetCommit")
        event = CommitOffsets(
            token=request,
            member_id="",
            group_instance_id=None,
            generation=-1,
            topics=topics_of(offsets or (offset(1),)),
            retention_ms=-1,
            knows_group_id_not_found=True,
        )
        for name, value in changes.items():
            setattr(event, name, value)
        self.send(event, request)
        return request

    def ask_offsets(
        self, topics: Sequence[tuple[str, Sequence[int]]] | None = None, *, stable: bool = False
    ) -> Request:
        """OffsetFetch."""
        request = Request("OffsetFetch")
        self.send(FetchOffsets(request, topics, stable), request)
        return request

    def delete(self) -> Request:
        """DeleteGroups."""
        request = Request("DeleteGroups")
        self.send(DeleteGroup(request), request)
        return request

    def kick(self, member_id: str, instance: str | None = None, why: str = "stuck") -> Request:
        """An operator removes a member."""
        request = Request("kick")
        self.send(KickMember(request, member_id, instance, why), request)
        return request

    def force_rebalance(self, why: str = "try again") -> Request:
        """An operator forces a rebalance."""
        request = Request("rebalance")
        self.send(ForceRebalance(request, why), request)
        return request

    def reset(self, *offsets: OffsetToCommit) -> Request:
        """An operator sets offsets."""
        request = Request("reset")
        self.send(ResetOffsets(request, topics_of(offsets)), request)
        return request

"""Stories of one group, told event by event, with nothing round it: no loop, no log, no clock.

After every event the rules of the group are checked, and that its durable state is what its
records say, and that whoever is not answered yet is parked in the group. Time is virtual.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from coordinator_server.group.classic.state import ClassicGroup
from coordinator_server.group.context import Context, Limits
from coordinator_server.group.effects import (
    DONE,
    Described,
    Effects,
    Fetched,
    FetchedOffset,
    Joined,
    Refuse,
    Result,
    Rule,
    Synced,
    Write,
)
from coordinator_server.group.events import (
    CommitOffsets,
    DeleteGroup,
    DeleteOffsets,
    Describe,
    Event,
    FetchOffsets,
    ForceRebalance,
    Heartbeat,
    Join,
    KickMember,
    Leave,
    LeavingMember,
    Loaded,
    ProtocolMetadata,
    ResetOffsets,
    Sync,
    Tick,
)
from coordinator_server.group.machine import Group
from coordinator_server.group.purgatory import NEVER
from coordinator_server.group.reasons import (
    MemberRemoved,
    Observation,
    RebalanceEvent,
    RebalanceStarted,
)
from coordinator_server.group.replay import apply
from coordinator_server.ids import CountingIds
from protocol.errors import ErrorCode
from protocol.records import (
    RecordKey,
    RecordValue,
    UnknownKey,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from tests.support.offsets import OffsetToCommit, by_place, one_by_one, topics_of

RANGE: Sequence[ProtocolMetadata] = (("range", b"r"),)
DELAY_MS = 3_000
SESSION_MS = 10_000
REBALANCE_MS = 60_000

_RUNAWAY = 1_000
"""Ticks without any time between them after which a group is taken to spin."""


@dataclass(eq=False)
class Request:
    """A request, which is its own token."""

    what: str
    member: "Member | None" = None
    result: Result | None = None

    def answered(self, result: Result) -> None:
        """Take the answer, once."""
        assert self.result is None, f"{self.what} was answered {self.result} and then {result}"
        self.result = result
        if self.member is not None:
            self.member.heard(result)

    @property
    def is_parked(self) -> bool:
        """Whether the answer is still to come."""
        return self.result is None

    @property
    def error(self) -> ErrorCode:
        """The error of the answer, NONE for a success."""
        assert self.result is not None, f"{self.what} is still parked"
        return self.result.error if isinstance(self.result, Refuse) else ErrorCode.NONE

    @property
    def rule(self) -> Rule | None:
        """The rule that refused it."""
        return self.result.rule if isinstance(self.result, Refuse) else None

    @property
    def joined(self) -> Joined:
        """The answer to a JoinGroup that succeeded."""
        assert isinstance(self.result, Joined), self.result
        return self.result

    @property
    def assignment(self) -> bytes:
        """What a SyncGroup brought."""
        assert isinstance(self.result, Synced), self.result
        return self.result.assignment


@dataclass(eq=False)
class Member:
    """A client that remembers what it was told."""

    story: "Callers"
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

    def heard(self, result: Result) -> None:
        """Learn the member id and the generation."""
        if isinstance(result, Joined):
            self.member_id, self.generation = result.member_id, result.generation
        elif isinstance(result, Refuse) and result.error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = result.member_id

    def join(self, reason: str | None = None, **changes: Any) -> Request:
        """JoinGroup as the member it is."""
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
        self.story.send(event, request)
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
            self.story,
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
        self.story.send(event, request)
        return request

    def heartbeat(self, generation: int | None = None) -> Request:
        """Heartbeat."""
        request = Request(f"Heartbeat of {self.name}")
        sent = self.generation if generation is None else generation
        self.story.send(Heartbeat(request, self.member_id, self.instance, sent), request)
        return request

    def leave(self, reason: str | None = None) -> Request:
        """LeaveGroup."""
        return self.story.leave(LeavingMember(self.member_id, self.instance, reason))

    def commit(self, *offsets: OffsetToCommit, **changes: Any) -> Request:
        """OffsetCommit by the member; of one partition unless said otherwise."""
        given = {
            "member_id": self.member_id,
            "group_instance_id": self.instance,
            "generation": self.generation,
        }
        return self.story.commit(*offsets, **{**given, **changes})


def offset(
    number: int, partition: int = 0, topic: str = "orders", metadata: str = "", epoch: int = -1
) -> OffsetToCommit:
    """An offset to commit."""
    return OffsetToCommit(topic, partition, number, epoch, metadata)


class Callers:
    """Where clients send their requests for one group."""

    def send(self, event: Event, request: Request) -> None:
        """Hand a request over."""
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
        """OffsetCommit of somebody who is no member, unless said otherwise."""
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
        """An operator lets the members join anew."""
        request = Request("rebalance")
        self.send(ForceRebalance(request, why), request)
        return request

    def reset(self, *offsets: OffsetToCommit) -> Request:
        """An operator sets offsets."""
        request = Request("reset")
        self.send(ResetOffsets(request, topics_of(offsets)), request)
        return request


@dataclass
class Story(Callers):
    """A group and all that happened to it."""

    group_id: str = "group"
    limits: Limits = field(default_factory=Limits)
    now: int = 1_000_000
    wall: int = 1_700_000_000_000

    def __post_init__(self) -> None:
        """Begin with nothing."""
        self.group = Group(self.group_id)
        self.ids = CountingIds()
        self.log: list[tuple[bytes, bytes | None]] = []
        """Every record as it is in the log."""
        self.writes: list[Write] = []
        self.observed: list[Observation] = []
        self.parked: list[Request] = []
        self._replayed = Group(self.group_id)

    # --- who and what there is ---

    @property
    def classic(self) -> ClassicGroup:
        """The group, which must exist."""
        assert self.group.classic is not None
        return self.group.classic

    @property
    def state(self) -> str:
        """The group's state, Dead if there is none."""
        return "Dead" if self.group.classic is None else self.group.classic.state.value

    @property
    def generation(self) -> int:
        """The group's generation."""
        return self.classic.generation

    @property
    def rebalances(self) -> list[RebalanceEvent]:
        """Those that have ended."""
        return [o for o in self.observed if isinstance(o, RebalanceEvent)]

    @property
    def started(self) -> list[RebalanceStarted]:
        """Those that have begun."""
        return [o for o in self.observed if isinstance(o, RebalanceStarted)]

    @property
    def removed(self) -> list[tuple[str, str]]:
        """Client ids and reasons of the members that were removed."""
        return [
            (o.member.client_id, o.reason.value)
            for o in self.observed
            if isinstance(o, MemberRemoved)
        ]

    # --- what happens ---

    def stable(self, *names: str, **how: Any) -> list[Member]:
        """Members of these names, the first of them leading, in a Stable group."""
        members = [self.member(name, **how) for name in names]
        self.settle(*members)
        return members

    def settle(self, *members: Member) -> None:
        """Let these join and sync; each is assigned its own name."""
        for member in members:
            member.enter()
        while self.state == "PreparingRebalance":
            self.advance(DELAY_MS)
        self.sync_all(*members)

    def rejoin(self, *members: Member) -> None:
        """Let members that are asked to join again do so, and sync."""
        for member in members:
            member.join()
        self.sync_all(*members)

    def sync_all(self, *members: Member) -> None:
        """SyncGroup of everybody, the leader's last."""
        for member in sorted(members, key=lambda m: m.member_id == self.classic.leader):
            leads = member.member_id == self.classic.leader
            member.sync({m: m.name.encode() for m in members} if leads else None)
        assert self.state == "Stable"

    def advance(self, ms: int) -> list[Request]:
        """Let time pass, and the group look whenever it has to; returns what was answered."""
        waiting = list(self.parked)
        until = self.now + ms
        ticks = 0
        while (deadline := self.group.next_deadline()) <= until:
            ticks = ticks + 1 if deadline <= self.now else 0
            assert ticks < _RUNAWAY, f"the group keeps ticking at {self.now}"
            self._pass(max(deadline - self.now, 0))
            self.handle(Tick())
        self._pass(until - self.now)
        return [request for request in waiting if not request.is_parked]

    def _pass(self, ms: int) -> None:
        self.now += ms
        self.wall += ms

    def fetch(
        self, topics: Sequence[tuple[str, Sequence[int]]] | None = None, *, stable: bool = False
    ) -> dict[tuple[str, int], FetchedOffset]:
        """OffsetFetch, by topic and partition."""
        request = self.ask_offsets(topics, stable=stable)
        assert isinstance(request.result, Fetched), request.result
        return by_place(request.result)

    def delete_offsets(self, *topics: tuple[str, Sequence[int]]) -> Request:
        """OffsetDelete."""
        request = Request("OffsetDelete")
        self.send(DeleteOffsets(request, topics), request)
        return request

    def describe(self) -> Described:
        """DescribeGroups of a group that exists."""
        request = Request("DescribeGroups")
        self.send(Describe(request), request)
        assert isinstance(request.result, Described), request.result
        return request.result

    def send(self, event: Event, request: Request) -> None:
        """Hand a request to the group."""
        self.parked.append(request)
        self.handle(event)

    def handle(self, event: Event) -> Effects:
        """Hand an event to the group, deliver what it answers, and check everything."""
        effects = self.group.handle(event, self.context())
        if isinstance(event, Heartbeat):
            assert self.group.renew(event, self.now) is (effects.replies[0].result is DONE)
        self.observed += effects.observed
        for write in one_by_one(effects.writes):
            self._append(write)
        for reply in effects.replies:
            assert isinstance(reply.token, Request)
            reply.token.answered(reply.result)
        self.parked = [request for request in self.parked if request.is_parked]
        self.check()
        return effects

    def context(self) -> Context:
        """The world as the coming event sees it."""
        return Context(self.now, self.wall, self.ids, self.limits)

    # --- the log ---

    def _append(self, write: Write) -> None:
        self.writes.append(write)
        self.record(write.key, write.value)

    def record(self, key: RecordKey, value: RecordValue | None) -> None:
        """Have a record in the log; what the group itself has not written, a restart shows."""
        self.log.append((encode_key(key), None if value is None else encode_value(value)))
        replay_record(self._replayed, *self.log[-1])

    def restart(self) -> None:
        """Forget everything but the log; whoever was parked gets no answer."""
        self.parked = []
        self.group = Group(self.group_id)
        for key, value in self.log:
            replay_record(self.group, key, value)
        self.handle(Loaded())

    def check(self) -> None:
        """What has to be true between any two events."""
        group = self.group
        assert list(group.broken_rules()) == []
        assert group.durable == self._replayed.durable
        assert group.past == self._replayed.past
        assert group.offsets.committed == self._replayed.offsets.committed
        tokens = [] if group.classic is None else parked_tokens(group.classic)
        assert set(map(id, tokens)) == set(map(id, self.parked)), "a request was lost"
        if group.classic is not None and group.classic.members:
            assert group.next_deadline() < NEVER


def replay_record(group: Group, key: bytes, value: bytes | None, **how: int) -> None:
    """Apply a record to a group as a load does."""
    decoded = decode_key(key)
    assert not isinstance(decoded, UnknownKey)
    apply(group, decoded, None if value is None else decode_value(decoded, value), **how)


def parked_tokens(group: ClassicGroup) -> list[object]:
    """The tokens of everybody who waits for the group."""
    tokens = [(member.join_token, member.sync_token) for member in group.members.values()]
    return [token for pair in tokens for token in pair if token is not None]

"""Drives one group event by event, without an event loop, a log or a real clock.

After every event the rules of the group are checked, and that its durable state is what its
records say, and that whoever is not answered yet is parked in the group. Time is virtual.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from coordinator_protocol.records import (
    GroupMetadataValue,
    RecordKey,
    RecordValue,
    UnknownKey,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from coordinator_server.group.classic.state import ClassicGroup
from coordinator_server.group.commits import repeated
from coordinator_server.group.context import Context, Limits
from coordinator_server.group.effects import (
    DONE,
    Committed,
    Described,
    Effects,
    Fetched,
    FetchedOffset,
    Write,
    WriteOffsets,
)
from coordinator_server.group.events import (
    CommitOffsets,
    DeleteOffsets,
    Describe,
    Event,
    FetchOffsets,
    Heartbeat,
    Loaded,
    Tick,
)
from coordinator_server.group.group import Group
from coordinator_server.group.purgatory import NEVER
from coordinator_server.group.rebalance_events import (
    MemberRemoved,
    Observation,
    RebalanceEvent,
    RebalanceStarted,
)
from coordinator_server.group.replay import apply
from coordinator_server.ids import CountingIds
from tests.support.classic import classic_of
from tests.support.group_requests import (
    DELAY_MS,
    RANGE,
    REBALANCE_MS,
    SESSION_MS,
    GroupRequests,
    Member,
    Request,
    offset,
)
from tests.support.offsets import by_place, one_by_one
from tests.support.written_group import is_as_written

__all__ = [
    "DELAY_MS",
    "RANGE",
    "REBALANCE_MS",
    "SESSION_MS",
    "GroupHarness",
    "GroupRequests",
    "Member",
    "Request",
    "offset",
    "parked_tokens",
    "replay_record",
]

_RUNAWAY = 1_000
"""Ticks at one point of time after which the harness reports an endless loop."""


@dataclass
class GroupHarness(GroupRequests):
    """A group with its records, observations and parked requests."""

    group_id: str = "group"
    limits: Limits = field(default_factory=Limits)
    now: int = 1_000_000
    wall: int = 1_700_000_000_000

    def __post_init__(self) -> None:
        """Start with an empty group."""
        self.group = Group(self.group_id)
        self.ids = CountingIds()
        self.log: list[tuple[bytes, bytes | None]] = []
        """Encoded keys and values of all records, in log order."""
        self.writes: list[Write] = []
        self.observed: list[Observation] = []
        self.parked: list[Request] = []
        self._replayed = Group(self.group_id)

    # --- who and what there is ---

    @property
    def classic(self) -> ClassicGroup:
        """The group, which must exist."""
        return classic_of(self.group)

    @property
    def durable(self) -> GroupMetadataValue | None:
        """The group in its last record."""
        return self._replayed.durable

    @property
    def state(self) -> str:
        """The group's state, Dead if there is none."""
        return "Dead" if self.group.kind is None else self.classic.state.value

    @property
    def generation(self) -> int:
        """The group's generation."""
        return self.classic.generation

    @property
    def rebalances(self) -> list[RebalanceEvent]:
        """The observed rebalances that have ended."""
        return [o for o in self.observed if isinstance(o, RebalanceEvent)]

    @property
    def started(self) -> list[RebalanceStarted]:
        """The observed starts of rebalances."""
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
        """Make the group Stable with members of these names; the first one leads."""
        members = [self.member(name, **how) for name in names]
        self.settle(*members)
        return members

    def settle(self, *members: Member) -> None:
        """Join and sync members; each is assigned its own name."""
        for member in members:
            member.enter()
        while self.state == "PreparingRebalance":
            self.advance(DELAY_MS)
        self.sync_all(*members)

    def rejoin(self, *members: Member) -> None:
        """Rejoin and sync members."""
        for member in members:
            member.join()
        self.sync_all(*members)

    def sync_all(self, *members: Member) -> None:
        """SyncGroup of all members, the leader last."""
        for member in sorted(members, key=lambda m: m.member_id == self.classic.leader):
            leads = member.member_id == self.classic.leader
            member.sync({m: m.name.encode() for m in members} if leads else None)
        assert self.state == "Stable"

    def advance(self, ms: int) -> list[Request]:
        """Advance the time and tick at every deadline; returns the requests answered meanwhile."""
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
        """Send a request to the group."""
        self.parked.append(request)
        self.handle(event)

    def handle(self, event: Event) -> Effects:
        """Handle an event, deliver its replies, and check all invariants."""
        effects = self.group.handle(event, self.context())
        if isinstance(event, Heartbeat):
            renewed = self.group.renew(
                event.member_id, event.group_instance_id, event.generation, self.now
            )
            assert renewed is (effects.replies[0].result is DONE)
        if isinstance(event, CommitOffsets):
            self._commit_again(event, effects)
        if isinstance(event, FetchOffsets):
            assert effects.replies[0].result == Fetched(self.group.fetched(event))
        self.observed += effects.observed
        for write in one_by_one(effects.writes):
            self._append(write)
        for reply in effects.replies:
            assert isinstance(reply.token, Request)
            reply.token.answered(reply.result)
        self.parked = [request for request in self.parked if request.is_parked]
        self.check()
        return effects

    def _commit_again(self, event: CommitOffsets, effects: Effects) -> None:
        """Check that the path for repeated commits yields the same effects."""
        try:
            repeat = repeated(self.group_id, event)
        except ValueError:
            return
        result = effects.replies[0].result
        accepted = isinstance(result, Committed) and not any(result.errors)
        assert self.group.takes_again(repeat, self.context()) is accepted
        if accepted:
            offsets = [p.committed_offset for topic in event.topics for p in topic.partitions]
            read = [offset.to_bytes(8, "big", signed=True) for offset in offsets]
            encoded = repeat.template.encode(0, read, self.wall)
            writes = [
                WriteOffsets(self.group_id, topic, values)
                for topic, values in repeat.template.values(encoded)
            ]
            assert writes == effects.writes
            assert repeat.accepted == result
            self.group.commit_again(repeat, encoded)

    def context(self) -> Context:
        """The context of the next event."""
        return Context(self.now, self.wall, self.ids, self.limits)

    # --- the log ---

    def _append(self, write: Write) -> None:
        self.writes.append(write)
        self.record(write.key, write.value)

    def record(self, key: RecordKey, value: RecordValue | None) -> None:
        """Append a record that the group has not written; `restart` replays it."""
        self.log.append((encode_key(key), None if value is None else encode_value(value)))
        replay_record(self._replayed, *self.log[-1])

    def restart(self, *, spent_generation: int = 0) -> None:
        """Replace the group by a replay of the log; parked requests get no answer."""
        self.parked = []
        self.group = Group(self.group_id)
        for key, value in self.log:
            replay_record(self.group, key, value)
        self.handle(Loaded(spent_generation))

    def check(self) -> None:
        """Check the invariants that hold between any two events."""
        group = self.group
        assert list(group.broken_rules()) == []
        assert is_as_written(group, self.durable)
        assert group.past == self._replayed.past
        assert group.offsets.committed == self._replayed.offsets.committed
        tokens = [] if group.kind is None else parked_tokens(classic_of(group))
        assert set(map(id, tokens)) == set(map(id, self.parked)), "a request was lost"
        if group.kind is not None and classic_of(group).members:
            assert group.next_deadline() < NEVER


def replay_record(group: Group, key: bytes, value: bytes | None, **how: int) -> None:
    """Apply a record to a group as a load does."""
    decoded = decode_key(key)
    assert not isinstance(decoded, UnknownKey)
    apply(group, decoded, None if value is None else decode_value(decoded, value), **how)


def parked_tokens(group: ClassicGroup) -> list[object]:
    """The tokens of all parked requests."""
    tokens = [(member.join_token, member.sync_token) for member in group.members.values()]
    return [token for pair in tokens for token in pair if token is not None]

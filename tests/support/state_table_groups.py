"""Groups in every situation of the state table, and the outcome of an event on them.

Each group has a leader, a follower, a static member, and a member whose request is parked where
the situation allows that.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.history import RebalanceHistoryKey
from coordinator_protocol.offset_value import OffsetCommitValue
from coordinator_protocol.records import GroupMetadataKey, OffsetCommitKey
from coordinator_protocol.subscription import Subscription, encode_subscription
from coordinator_server.group.classic.history import Rebalance
from coordinator_server.group.classic.state import ClassicGroup, ClassicGroupState
from coordinator_server.group.context import Limits
from coordinator_server.group.effects import Committed, Deleted, Fetched, Left, Refuse, Result
from coordinator_server.group.rebalance_events import MemberRemoved, RebalanceEvent, Round
from coordinator_server.group.replay import apply
from tests.specification.table import Answer, Entry, Situation, Written
from tests.support.classic import classic_or_none
from tests.support.group_harness import GroupHarness, Member, Request, offset
from tests.support.offsets import fetched_offsets

_T = TypeVar("_T")

SUBSCRIBED, UNSUBSCRIBED = "orders", "other"
DELAY_MS = 30_000
SHORT_SESSION_MS = 10_000
LONG_SESSION_MS = 1_000_000
MONTH_MS = 30 * 24 * 60 * 60 * 1000

_BLOB = encode_subscription(Subscription([SUBSCRIBED]))
PROTOCOLS = (("range", _BLOB), ("sticky", _BLOB))
_OWNING = encode_subscription(Subscription([SUBSCRIBED], b"tasks", {SUBSCRIBED: [7]}, 3))
OWNING = tuple((name, _OWNING) for name, _ in PROTOCOLS)
CHANGED = tuple((name, encode_subscription(Subscription(["more"]))) for name, _ in PROTOCOLS)


@dataclass(frozen=True)
class MemberOptions:
    """Settings of the members that differ between rows of the table; times in ms."""

    protocol_type: str = "consumer"
    follower_session: int = LONG_SESSION_MS
    waiting_session: int = LONG_SESSION_MS
    waiting_rebalance: int = 60_000
    delay: int = DELAY_MS
    follower_syncs: bool = True


@dataclass(frozen=True)
class _Before:
    situation: Situation
    writes: int
    observed: int
    parked: Sequence[Request]
    rebalance: Rebalance | None
    rounds: int
    actor: Member


class SituationHarness:
    """Builds a group in a situation and reports the outcome of the next event."""

    def __init__(self, situation: Situation, options: MemberOptions) -> None:
        self.driver = GroupHarness(
            limits=Limits(initial_rebalance_delay_ms=DELAY_MS, history_retention_ms=MONTH_MS)
        )
        self.options = options
        self.leader = self._member("leader")
        self.follower = self._member("follower", session=options.follower_session)
        self.static = self._member("static", "static")
        self.waiting = self._member(
            "waiting", session=options.waiting_session, rebalance=options.waiting_rebalance
        )
        _BUILD[situation](self)
        assert self.situation is situation
        self.watch()

    def _member(self, name: str, instance: str | None = None, **how: Any) -> Member:
        how = {
            "protocols": PROTOCOLS,
            "session": LONG_SESSION_MS,
            "protocol_type": self.options.protocol_type,
            **how,
        }
        return self.driver.member(name, instance, **how)

    # --- building the situations ---

    def _absent(self) -> None:
        pass

    def _empty(self) -> None:
        first = self._member("first")
        self.driver.settle(first)
        first.leave()
        self.driver.commit(offset(7, topic=SUBSCRIBED), offset(7, topic=UNSUBSCRIBED))

    def _delayed(self) -> None:
        self._empty()
        self.limit(initial_rebalance_delay_ms=self.options.delay)
        self.leader.enter()
        self.driver.advance(1)
        for member in (self.follower, self.static, self.waiting):
            member.enter()

    def _preparing(self) -> None:
        self._empty()
        self.driver.settle(self.leader, self.follower, self.static)
        self.waiting.enter()

    def _completing(self) -> None:
        self._preparing()
        for member in (self.leader, self.follower, self.static):
            member.join()
        self.waiting.sync()

    def _stable(self) -> None:
        self._completing()
        silent = None if self.options.follower_syncs else self.follower
        for member in (self.follower, self.static, self.leader):
            if member is not silent:
                member.sync({self.leader: b"l"} if member is self.leader else None)

    # --- preparing an event ---

    def limit(self, **limits: int) -> None:
        """Change a limit from now on."""
        self.driver.limits = replace(self.driver.limits, **limits)

    def newcomer(self, instance: str | None = None, **how: Any) -> Member:
        """A client that is not a member."""
        return self._member("newcomer", instance, **how)

    def pending(self) -> Member:
        """A client that was given a member id and has not joined yet."""
        pending = self._member("pending", session=SHORT_SESSION_MS)
        assert pending.join().error is ErrorCode.MEMBER_ID_REQUIRED
        self.watch(self.follower)
        return pending

    def stranger(self) -> Member:
        """A client with an unknown member id."""
        stranger = self._member("stranger")
        stranger.member_id, stranger.generation = "nobody", 1
        return stranger

    def impostor(self) -> Member:
        """A client with the group instance id of the static member and another member id."""
        impostor = self._member("impostor", "static")
        impostor.member_id, impostor.generation = "impostor", 1
        return impostor

    def begin_transaction(self) -> None:
        """Add a pending transactional offset of the unsubscribed topic."""
        apply(
            self.driver.group,
            OffsetCommitKey("group", UNSUBSCRIBED, 0),
            OffsetCommitValue(8, -1, "", self.driver.wall, -1),
            producer_id=7,
            order=1,
        )

    def until(self, deadline: int | None) -> None:
        """Advance the time to a deadline."""
        assert deadline is not None
        self.driver.advance(deadline - self.driver.now)

    def others_join(self) -> None:
        """The leader and the static member rejoin; the follower does not."""
        self.leader.join()
        self.static.join()
        self.watch(self.follower)

    # --- observing the outcome ---

    @property
    def classic(self) -> ClassicGroup:
        """The group, which must exist."""
        return self.driver.classic

    @property
    def has_members(self) -> bool:
        """Whether the group has members."""
        return self.driver.group.kind is not None and bool(self.classic.members)

    @property
    def situation(self) -> Situation:
        """The current situation of the group."""
        group = classic_or_none(self.driver.group)
        if group is None:
            return Situation.ABSENT
        if group.state is ClassicGroupState.PREPARING_REBALANCE:
            join = group.purgatory.join
            delayed = join is not None and join.initial
            return Situation.DELAYED if delayed else Situation.PREPARING
        return Situation(group.state.value)

    def watch(self, actor: Member | None = None) -> None:
        """Start observing; `outcome` reports whether the session of `actor` was renewed."""
        self.driver.advance(1)
        group = classic_or_none(self.driver.group)
        rebalance = None if group is None else group.history.rebalance
        self._before = _Before(
            self.situation,
            len(self.driver.writes),
            len(self.driver.observed),
            tuple(self.driver.parked),
            rebalance,
            0 if rebalance is None else len(rebalance.rounds),
            actor or self.follower,
        )

    def outcome(self, request: Request | None) -> Entry:
        """The changes since `watch`, as an entry of the table."""
        before = self._before
        answered = [r.error for r in before.parked if not r.is_parked]
        return Entry(
            _answer(request),
            None if self.situation is before.situation else self.situation,
            frozenset(_kind(write) for write in self.driver.writes[before.writes :]),
            _only({cause.reason for cause in self._new_rounds()}),
            _only(
                {
                    seen.reason
                    for seen in self.driver.observed[before.observed :]
                    if isinstance(seen, MemberRemoved)
                }
            ),
            frozenset(answered),
            self._is_renewed(before.actor),
        )

    def _new_rounds(self) -> Sequence[Round]:
        before = self._before
        for seen in self.driver.observed[before.observed :]:
            if isinstance(seen, RebalanceEvent):
                return seen.rounds[before.rounds :]
        group = classic_or_none(self.driver.group)
        rebalance = None if group is None else group.history.rebalance
        if rebalance is None:
            return ()
        return rebalance.rounds[before.rounds if rebalance is before.rebalance else 0 :]

    def _is_renewed(self, actor: Member) -> bool:
        group = classic_or_none(self.driver.group)
        if group is None:
            return False
        member_id = group.static_members.get(actor.instance or "", actor.member_id)
        member = group.members.get(member_id)
        return member is not None and member.session_deadline == self.driver.now + actor.session


_BUILD: dict[Situation, Callable[[SituationHarness], None]] = {
    Situation.ABSENT: SituationHarness._absent,
    Situation.EMPTY: SituationHarness._empty,
    Situation.DELAYED: SituationHarness._delayed,
    Situation.PREPARING: SituationHarness._preparing,
    Situation.COMPLETING: SituationHarness._completing,
    Situation.STABLE: SituationHarness._stable,
}


def _only(found: set[_T]) -> _T | None:
    """The only element, None if there is none."""
    assert len(found) <= 1, found
    return next(iter(found), None)


def _kind(write: Any) -> Written:
    tombstone = write.value is None
    if isinstance(write.key, GroupMetadataKey):
        return Written.GROUP_TOMBSTONE if tombstone else Written.GROUP
    if isinstance(write.key, RebalanceHistoryKey):
        return Written.REBALANCE_TOMBSTONE if tombstone else Written.REBALANCE
    return Written.OFFSET_TOMBSTONE if tombstone else Written.OFFSET


def _answer(request: Request | None) -> ErrorCode | Answer | None:
    if request is None:
        return None
    if request.result is None:
        return Answer.PARKED
    return _only(set(_errors(request.result)))


def _errors(result: Result) -> Sequence[ErrorCode]:
    """All error codes in a result."""
    match result:
        case Refuse():
            return [result.error]
        case Left():
            return [member.error for member in result.members]
        case Committed():
            return list(result.errors)
        case Fetched():
            return [found.error for _, found in fetched_offsets(result)]
        case Deleted():
            return [error for _, partitions in result.topics for _, error in partitions]
        case _:
            return [ErrorCode.NONE]

"""Groups in every situation of the state table, and a look at what an event does to them.

The cast: a leader, a follower, a static member, and one that waits wherever one can wait.
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
from tests.support.offsets import fetched_offsets
from tests.support.story import Member, Request, Story, offset

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
class Casting:
    """What is special about the members."""

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


class Stage:
    """A group in a situation."""

    def __init__(self, situation: Situation, casting: Casting) -> None:
        self.story = Story(
            limits=Limits(initial_rebalance_delay_ms=DELAY_MS, history_retention_ms=MONTH_MS)
        )
        self.casting = casting
        self.leader = self._member("leader")
        self.follower = self._member("follower", session=casting.follower_session)
        self.static = self._member("static", "static")
        self.waiting = self._member(
            "waiting", session=casting.waiting_session, rebalance=casting.waiting_rebalance
        )
        _BUILD[situation](self)
        assert self.situation is situation
        self.watch()

    def _member(self, name: str, instance: str | None = None, **how: Any) -> Member:
        how = {
            "protocols": PROTOCOLS,
            "session": LONG_SESSION_MS,
            "protocol_type": self.casting.protocol_type,
            **how,
        }
        return self.story.member(name, instance, **how)

    # --- ways into the situations ---

    def _absent(self) -> None:
        pass

    def _empty(self) -> None:
        first = self._member("first")
        self.story.settle(first)
        first.leave()
        self.story.commit(offset(7, topic=SUBSCRIBED), offset(7, topic=UNSUBSCRIBED))

    def _delayed(self) -> None:
        self._empty()
        self.limit(initial_rebalance_delay_ms=self.casting.delay)
        self.leader.enter()
        self.story.advance(1)
        for member in (self.follower, self.static, self.waiting):
            member.enter()

    def _preparing(self) -> None:
        self._empty()
        self.story.settle(self.leader, self.follower, self.static)
        self.waiting.enter()

    def _completing(self) -> None:
        self._preparing()
        for member in (self.leader, self.follower, self.static):
            member.join()
        self.waiting.sync()

    def _stable(self) -> None:
        self._completing()
        silent = None if self.casting.follower_syncs else self.follower
        for member in (self.follower, self.static, self.leader):
            if member is not silent:
                member.sync({self.leader: b"l"} if member is self.leader else None)

    # --- what drivers do with it ---

    def limit(self, **limits: int) -> None:
        """Change a limit from now on."""
        self.story.limits = replace(self.story.limits, **limits)

    def newcomer(self, instance: str | None = None, **how: Any) -> Member:
        """Somebody who is no member."""
        return self._member("newcomer", instance, **how)

    def pending(self) -> Member:
        """Somebody who was handed out a member id."""
        pending = self._member("pending", session=SHORT_SESSION_MS)
        assert pending.join().error is ErrorCode.MEMBER_ID_REQUIRED
        self.watch(self.follower)
        return pending

    def stranger(self) -> Member:
        """Somebody with a member id nobody has."""
        stranger = self._member("stranger")
        stranger.member_id, stranger.generation = "nobody", 1
        return stranger

    def impostor(self) -> Member:
        """Somebody with the group instance id of the static member, but not its member id."""
        impostor = self._member("impostor", "static")
        impostor.member_id, impostor.generation = "impostor", 1
        return impostor

    def begin_transaction(self) -> None:
        """Let a transaction have an offset of the topic nobody subscribes to."""
        apply(
            self.story.group,
            OffsetCommitKey("group", UNSUBSCRIBED, 0),
            OffsetCommitValue(8, -1, "", self.story.wall, -1),
            producer_id=7,
            order=1,
        )

    def until(self, deadline: int | None) -> None:
        """Let time pass until then, and no longer."""
        assert deadline is not None
        self.story.advance(deadline - self.story.now)

    def others_join(self) -> None:
        """Let all but the follower join."""
        self.leader.join()
        self.static.join()
        self.watch(self.follower)

    # --- what has happened ---

    @property
    def classic(self) -> ClassicGroup:
        """The group, which must exist."""
        return self.story.classic

    @property
    def has_members(self) -> bool:
        """Whether anybody is in the group."""
        return self.story.group.kind is not None and bool(self.classic.members)

    @property
    def situation(self) -> Situation:
        """Where the group stands."""
        group = classic_or_none(self.story.group)
        if group is None:
            return Situation.ABSENT
        if group.state is ClassicGroupState.PREPARING_REBALANCE:
            join = group.purgatory.join
            delayed = join is not None and join.initial
            return Situation.DELAYED if delayed else Situation.PREPARING
        return Situation(group.state.value)

    def watch(self, actor: Member | None = None) -> None:
        """What happens from here on counts; `actor` is the member whose session is looked at."""
        self.story.advance(1)
        group = classic_or_none(self.story.group)
        rebalance = None if group is None else group.history.rebalance
        self._before = _Before(
            self.situation,
            len(self.story.writes),
            len(self.story.observed),
            tuple(self.story.parked),
            rebalance,
            0 if rebalance is None else len(rebalance.rounds),
            actor or self.follower,
        )

    def outcome(self, request: Request | None) -> Entry:
        """What has happened since, as an entry of the table."""
        before = self._before
        answered = [r.error for r in before.parked if not r.is_parked]
        return Entry(
            _answer(request),
            None if self.situation is before.situation else self.situation,
            frozenset(_kind(write) for write in self.story.writes[before.writes :]),
            _only({cause.reason for cause in self._new_rounds()}),
            _only(
                {
                    seen.reason
                    for seen in self.story.observed[before.observed :]
                    if isinstance(seen, MemberRemoved)
                }
            ),
            frozenset(answered),
            self._is_renewed(before.actor),
        )

    def _new_rounds(self) -> Sequence[Round]:
        before = self._before
        for seen in self.story.observed[before.observed :]:
            if isinstance(seen, RebalanceEvent):
                return seen.rounds[before.rounds :]
        group = classic_or_none(self.story.group)
        rebalance = None if group is None else group.history.rebalance
        if rebalance is None:
            return ()
        return rebalance.rounds[before.rounds if rebalance is before.rebalance else 0 :]

    def _is_renewed(self, actor: Member) -> bool:
        group = classic_or_none(self.story.group)
        if group is None:
            return False
        member_id = group.static_members.get(actor.instance or "", actor.member_id)
        member = group.members.get(member_id)
        return member is not None and member.session_deadline == self.story.now + actor.session


_BUILD: dict[Situation, Callable[[Stage], None]] = {
    Situation.ABSENT: Stage._absent,
    Situation.EMPTY: Stage._empty,
    Situation.DELAYED: Stage._delayed,
    Situation.PREPARING: Stage._preparing,
    Situation.COMPLETING: Stage._completing,
    Situation.STABLE: Stage._stable,
}


def _only(found: set[_T]) -> _T | None:
    """The one thing found, if any."""
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
    """The errors of an answer, wherever it has them."""
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

"""Keeps the story of the rebalance that is under way, and tells it when it ends."""

from collections.abc import Iterable
from typing import Final

from coordinator_server.group.rebalance_events import (
    FIRST_SEQUENCE,
    NOT_WRITTEN,
    Counts,
    Culprit,
    Outcome,
    RebalanceEvent,
    RebalanceStarted,
    Round,
    Waited,
)

MAX_ROUNDS: Final = 20
MAX_NAMED: Final = 100
"""How many members an event names in each of its lists; counts stay exact."""
MAX_COUNTED: Final = 10_000
"""Up to how many members beyond those that a rebalance has waited for are told from each other."""
MAX_REASON_CHARS: Final = 255
"""Clients cut their reason to this themselves (KIP-800); hostile ones do not."""


class MemberTally:
    """Members to whom the same happened: how many, and the first of them by name.

    A join phase may last for weeks (`max.poll.interval.ms` is what clients make it), while others
    come and go all the time.
    """

    __slots__ = ("count", "first")

    def __init__(self) -> None:
        self.count = 0
        self.first: list[Culprit] = []

    def append(self, member: Culprit) -> None:
        """Count a member; the first `MAX_NAMED` are kept."""
        self.count += 1
        if self.count <= MAX_NAMED:
            self.first.append(member.brief())


class Changes:
    """Members that joined or left since the last rebalance ended."""

    __slots__ = ("evicted", "joined", "left", "others_waited_for", "waited_for")

    def __init__(self) -> None:
        self.joined = MemberTally()
        self.left = MemberTally()
        self.evicted = MemberTally()
        self.waited_for: dict[Culprit, int] = {}
        """Milliseconds by member, of the first `MAX_NAMED`."""
        self.others_waited_for: set[int] | None = None
        """Hashes of the ids of the others, who are only counted; at most `MAX_COUNTED`."""

    def waited(self, member: Culprit, duration: int) -> None:
        """The group has waited for a member, perhaps not for the first time."""
        known = self.waited_for.get(member)
        if known is not None or len(self.waited_for) < MAX_NAMED:
            self.waited_for[member] = (known or 0) + duration
            return
        if self.others_waited_for is None:
            self.others_waited_for = set()
        if len(self.others_waited_for) < MAX_COUNTED:
            self.others_waited_for.add(hash(member.member_id))

    @property
    def waited_for_count(self) -> int:
        """How many members the group has waited for."""
        return len(self.waited_for) + len(self.others_waited_for or ())


class Rebalance:
    """A rebalance under way; times in milliseconds."""

    __slots__ = (
        "generation_before",
        "join_ended",
        "members_before",
        "phase_began",
        "rounds",
        "rounds_in_all",
        "started",
        "started_wall",
        "state_before",
        "waited_since",
    )

    def __init__(
        self, state_before: str, generation: int, members: int, now: int, wall: int
    ) -> None:
        self.state_before = state_before
        self.generation_before = generation
        self.members_before = members
        self.started = self.phase_began = self.waited_since = now
        self.started_wall = wall
        self.join_ended: int | None = None
        self.rounds: list[Round] = []
        self.rounds_in_all = 0


class History:
    """The rebalance under way, if any, and the changes that belong to it."""

    __slots__ = ("changes", "rebalance", "sequence")

    def __init__(self) -> None:
        self.rebalance: Rebalance | None = None
        self.changes: Changes | None = None
        self.sequence = FIRST_SEQUENCE
        """The number of the rebalance that ends next."""

    def note(self) -> Changes:
        """Where to note who came or went."""
        if self.changes is None:
            self.changes = Changes()
        return self.changes

    def begin(
        self,
        group_id: str,
        cause: Round,
        state_before: str,
        generation: int,
        members: int,
        now: int,
        wall: int,
    ) -> RebalanceStarted | None:
        """Begin a rebalance; a further round of one under way if there is one.

        `members` counts those of now; who came and went in this turn is set off against it.
        """
        cause = _cut(cause)
        if self.rebalance is not None:
            self.rebalance.phase_began = self.rebalance.waited_since = now
            self._add_round(cause)
            return None
        changes = self.note()
        members += changes.left.count + changes.evicted.count - changes.joined.count
        self.rebalance = Rebalance(state_before, generation, members, now, wall)
        self._add_round(cause)
        return RebalanceStarted(
            group_id, cause.reason, cause.client_reason, cause.culprit, generation, members, wall
        )

    def further_round(self, cause: Round) -> None:
        """Note that an event has restarted the join phase."""
        if self.rebalance is not None:
            self._add_round(_cut(cause))

    def wait_was_for(self, culprits: Iterable[Culprit], until: int) -> None:
        """The group has waited for these in this phase; one phase after the other adds up."""
        rebalance = self.rebalance
        assert rebalance is not None, "a rebalance waits for its members"
        duration = max(until - rebalance.waited_since, 0)
        changes = self.note()
        for culprit in culprits:
            changes.waited(culprit, duration)

    def wait_goes_on(self, now: int) -> None:
        """The phase does not end yet; those who have been waited for so far are known."""
        assert self.rebalance is not None, "a rebalance waits for its members"
        self.rebalance.waited_since = now

    def was_held_up_by(self, culprit: Culprit, now: int) -> None:
        """The group waited for one member, if that took any time."""
        if self.rebalance is not None and now > self.rebalance.waited_since:
            self.wait_was_for([culprit], now)

    def join_phase_ended(self, now: int) -> None:
        """The members have their generation; the sync phase begins."""
        assert self.rebalance is not None, "a join phase belongs to a rebalance"
        rebalance = self.rebalance
        rebalance.join_ended = rebalance.phase_began = rebalance.waited_since = now

    def end(
        self,
        group_id: str,
        outcome: Outcome,
        generation: int,
        members: int,
        now: int,
        wall: int,
        *,
        written: bool,
    ) -> RebalanceEvent | None:
        """The whole story, if there was one; the next one starts afresh.

        One that is `written` to the log gets the next number.
        """
        rebalance, changes = self.rebalance, self.note()
        self.rebalance = self.changes = None
        if rebalance is None:
            return None
        first = rebalance.rounds[0]
        sequence = NOT_WRITTEN
        if written:
            sequence, self.sequence = self.sequence, self.sequence + 1
        join_ended = now if rebalance.join_ended is None else rebalance.join_ended
        return RebalanceEvent(
            group_id=group_id,
            reason=first.reason,
            client_reason=first.client_reason,
            culprit=first.culprit,
            state_before=rebalance.state_before,
            outcome=outcome,
            generation_before=rebalance.generation_before,
            generation_after=generation,
            started_ms=rebalance.started_wall,
            ended_ms=wall,
            join_phase_ms=join_ended - rebalance.started,
            sync_phase_ms=now - join_ended,
            members_before=rebalance.members_before,
            members_after=members,
            joined=_named(changes.joined),
            left=_named(changes.left),
            evicted=_named(changes.evicted),
            waited_for=_named_waits(changes.waited_for),
            rounds=tuple(rebalance.rounds),
            counts=Counts(
                changes.joined.count,
                changes.left.count,
                changes.evicted.count,
                changes.waited_for_count,
                rebalance.rounds_in_all,
            ),
            sequence=sequence,
        )

    def _add_round(self, cause: Round) -> None:
        assert self.rebalance is not None, "a round belongs to a rebalance"
        self.rebalance.rounds_in_all += 1
        if len(self.rebalance.rounds) < MAX_ROUNDS:
            self.rebalance.rounds.append(cause)


def _named(members: MemberTally) -> tuple[Culprit, ...]:
    return tuple(members.first) if members.first else ()


def _named_waits(waited: dict[Culprit, int]) -> tuple[Waited, ...]:
    return tuple(map(Waited._make, waited.items())) if waited else ()


def _cut(cause: Round) -> Round:
    """The cause, with no more of the client's reason than is kept."""
    reason = cause.client_reason
    if reason is None or len(reason) <= MAX_REASON_CHARS:
        return cause
    return cause._replace(client_reason=reason[:MAX_REASON_CHARS])

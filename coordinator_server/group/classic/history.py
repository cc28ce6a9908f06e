"""Keeps the story of the rebalance that is under way, and tells it when it ends."""

from collections.abc import Iterable
from itertools import islice
from typing import Final

from coordinator_server.group.reasons import (
    Culprit,
    Outcome,
    RebalanceEvent,
    RebalanceStarted,
    Round,
)

MAX_ROUNDS: Final = 20
MAX_NAMED: Final = 100
"""How many members an event names in each of its lists; counts stay exact."""
MAX_REASON_CHARS: Final = 255
"""Clients cut their reason to this themselves (KIP-800); hostile ones do not."""


class Changes:
    """Who came and went since the last rebalance ended."""

    __slots__ = ("evicted", "joined", "left", "waited_for")

    def __init__(self) -> None:
        self.joined: list[Culprit] = []
        self.left: list[Culprit] = []
        self.evicted: list[Culprit] = []
        self.waited_for: dict[Culprit, None] = {}


class Rebalance:
    """A rebalance under way; times in milliseconds."""

    __slots__ = (
        "generation_before",
        "join_ended",
        "members_before",
        "rounds",
        "started",
        "started_wall",
        "state_before",
    )

    def __init__(
        self, state_before: str, generation: int, members: int, now: int, wall: int
    ) -> None:
        self.state_before = state_before
        self.generation_before = generation
        self.members_before = members
        self.started = now
        self.started_wall = wall
        self.join_ended: int | None = None
        self.rounds: list[Round] = []


class History:
    """The rebalance under way, if any, and the changes that belong to it."""

    __slots__ = ("changes", "rebalance")

    def __init__(self) -> None:
        self.rebalance: Rebalance | None = None
        self.changes: Changes | None = None

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
        cause = cause._replace(client_reason=_cut(cause.client_reason))
        if self.rebalance is not None:
            self._add_round(cause)
            return None
        changes = self.note()
        members += len(changes.left) + len(changes.evicted) - len(changes.joined)
        self.rebalance = Rebalance(state_before, generation, members, now, wall)
        self._add_round(cause)
        return RebalanceStarted(
            group_id, cause.reason, cause.client_reason, cause.culprit, generation, members, wall
        )

    def further_round(self, cause: Round) -> None:
        """Somebody disturbed the join phase under way."""
        if self.rebalance is not None:
            self._add_round(cause._replace(client_reason=_cut(cause.client_reason)))

    def wait_was_for(self, culprits: Iterable[Culprit]) -> None:
        """The group waited for these; once however often it did."""
        self.note().waited_for.update(dict.fromkeys(culprits))

    def join_phase_ended(self, now: int) -> None:
        """The members have their generation; the sync phase begins."""
        assert self.rebalance is not None, "a join phase belongs to a rebalance"
        self.rebalance.join_ended = now

    def end(
        self, group_id: str, outcome: Outcome, generation: int, members: int, now: int
    ) -> RebalanceEvent | None:
        """The whole story, if there was one; the next one starts afresh."""
        rebalance, changes = self.rebalance, self.note()
        self.rebalance = self.changes = None
        if rebalance is None:
            return None
        first = rebalance.rounds[0]
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
            join_phase_ms=join_ended - rebalance.started,
            sync_phase_ms=now - join_ended,
            members_before=rebalance.members_before,
            members_after=members,
            joined=tuple(changes.joined[:MAX_NAMED]),
            left=tuple(changes.left[:MAX_NAMED]),
            evicted=tuple(changes.evicted[:MAX_NAMED]),
            waited_for=tuple(islice(changes.waited_for, MAX_NAMED)),
            rounds=tuple(rebalance.rounds),
        )

    def _add_round(self, cause: Round) -> None:
        if self.rebalance is not None and len(self.rebalance.rounds) < MAX_ROUNDS:
            self.rebalance.rounds.append(cause)


def _cut(reason: str | None) -> str | None:
    return None if reason is None else reason[:MAX_REASON_CHARS]

"""The finished rebalances of every group: what `groups why` and the page show.

Those that are in the coordinator's log are read from there, by way of the groups in memory. Kept
here is only what no group has: rebalances that ended with their tenure, and the history of groups
that are gone.
"""

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from itertools import islice

from coordinator_server.group.rebalance_events import (
    NOT_WRITTEN,
    GroupRemoved,
    Observation,
    Outcome,
    RebalanceEvent,
    RebalanceStarted,
)

Past = Callable[[str], Sequence[RebalanceEvent]]
"""The rebalances of a group that the log has, the oldest first."""


class Timeline:
    """Rebalances by group, the latest first; what is kept here is bounded."""

    def __init__(
        self,
        past: Past | None = None,
        *,
        max_events: int = 100,
        max_groups: int = 10_000,
    ) -> None:
        """Read from `past`, or keep all here; `max_events` of each of `max_groups` groups."""
        self._past = past
        self._max_events = max_events
        self._max_groups = max_groups
        self._others: OrderedDict[str, Sequence[RebalanceEvent]] = OrderedDict()
        self._current: dict[str, RebalanceStarted] = {}

    def observe(self, observation: Observation) -> None:
        """Remember an observation; a consumer of the fan-out."""
        match observation:
            case RebalanceEvent():
                self._end(observation)
                if self._past is None or not _is_written(observation):
                    others = self._others.get(observation.group_id, ())
                    self._keep(observation.group_id, [*others, observation])
            case RebalanceStarted():
                self._current[observation.group_id] = observation
            case GroupRemoved():
                if observation.past:
                    self._keep(observation.group_id, observation.past)

    def _end(self, event: RebalanceEvent) -> None:
        """Starts are told at once, ends when they are durable: the next may have begun by then.

        That of a group that was made anew has the same generation, and began at another time.
        """
        current = self._current.get(event.group_id)
        if (
            current is not None
            and current.generation == event.generation_before
            and current.started_ms == event.started_ms
        ):
            del self._current[event.group_id]

    def _keep(self, group_id: str, events: Sequence[RebalanceEvent]) -> None:
        self._others[group_id] = events[-self._max_events :]
        self._others.move_to_end(group_id)
        if len(self._others) > self._max_groups:
            self._others.popitem(last=False)

    def of(self, group_id: str, limit: int | None = None) -> list[RebalanceEvent]:
        """The finished rebalances of a group, the latest first, at most `limit`."""
        past = () if self._past is None else self._past(group_id)
        others = self._others.get(group_id)
        if not others:
            return list(islice(reversed(past), limit))
        # One that its tenure did not see end may be in the log after all.
        written = {(event.sequence, event.started_ms) for event in past}
        others = [e for e in others if (e.sequence, e.started_ms) not in written]
        merged = sorted((*past, *others), key=lambda event: event.ended_ms)
        return merged[::-1][:limit]

    def total(self, group_id: str) -> int:
        """How many finished rebalances of a group are known."""
        if self._others.get(group_id):
            return len(self.of(group_id))
        return 0 if self._past is None else len(self._past(group_id))

    def count_since(self, group_id: str, since_ms: int) -> int:
        """How many rebalances have ended since (wall-clock milliseconds)."""
        if self._past is None or self._others.get(group_id):
            events: Sequence[RebalanceEvent] = self.of(group_id)[::-1]
        else:
            events = self._past(group_id)
        # Each that is looked at is unpacked: of a thousand that are ten.
        return len(events) - bisect_left(events, since_ms, key=lambda event: event.ended_ms)

    def latest(self, group_id: str) -> RebalanceEvent | None:
        """The last finished rebalance of a group."""
        return next(iter(self.of(group_id, 1)), None)

    def current(self, group_id: str) -> RebalanceStarted | None:
        """The rebalance under way, if there is one."""
        return self._current.get(group_id)

    def in_progress(self) -> Collection[RebalanceStarted]:
        """All rebalances under way."""
        return self._current.values()


def _is_written(event: RebalanceEvent) -> bool:
    """Whether the log has the event; one whose tenure ended may be there, or not."""
    return event.sequence != NOT_WRITTEN and event.outcome is not Outcome.ABORTED

"""The latest rebalances of every group, in memory: what `groups why` and the page show."""

from collections import OrderedDict, deque
from collections.abc import Collection

from coordinator_server.group.reasons import Observation, RebalanceEvent, RebalanceStarted


class Timeline:
    """The last events of the groups that rebalanced last; both numbers are bounded."""

    def __init__(self, *, max_events: int = 100, max_groups: int = 10_000) -> None:
        """Keep `max_events` rebalances of each of the `max_groups` latest groups."""
        self._max_events = max_events
        self._max_groups = max_groups
        self._events: OrderedDict[str, deque[RebalanceEvent]] = OrderedDict()
        self._current: dict[str, RebalanceStarted] = {}

    def observe(self, observation: Observation) -> None:
        """Remember an observation; a consumer of the fan-out."""
        match observation:
            case RebalanceEvent():
                self._end(observation)
                self._remember(observation)
            case RebalanceStarted():
                self._current[observation.group_id] = observation

    def _end(self, event: RebalanceEvent) -> None:
        """Starts are told at once, ends when they are durable: the next may have begun by then."""
        current = self._current.get(event.group_id)
        if current is not None and current.generation == event.generation_before:
            del self._current[event.group_id]

    def _remember(self, event: RebalanceEvent) -> None:
        events = self._events.get(event.group_id)
        if events is None:
            events = self._events[event.group_id] = deque(maxlen=self._max_events)
        events.append(event)
        self._events.move_to_end(event.group_id)
        if len(self._events) > self._max_groups:
            self._events.popitem(last=False)

    def of(self, group_id: str) -> list[RebalanceEvent]:
        """The finished rebalances of a group, the latest first."""
        return list(reversed(self._events.get(group_id, ())))

    def latest(self, group_id: str) -> RebalanceEvent | None:
        """The last finished rebalance of a group."""
        events = self._events.get(group_id)
        return events[-1] if events else None

    def current(self, group_id: str) -> RebalanceStarted | None:
        """The rebalance under way, if there is one."""
        return self._current.get(group_id)

    def in_progress(self) -> Collection[RebalanceStarted]:
        """All rebalances under way."""
        return self._current.values()

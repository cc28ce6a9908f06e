"""Deleted topics of a partition, until no offset of theirs can come back from its log."""

from collections.abc import Iterable
from itertools import count

from coordinator_server.group.effects import Done, Result
from coordinator_server.group.events import TopicsDeleted
from coordinator_server.runtime.tenure import Tenure
from coordinator_server.runtime.ticket import CallbackTicket


class Deletions:
    """What a tenure that ends has not written down is left to the next one."""

    def __init__(self) -> None:
        self._number = count()
        self._open: dict[str, int] = {}
        """When each topic was deleted last; it may come back and be deleted again."""

    def add(self, topics: Iterable[str]) -> None:
        """These topics do not exist any more."""
        number = next(self._number)
        self._open.update((topic, number) for topic in topics)

    def carry_out(self, tenure: Tenure) -> None:
        """Let the groups forget; within this call, so that no commit to a successor is lost."""
        wanted = dict(self._open)
        topics = frozenset(wanted)
        concerned = [
            actor
            for actor in tenure.actors.values()
            if not actor.is_idle
            # What an earlier deletion has made it forget may not be durable yet.
            or tenure.writer.holds_back(actor)
            or actor.group.offsets.has_any_of(topics)
        ]
        waiting = len(concerned)

        def written(result: Result) -> None:
            nonlocal waiting
            waiting -= isinstance(result, Done)
            if not waiting:
                self._settle(wanted)

        if not concerned:
            self._settle(wanted)
        for actor in concerned:
            actor.post(TopicsDeleted(topics, CallbackTicket(written)))

    def _settle(self, written: dict[str, int]) -> None:
        """The tombstones are durable."""
        for topic, number in written.items():
            if self._open.get(topic) == number:
                del self._open[topic]

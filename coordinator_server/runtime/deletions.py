"""Deleted topics of a partition, until no offset of theirs can come back from its log."""

from coordinator_server.group.effects import Done, Result
from coordinator_server.group.events import TopicsDeleted
from coordinator_server.runtime.deleted_topics import DeletedTopics
from coordinator_server.runtime.tenure import Tenure
from coordinator_server.runtime.ticket import CallbackTicket


class Deletions:
    """Deletions that a tenure has not written when it ends are left to the next one."""

    def __init__(self, deleted: DeletedTopics) -> None:
        """`deleted` is shared by all partitions."""
        self._deleted = deleted

    def add(self, topics: frozenset[str]) -> None:
        """These topics do not exist any more."""
        self._deleted.open(self, topics)

    def drop(self) -> None:
        """Keep nothing: it is for another owner to write down."""
        self._deleted.settle(self, self._deleted.number)

    @property
    def open(self) -> frozenset[str]:
        """The topics of which the groups may still have offsets."""
        return self._deleted.since(self)

    def carry_out(self, tenure: Tenure) -> None:
        """Let the groups forget; within this call, so that no commit to a successor is lost."""
        wanted, topics = self._deleted.number, self.open
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
                self._deleted.settle(self, wanted)

        if not concerned:
            self._deleted.settle(self, wanted)
        for actor in concerned:
            actor.post(TopicsDeleted(topics, CallbackTicket(written)))

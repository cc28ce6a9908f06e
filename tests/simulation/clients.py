"""Simulated clients with a connection, and administrators.

A client acts on what is due, and at random when the simulator calls `nudge`. It learns only from
responses, notices lost connections and silent servers, and retries.
"""

from typing import Protocol

from coordinator_server.group.effects import Result
from coordinator_server.group.events import (
    CommitOffsets,
    DeleteGroup,
    DeleteOffsets,
    Describe,
    Event,
    FetchOffsets,
    Leave,
    LeavingMember,
)
from coordinator_server.group.purgatory import NEVER
from tests.simulation.network import Connection, Request
from tests.support.offsets import OffsetToCommit, topics_of

TOPIC = "events"
"""The topic that consumers subscribe to."""
ABANDONED_TOPIC = "abandoned"
"""A topic without subscribers, of which consumers commit offsets at times."""
NO_TOPIC_ID = bytes(16)
MAX_APPEND_BYTES = 16 * 1024
"""The largest append; larger assignments are refused."""
READS_EVERY_MS = 2_000


class ClientEnvironment(Protocol):
    """The operations of the simulator that clients use."""

    def now(self) -> int:
        """Monotonic milliseconds."""
        ...

    def send(self, client: "Client", event: Event) -> Request:
        """Send a request to the coordinator, over a new connection if need be."""
        ...

    def abandon(self, client: "Client") -> None:
        """Forget the connection; messages in transit may still arrive."""
        ...

    def hang_up(self, client: "Client") -> None:
        """Drop the connection."""
        ...

    def next_offset(self) -> int:
        """An offset that no other commit has, so that it identifies the commit."""
        ...


class Client:
    """A client with at most one connection."""

    def __init__(self, name: str, group: str, environment: ClientEnvironment) -> None:
        self.name = name
        self.group = group
        self.environment = environment
        self.frozen = False
        self.connection: Connection | None = None
        self.waiting: dict[int, Request] = {}
        """Requests without an answer, by number."""
        self._due: int | None = None
        """The time of the next action; recomputed after each event."""

    @property
    def due(self) -> int:
        """The time of the next action; NEVER if the client only waits."""
        if self._due is None:
            self._due = self.due_at()
        return self._due

    def changed(self) -> None:
        """Recompute the time of the next action."""
        self._due = None

    def send(self, event: Event) -> None:
        self._due = None
        request = self.environment.send(self, event)
        self.waiting[request.number] = request

    def receive(self, request: Request, result: Result) -> None:
        self._due = None
        if self.waiting.pop(request.number, None) is not None:
            self.on_response(request.event, result)

    def lost(self, connection: Connection) -> None:
        """Called when a connection is lost with its unanswered requests."""
        if connection is not self.connection:
            return
        self._due = None
        self.connection = None
        unanswered, self.waiting = list(self.waiting.values()), {}
        for request in unanswered:
            self.on_request_lost(request.event)

    def waits_for(self, kind: type[Event]) -> bool:
        return any(type(request.event) is kind for request in self.waiting.values())

    def due_at(self) -> int:
        """Compute `due`."""
        return NEVER

    def act(self) -> None:
        """Act on what is due."""

    def nudge(self, how: int) -> None:
        """Do something at random, chosen by `how`."""

    def on_response(self, event: Event, result: Result) -> None:
        """Handle a response."""

    def on_request_lost(self, event: Event) -> None:
        """Handle the loss of a request with its connection."""


class Admin(Client):
    """Reads regularly; at random deletes, commits without membership, and removes members."""

    def __init__(
        self,
        name: str,
        group: str,
        environment: ClientEnvironment,
        partitions: int,
        instances: list[str],
    ) -> None:
        super().__init__(name, group, environment)
        self.partitions = partitions
        self.instances = instances
        self._reads_at = 0

    def due_at(self) -> int:
        return NEVER if self.waiting else self._reads_at

    def act(self) -> None:
        self._reads_at = self.environment.now() + READS_EVERY_MS
        self.read(stable=False)

    def read(self, *, stable: bool) -> None:
        partitions = list(range(self.partitions))
        everything = [(TOPIC, partitions), (ABANDONED_TOPIC, partitions)]
        self.send(FetchOffsets(None, everything, require_stable=stable))

    def nudge(self, how: int) -> None:
        choice, how = how % 12, how // 12
        partition = how % self.partitions
        if choice < 4:
            self.read(stable=bool(how % 2))
        elif choice < 6:
            self.send(Describe(None))
        elif choice < 9:
            self._commit_simply(partition)
        elif choice == 9:
            self.send(DeleteGroup(None))
        elif choice == 10:
            self.send(
                DeleteOffsets(None, [(topic, [partition]) for topic in (TOPIC, ABANDONED_TOPIC)])
            )
        elif self.instances:
            instance = self.instances[how % len(self.instances)]
            self.send(Leave(None, [LeavingMember("", instance)]))

    def _commit_simply(self, partition: int) -> None:
        offsets = topics_of([offset_of(TOPIC, partition, self.environment.next_offset())])
        self.send(CommitOffsets(None, "", None, -1, offsets, -1, knows_group_id_not_found=True))


def offset_of(topic: str, partition: int, offset: int) -> OffsetToCommit:
    return OffsetToCommit(topic, partition, offset)

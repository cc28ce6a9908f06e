"""Somebody with a connection, and the administrators among them.

A client does what is due when the world lets it act, and on a whim whatever `nudge` picks. It
learns only what answers tell it, notices lost connections and silent servers, and tries again.
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
"""What consumers subscribe to."""
ABANDONED_TOPIC = "abandoned"
"""What they commit offsets of, now and then, without a subscription."""
NO_TOPIC_ID = bytes(16)
MAX_APPEND_BYTES = 16 * 1024
"""What the log takes at once; larger assignments are refused."""
READS_EVERY_MS = 2_000


class ClientEnvironment(Protocol):
    """What a client can do to the world."""

    def now(self) -> int:
        """Monotonic milliseconds."""
        ...

    def send(self, client: "Client", event: Event) -> Request:
        """Send a request to the coordinator, over a new connection if need be."""
        ...

    def abandon(self, client: "Client") -> None:
        """Let go of the connection; what is on its wire may still arrive."""
        ...

    def hang_up(self, client: "Client") -> None:
        """Drop the connection."""
        ...

    def next_offset(self) -> int:
        """An offset no other commit has: it tells which commit it is from."""
        ...


class Client:
    """Somebody with a connection."""

    def __init__(self, name: str, group: str, environment: ClientEnvironment) -> None:
        self.name = name
        self.group = group
        self.environment = environment
        self.frozen = False
        self.connection: Connection | None = None
        self.waiting: dict[int, Request] = {}
        """Requests without an answer, by number."""
        self._due: int | None = None
        """When it wants to act, until something happens to it."""

    @property
    def due(self) -> int:
        """When this client wants to act; NEVER if it only waits."""
        if self._due is None:
            self._due = self.due_at()
        return self._due

    def changed(self) -> None:
        """Something has happened to it: it makes up its mind anew."""
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
        """The connection is gone, and the answers to what was asked with it."""
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
        """What `due` is now."""
        return NEVER

    def act(self) -> None:
        """Do what is due."""

    def nudge(self, how: int) -> None:
        """Do something without being asked."""

    def on_response(self, event: Event, result: Result) -> None:
        """An answer."""

    def on_request_lost(self, event: Event) -> None:
        """The connection broke before the answer."""


class Admin(Client):
    """Reads now and then; on a whim deletes, commits without membership, removes members."""

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

"""Connections: in order within one, in any order between them; each may be dropped.

A request is in transit until the simulator delivers it, then waits until the previous one on the
same connection is answered, as in `net/`. A response is in transit until it is delivered. A
dropped connection loses all messages in transit, in both directions.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

from coordinator_server.group.effects import Refuse, Result
from coordinator_server.group.events import Event

if TYPE_CHECKING:
    from tests.simulation.clients import Client
    from tests.simulation.node import Node


@dataclass(slots=True, eq=False)
class Request:
    """A request and its result."""

    number: int
    client: "Client"
    group: str
    event: Event
    sent_at: int
    delivered_at: int = -1
    mark: int = 0
    """The length of the log when the request was delivered."""
    floor: int = -1
    """The generation of the group's last answered SyncGroup at that time."""
    result: Result | None = None
    answers: int = 0
    was_parked: bool = False
    """Whether the group parked it until the others had joined or the leader had synced."""
    load_number: int = -1
    """The number of the load of its partition."""

    @property
    def kind(self) -> str:
        return type(self.event).__name__

    def __str__(self) -> str:
        return f"#{self.number} {describe(self.event)} of {self.client.name} in {self.group}"


@dataclass(slots=True, eq=False)
class Connection:
    """A connection between a client and a node."""

    client: "Client"
    node: "Node"
    to_server: deque[Request] = field(default_factory=deque)
    at_server: deque[Request] = field(default_factory=deque)
    in_progress: Request | None = None
    to_client: deque[Request] = field(default_factory=deque)
    is_open: bool = True

    def deliver_request(self, serve: Callable[["Connection", Request], None]) -> Request:
        request = self.to_server.popleft()
        self.at_server.append(request)
        self.go_on(serve)
        return request

    def go_on(self, serve: Callable[["Connection", Request], None]) -> None:
        """Serve the next request unless one is in progress."""
        while self.in_progress is None and self.at_server and self.is_open:
            request = self.in_progress = self.at_server.popleft()
            serve(self, request)

    def answered(self, request: Request) -> None:
        """Called when the server has answered; a connected client receives the answer."""
        if self.in_progress is request:
            self.in_progress = None
        if self.is_open:
            self.to_client.append(request)


class Network:
    """All connections."""

    def __init__(self) -> None:
        self.connections: list[Connection] = []
        self._number = count(1)

    def connect(self, client: "Client", node: "Node") -> Connection:
        connection = Connection(client, node)
        self.connections.append(connection)
        return connection

    def request(self, connection: Connection, group: str, event: Event, now: int) -> Request:
        request = Request(next(self._number), connection.client, group, event, now)
        connection.to_server.append(request)
        return request

    def drop(self, connection: Connection) -> None:
        """Drop a connection and all messages in transit."""
        connection.is_open = False
        self.connections.remove(connection)
        connection.client.lost(connection)

    def drop_node(self, node: "Node") -> None:
        for connection in [c for c in self.connections if c.node is node]:
            self.drop(connection)

    def deliverable(self) -> list[tuple[Connection, bool]]:
        """Connections with a message in transit, and whether it is an answer."""
        found = [(c, False) for c in self.connections if c.to_server and c.node.accepts]
        found += [(c, True) for c in self.connections if c.to_client and not c.client.frozen]
        return found


_LONGEST = 500
"""The largest number of characters of one value in a report."""


def describe(what: Event | Result) -> str:
    """A short description of an event or a result."""
    if isinstance(what, Refuse):
        return f"{what.error.name} ({what.rule})" + (f" {what.detail}" if what.detail else "")
    words = [type(what).__name__]
    for name in ("member_id", "group_instance_id", "generation", "leader", "assignments"):
        value = getattr(what, name, None)
        if value not in (None, "", -1, {}):
            words.append(f"{name}={repr(value)[:_LONGEST]}")
    for name in ("offsets", "topics", "assignment", "errors"):
        value = getattr(what, name, None)
        if value is not None:
            words.append(f"{name}={_plain(value)}")
    return " ".join(words)


def _plain(value: object) -> str:
    return repr([getattr(v, "offset", v) for v in value] if isinstance(value, list) else value)

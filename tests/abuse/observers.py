"""Members of other groups that heartbeat and commit while a server is under attack.

`python -m tests.abuse.observers PORT` prints a line of JSON when every member is in its group, and
one after each line that it reads: what was answered since the line before, and how late.

A latency ends when the kernel received the response (SO_TIMESTAMPNS), not when this process got a
processor to read it; how late this process was itself is reported beside it. A request that was
due while its predecessor was unanswered counts from when it was due.
"""

import argparse
import json
import selectors
import socket
import struct
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from tests.abuse.client import raw_frame, receive, text
from tests.abuse.placing import place

SO_TIMESTAMPNS: Final = 35
"""Of Linux; the socket module does not name it."""
HEARTBEAT, OFFSET_COMMIT, JOIN_GROUP, SYNC_GROUP = 12, 8, 11, 14
EVICTED: Final = 25
"""UNKNOWN_MEMBER_ID."""
REBALANCED: Final = (22, 27)
"""ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS: another member of the group was evicted."""
TOPIC: Final = "observed"
GROUPS: Final = 5
HEARTBEAT_EVERY_MS: Final = 50
COMMIT_EVERY_MS: Final = 500
SESSION_MS: Final = 6_000
REBALANCE_MS: Final = 60_000
LOADING: Final = (14, 15, 16)
"""COORDINATOR_LOAD_IN_PROGRESS and what else a server answers that has just started."""
LOAD_SECONDS: Final = 20.0
JOIN_SECONDS: Final = 1.0
LATE_NS: Final = 5_000_000
"""An own delay above this is counted."""


@dataclass
class Tally:
    """Figures of one kind of request between two lines of the parent."""

    latencies_ms: list[float] = field(default_factory=list)
    errors: Counter[int] = field(default_factory=Counter)
    lost: int = 0
    """Connections that the server closed."""

    def report(self) -> dict[str, object]:
        """Return the figures as plain values."""
        ordered = sorted(self.latencies_ms)
        return {
            "count": len(ordered),
            "p50": at_share(ordered, 0.5),
            "p99": at_share(ordered, 0.99),
            "max": ordered[-1] if ordered else 0.0,
            "errors": {str(code): count for code, count in self.errors.items()},
            "lost": self.lost,
        }


def at_share(ordered: Sequence[float], share: float) -> float:
    """Return the value below which a share of the values is; 0 without values."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


class Asker:
    """One connection on which the same request is due at intervals."""

    def __init__(
        self, connection: socket.socket, request: bytes, every_ms: int, first_ns: int, tally: str
    ) -> None:
        self.connection = connection
        self.tally = tally
        self.due_ns = first_ns
        self.sent_ns = 0
        """0: nothing is in flight."""
        self._request = request
        self._every_ns = every_ms * 1_000_000
        self._missed: list[int] = []
        self._received = b""
        connection.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        connection.setblocking(False)

    def step(self, now_ns: int) -> None:
        """Send the request that is due, or note that it could not be sent.

        Requests that were not sent because this process was late are left out.
        """
        due_ns = self.due_ns
        self.due_ns += ((now_ns - due_ns) // self._every_ns + 1) * self._every_ns
        if self.sent_ns:
            self._missed += range(due_ns, now_ns + 1, self._every_ns)
            return
        self.connection.send(self._request)
        self.sent_ns = time.time_ns()

    def read(self) -> tuple[int, list[float]] | None:
        """Return the error code of a response and the latencies that end with it.

        Raises OSError if the connection is lost.
        """
        data, ancillary, _, _ = self.connection.recvmsg(4096, 128)
        if not data:
            raise ConnectionError("the server closed the connection")
        self._received += data
        if len(self._received) < 4 + struct.unpack(">i", self._received[:4])[0]:
            return None
        arrived_ns = _timestamp(ancillary) or time.time_ns()
        (code,) = struct.unpack(">h", self._received[-2:])
        self._received = b""
        return code, self.ended(arrived_ns)

    def ended(self, arrived_ns: int) -> list[float]:
        """Return the latencies in milliseconds that end now, and have nothing in flight."""
        began = [self.sent_ns, *(due for due in self._missed if due < arrived_ns)]
        self.sent_ns, self._missed = 0, []
        return [max(0, arrived_ns - each) / 1e6 for each in began]

    def unanswered(self, now_ns: int) -> list[float]:
        """Return how long what is in flight has waited."""
        return [(now_ns - each) / 1e6 for each in (self.sent_ns, *self._missed) if each]


def _timestamp(ancillary: Sequence[tuple[int, int, bytes]]) -> int:
    for _, kind, data in ancillary:
        if kind == SO_TIMESTAMPNS:
            seconds, nanoseconds = struct.unpack("qq", data[:16])
            return int(seconds * 1_000_000_000 + nanoseconds)
    return 0


class Observers:
    """Sends what is due and reads what comes, until the parent closes the pipe."""

    def __init__(self, port: int, members: int, groups: int = GROUPS) -> None:
        self._askers = selectors.DefaultSelector()
        self._tallies: dict[str, Tally] = {}
        self._late_ms: list[float] = []
        self._begin()
        joined = _joined(port, groups, members)
        start = time.time_ns() + 20_000_000
        for number, (heartbeats, beat) in enumerate(joined):
            first = start + number * HEARTBEAT_EVERY_MS * 1_000_000 // len(joined)
            self._add(Asker(heartbeats, beat, HEARTBEAT_EVERY_MS, first, "heartbeat"))
        for group in range(groups):
            commit = _commit_frame(f"committed-{group}")
            first = start + group * COMMIT_EVERY_MS * 1_000_000 // groups
            self._add(Asker(_connected(port), commit, COMMIT_EVERY_MS, first, "commit"))

    def _begin(self) -> None:
        self._tallies = {"heartbeat": Tally(), "commit": Tally()}
        self._late_ms = []

    def _add(self, asker: Asker) -> None:
        self._askers.register(asker.connection, selectors.EVENT_READ, asker)

    def run(self) -> None:
        """Go on until the standard input ends."""
        commands = sys.stdin.buffer
        self._askers.register(commands, selectors.EVENT_READ, None)
        _say({"ready": True})
        while True:
            self._send_due()
            for key, _ in self._askers.select(self._pause()):
                if key.data is not None:
                    self._hear(key.data)
                elif not commands.readline():
                    return
                else:
                    _say(self._report())
                    self._begin()

    def _all(self) -> list[Asker]:
        return [key.data for key in self._askers.get_map().values() if key.data is not None]

    def _pause(self) -> float:
        due = min((asker.due_ns for asker in self._all()), default=time.time_ns() + 50_000_000)
        return max(0.0, (due - time.time_ns()) / 1e9)

    def _send_due(self) -> None:
        now = time.time_ns()
        for asker in self._all():
            if asker.due_ns > now:
                continue
            if now - asker.due_ns > LATE_NS:
                self._late_ms.append((now - asker.due_ns) / 1e6)
            try:
                asker.step(now)
            except OSError:
                self._lose(asker)

    def _hear(self, asker: Asker) -> None:
        tally = self._tallies[asker.tally]
        try:
            answer = asker.read()
        except OSError:
            self._lose(asker)
            return
        if answer is not None:
            code, latencies = answer
            tally.latencies_ms += latencies
            if code:
                tally.errors[code] += 1

    def _lose(self, asker: Asker) -> None:
        tally = self._tallies[asker.tally]
        tally.lost += 1
        tally.latencies_ms += asker.unanswered(time.time_ns())
        self._askers.unregister(asker.connection)
        asker.connection.close()

    def _report(self) -> dict[str, object]:
        now = time.time_ns()
        for asker in self._all():
            # Whatever waits long enough to be seen is seen twice at most: here and at its answer.
            self._tallies[asker.tally].latencies_ms += [
                waited for waited in asker.unanswered(now) if waited > HEARTBEAT_EVERY_MS
            ]
        late = {"count": len(self._late_ms), "max": max(self._late_ms, default=0.0)}
        return {name: each.report() for name, each in self._tallies.items()} | {"late": late}


def _say(what: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def _connected(port: int) -> socket.socket:
    opened = socket.create_connection(("127.0.0.1", port), 20.0)
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return opened


def _commit_frame(group: str) -> bytes:
    partition = struct.pack(">iq", 0, 1) + text("")
    topics = struct.pack(">i", 1) + text(TOPIC) + struct.pack(">i", 1) + partition
    body = text(group) + struct.pack(">i", -1) + text("") + struct.pack(">q", -1) + topics
    return raw_frame(OFFSET_COMMIT, 2, body)


def join_body(group: str, member: str, protocols: bytes, rebalance_ms: int = REBALANCE_MS) -> bytes:
    """Encode JoinGroup v2, which needs no member id in advance."""
    timeouts = struct.pack(">ii", SESSION_MS, rebalance_ms)
    return text(group) + timeouts + text(member) + text("consumer") + protocols


ONE_PROTOCOL: Final = struct.pack(">i", 1) + text("range") + struct.pack(">i", 4) + b"meta"


def read_join(answer: bytes) -> tuple[int, int, str, int]:
    """Return error, generation, member id and number of members of a JoinGroup v2 response."""
    _, _, code, generation = struct.unpack(">iihi", answer[:14])
    at = 14
    texts = []
    for _ in range(3):
        (size,) = struct.unpack(">h", answer[at : at + 2])
        texts.append(answer[at + 2 : at + 2 + size].decode())
        at += 2 + size
    (count,) = struct.unpack(">i", answer[at : at + 4])
    return code, generation, texts[2], count


class _Joining:
    """A group that is brought to Stable."""

    def __init__(self, port: int, number: int, members: int) -> None:
        self.group = f"observers-{number}"
        self._connections = [_connected(port) for _ in range(members)]
        self._ids = [""] * members

    def begin(self) -> None:
        """Make the first member's group, and have the others wait in their JoinGroup."""
        first = self._connections[0]
        code, generation = LOADING[0], 0
        until = time.monotonic() + LOAD_SECONDS
        while code in LOADING and time.monotonic() < until:
            self._join(0)
            code, generation, self._ids[0], _ = read_join(receive(first))
        assert code == 0, f"JoinGroup of {self.group}: error {code}"
        _sync(first, self.group, generation, self._ids[0])
        receive(first)
        for index in range(1, len(self._connections)):
            self._join(index)

    def finish(self) -> list[tuple[socket.socket, bytes]]:
        """Have the first member join again; return each member's connection and heartbeat."""
        self._join(0)
        counts, generation = [], 0
        for index, connection in enumerate(self._connections):
            code, generation, self._ids[index], count = read_join(receive(connection))
            assert code == 0, f"JoinGroup of {self.group}: error {code}"
            counts.append(count)
        assert max(counts) == len(counts), f"{self.group} has {max(counts)} of {len(counts)}"
        for connection, member in zip(self._connections, self._ids, strict=True):
            _sync(connection, self.group, generation, member)
        for connection in self._connections:
            answer = receive(connection)
            assert answer[8:10] == b"\0\0", f"SyncGroup of {self.group}: {answer[:20].hex()}"
        head = text(self.group) + struct.pack(">i", generation)
        beats = [raw_frame(HEARTBEAT, 1, head + text(each)) for each in self._ids]
        return list(zip(self._connections, beats, strict=True))

    def _join(self, index: int) -> None:
        body = join_body(self.group, self._ids[index], ONE_PROTOCOL)
        self._connections[index].sendall(raw_frame(JOIN_GROUP, 2, body))


def _joined(port: int, groups: int, members: int) -> list[tuple[socket.socket, bytes]]:
    """Bring all groups to Stable; return each member's connection and its heartbeat."""
    joining = [_Joining(port, number, members) for number in range(groups)]
    for each in joining:
        each.begin()
    # Nothing tells when the server has read every JoinGroup that has to wait.
    time.sleep(JOIN_SECONDS)
    return [member for each in joining for member in each.finish()]


def _sync(connection: socket.socket, group: str, generation: int, member: str) -> None:
    body = text(group) + struct.pack(">i", generation) + text(member) + struct.pack(">i", 0)
    connection.sendall(raw_frame(SYNC_GROUP, 1, body))


def main() -> None:
    """Join, and observe until the parent is done."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("port", type=int)
    parser.add_argument("--members", type=int, default=4, help="of each group")
    parser.add_argument("--core", type=int)
    parser.add_argument("--priority", type=int, default=0)
    options = parser.parse_args()
    place(options.core, options.priority)
    Observers(options.port, options.members).run()


if __name__ == "__main__":
    main()

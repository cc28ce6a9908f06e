"""Client processes of a test, and groups of them whose events are checked."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.support.client_events import Event, parse
from tests.support.client_invariants import ClientInvariants

ROOT = Path(__file__).resolve().parents[2]


class ClientProcess:
    """A client in its own process, which a test can pause, resume and kill."""

    def __init__(
        self, name: str, command: Sequence[str], errors: Path, hear: Callable[[Event], None]
    ) -> None:
        """Start the process; `hear` is called with each event, in another thread."""
        self.name = name
        self.errors = errors
        self._on_event = hear
        with errors.open("wb") as stderr:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, cwd=ROOT
            )
        self._reader = threading.Thread(target=self._read, name=f"reads {name}", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self._on_event(self._event(line))

    def _event(self, line: bytes) -> Event:
        try:
            return parse(line.decode())
        except (ValueError, TypeError) as error:
            return Event("error", self.name, time.time(), text=f"{error}: {line!r}")

    def _note(self, event: str) -> None:
        self._on_event(Event(event, self.name, time.time()))

    @property
    def running(self) -> bool:
        """Whether the process is running."""
        return self._process.poll() is None

    def leave(self, timeout: float = 20.0) -> None:
        """Let it leave the group and wait for its end; kill it after a timeout."""
        self._process.terminate()
        try:
            code = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"{self.name} did not leave in {timeout} s") from None
        self._reader.join()
        if code != 0:
            raise AssertionError(f"{self.name} ended with {code}:\n{self.stderr()}")

    def kill(self) -> None:
        """Kill -9."""
        self._note("killed")
        self._end()

    def pause(self) -> None:
        """SIGSTOP."""
        self._note("paused")
        os.kill(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        self._note("resumed")
        os.kill(self._process.pid, signal.SIGCONT)

    def signal(self, number: int) -> None:
        """Send a signal to the process."""
        os.kill(self._process.pid, number)

    def close(self) -> None:
        """End the process in any state."""
        if self.running:
            self._end()

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()

    def stderr(self, lines: int = 20) -> str:
        """The last lines of its standard error."""
        return "\n".join(self.errors.read_text(errors="replace").splitlines()[-lines:])


class ClientGroup:
    """The clients of one group on one topic, and the invariants over their events."""

    def __init__(
        self, bootstrap: str, group: str, topic: str, invariants: ClientInvariants, logs: Path
    ) -> None:
        """All clients use this server, group and topic."""
        self.bootstrap = bootstrap
        self.group = group
        self.topic = topic
        self.invariants = invariants
        self._logs = logs
        self._clients: dict[str, ClientProcess] = {}
        self._news = threading.Condition()

    def _on_event(self, event: Event) -> None:
        with self._news:
            self.invariants.observe(event)
            self._news.notify_all()

    def start(self, name: str, command: Sequence[str]) -> ClientProcess:
        """Start a client with a command."""
        client = ClientProcess(name, command, self._logs / f"{name}.stderr", self._on_event)
        self._clients[name] = client
        return client

    def member(self, kind: "MemberKind", name: str, *, session_ms: int = 60_000) -> ClientProcess:
        """Start a member of the group."""
        return self.start(name, kind(self, name, session_ms))

    def feeder(self, name: str = "feeder") -> ClientProcess:
        """Start a producer that writes to every partition, and wait for its first record."""
        partitions = str(self.invariants.partitions)
        feeder = self.start(
            name,
            python_client("feeder", self, name, "--partitions", partitions, group=False),
        )
        self.wait(lambda invariants: bool(invariants.produced), f"{name} has written")
        return feeder

    def wait(
        self, reached: Callable[[ClientInvariants], bool], what: str, within: float = 30.0
    ) -> None:
        """Wait for a condition; raises AssertionError with the report on a timeout."""
        deadline = time.monotonic() + within
        with self._news:
            while not reached(self.invariants):
                left = deadline - time.monotonic()
                if left <= 0:
                    raise AssertionError(f"not within {within} s: {what}\n{self.report()}")
                self._news.wait(left)

    def wait_for_start(self, client: ClientProcess) -> None:
        """Wait until a client is about to send its first request."""
        self.wait(lambda invariants: invariants.started(client.name), f"{client.name} started")

    def settle(
        self, *members: ClientProcess, within: float = 30.0, same_generation: bool = True
    ) -> None:
        """Wait until these members hold every partition once."""
        names = [member.name for member in members]
        self.wait(
            lambda invariants: invariants.settled(names, same_generation=same_generation),
            f"{', '.join(names)} hold all partitions",
            within,
        )

    def consumed_more(self, records: int, within: float = 30.0) -> None:
        """Wait until this number of further records is consumed."""
        goal = len(self.invariants.consumed) + records
        self.wait(
            lambda invariants: len(invariants.consumed) >= goal, f"{goal} records consumed", within
        )

    def consumed_all(self, within: float = 30.0) -> None:
        """Wait until every acknowledged record is consumed."""
        self.wait(lambda invariants: not invariants.unread(), "every record consumed", within)

    def report(self) -> str:
        """All events and client errors, for a failed test."""
        invariants = self.invariants
        lines = [
            f"{len(invariants.produced)} produced, {len(invariants.unread())} of them not consumed"
        ]
        lines += [
            f"{event.at:.3f} {event.member}: generation {event.generation}, "
            f"partitions {list(event.partitions)}"
            for event in invariants.assignments[-12:]
        ]
        lines += [
            f"{event.at:.3f} {event.member}: {event.text}" for event in invariants.errors[-8:]
        ]
        for name, client in self._clients.items():
            state = "running" if client.running else "ended"
            lines.append(f"{name} {state}, holds {sorted(invariants.holding[name])}")
            lines += [f"    {line}" for line in client.stderr(6).splitlines()]
        return "\n".join(lines)

    def close(self) -> None:
        """End all clients."""
        for client in self._clients.values():
            client.close()


MemberKind = Callable[[ClientGroup, str, int], Sequence[str]]
"""Makes the command of a member from its group, name and session timeout in ms."""

OpenClientGroup = Callable[[str], ClientGroup]
"""Makes a client group on the server at an address."""


def python_client(
    program: str, client_group: ClientGroup, name: str, *more: str, group: bool = True
) -> Sequence[str]:
    """The command of one of the programs in `tests/clients`."""
    command = [sys.executable, "-m", f"tests.clients.{program}"]
    command += [
        "--bootstrap",
        client_group.bootstrap,
        "--topic",
        client_group.topic,
        "--name",
        name,
        *more,
    ]
    return [*command, "--group", client_group.group] if group else command


@contextmanager
def client_group(
    bootstrap: str, group: str, topic: str, logs: Path, *, partitions: int = 4
) -> Iterator[ClientGroup]:
    """A client group whose processes are ended on exit."""
    made = ClientGroup(bootstrap, group, topic, ClientInvariants(partitions), logs)
    try:
        yield made
    finally:
        made.close()

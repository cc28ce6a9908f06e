"""Faults for the next requests: an error, a late response, a lost connection.

coordinator.fail("OffsetCommit", "NOT_COORDINATOR", times=2)
coordinator.delay("Heartbeat", seconds=3, client="worker-1")
coordinator.disconnect("JoinGroup", group="billing")
with coordinator.hold("SyncGroup") as held:
    held.wait()                 # a request has come; its client waits for the answer
    ...
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from threading import Condition
from types import TracebackType
from typing import Any, Self

from coordinator_protocol.api_keys import ApiKey
from coordinator_protocol.codec import load_api
from coordinator_protocol.errors import ErrorCode
from coordinator_server.net.session_call import Late, SessionCall

WAIT_SECONDS = 10.0

Step = Callable[[], None]

_GROUP_FIELDS = frozenset({"group_id", "groups", "groups_names", "coordinator_keys"})
"""Of requests: one of these is in every request that names groups."""


@dataclass(frozen=True, slots=True)
class Which:
    """Requests: of an API, which name a group, of a client id; None stands for any."""

    api_key: ApiKey | None
    group: str | None
    client: str | None

    @classmethod
    def named(cls, api: str | None, group: str | None, client: str | None) -> Self:
        """With Kafka's name of the API. Raises ValueError if there are no such requests."""
        key = None if api is None else _api_key(api)
        if key is not None and group is not None and not _names_groups(key):
            raise ValueError(f"group={group!r}: {api} is of no group")
        return cls(key, group, client)

    def has(self, call: SessionCall) -> bool:
        """Whether a request is one of these."""
        return (
            self.api_key in (None, call.api_key)
            and self.client in (None, call.caller.client_id)
            and (self.group is None or self.group in groups_of(call.request))
        )

    def __str__(self) -> str:
        words = ["request" if self.api_key is None else self.api_key.name]
        if self.group is not None:
            words.append(f"of group {self.group!r}")
        if self.client is not None:
            words.append(f"of client {self.client!r}")
        return " ".join(words)


class Fault:
    """A fault of some requests, until it is cleared; `with` clears it at the end."""

    def __init__(self, faults: "Faults", which: Which, times: int | None) -> None:
        self._faults = faults
        self.which = which
        self.left = times
        """How many requests are still to meet it; None: all, until it is cleared."""
        self.met = 0
        """How many requests have met it."""

    def wait(self, times: int = 1, timeout: float = WAIT_SECONDS) -> None:
        """Wait until so many requests have met it.

        Blocks: where the client runs on the event loop of the test, `await asyncio.to_thread`.
        Raises TimeoutError, which says what did not come, after `timeout` seconds.
        """
        self._faults.wait(self, times, timeout)

    def release(self) -> None:
        """Let the requests that have met it be answered now; others go on meeting it."""
        self._faults.release(self)

    def clear(self) -> None:
        """Let no further request meet it, and those that have be answered now."""
        self._faults.clear(self)

    def __enter__(self) -> Self:
        """The fault itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Clear it."""
        self.clear()


class _Gate:
    """Where one request's answer waits until it is opened; used on the server's thread alone."""

    def __init__(self, opened: Callable[["_Gate"], None]) -> None:
        self._opened = opened
        self._is_open = False
        self._send: Step | None = None

    def keep(self, _call: SessionCall, send: Step) -> None:
        """The answer is there: implements net.call.Late."""
        if self._is_open:
            send()
        self._send = send

    def open(self) -> None:
        """Send the answer, as soon as it is there."""
        if self._is_open:
            return
        self._is_open = True
        self._opened(self)
        if self._send is not None:
            self._send()


Met = Callable[[Fault], ErrorCode | Late]
"""Makes what a request meets that comes now."""


class Faults:
    """Implements net.context.Faults; planned from any thread, taken on the server's.

    A request meets the first of the planned faults that concerns it, and no other.
    """

    def __init__(self, after: Callable[[float, Step], object], run: Callable[[Step], None]) -> None:
        """`after` does something in seconds of the server's clock; `run` does it on its thread."""
        self._after = after
        self._run = run
        self._changed = Condition()
        self._planned: dict[Fault, Met] = {}
        self._gates: dict[_Gate, Fault] = {}
        """Of the requests that are answered late, in the order they came."""

    # --- planning ---

    def fail(self, which: Which, times: int | None, error: str) -> Fault:
        """Answer with an error instead of serving. Raises ValueError."""
        code = _error_code(error)
        return self._plan(which, times, lambda _fault: code)

    def delay(self, which: Which, times: int | None, seconds: float) -> Fault:
        """Serve, and answer so much later. Raises ValueError."""
        if seconds <= 0:
            raise ValueError(f"seconds={seconds:g}: expected more than 0")

        def met(fault: Fault) -> Late:
            gate = self._gate(fault)

            def late(call: SessionCall, send: Step) -> None:
                gate.keep(call, send)
                self._after(seconds, gate.open)

            return late

        return self._plan(which, times, met)

    def hold(self, which: Which, times: int | None) -> Fault:
        """Serve, and answer when it is released. Raises ValueError."""
        return self._plan(which, times, lambda fault: self._gate(fault).keep)

    def disconnect(self, which: Which, times: int | None) -> Fault:
        """Serve, and end the connection instead of answering. Raises ValueError."""
        return self._plan(which, times, lambda _fault: _disconnect)

    def _plan(self, which: Which, times: int | None, met: Met) -> Fault:
        if times is not None and times < 1:
            raise ValueError(f"times={times}: expected 1 or more, or None: until cleared")
        fault = Fault(self, which, times)
        with self._changed:
            self._planned[fault] = met
        return fault

    def _gate(self, fault: Fault) -> _Gate:
        gate = _Gate(self._opened)
        self._gates[gate] = fault
        return gate

    # --- for the server ---

    def take(self, call: SessionCall) -> ErrorCode | Late | None:
        """The fault of the next request, if there is one."""
        with self._changed:
            for fault, met in self._planned.items():
                if fault.which.has(call):
                    fault.met += 1
                    if fault.left is not None:
                        fault.left -= 1
                    if fault.left == 0:
                        del self._planned[fault]
                    self._changed.notify_all()
                    return met(fault)
        return None

    # --- afterwards ---

    @property
    def pending(self) -> int:
        """How many requests are still to meet faults that were planned for a number of them."""
        with self._changed:
            return sum(fault.left or 0 for fault in self._planned)

    def wait(self, fault: Fault, times: int, timeout: float) -> None:
        """See Fault.wait."""
        with self._changed:
            if not self._changed.wait_for(lambda: fault.met >= times, timeout):
                raise TimeoutError(
                    f"{fault.met} of {times} came within {timeout:g} s: {fault.which}"
                )

    def release(self, fault: Fault | None = None) -> None:
        """Let the requests be answered that have met a fault, or any of them."""
        with self._changed:
            gates = [gate for gate, of in self._gates.items() if fault in (None, of)]
        for gate in gates:
            self._run(gate.open)

    def clear(self, fault: Fault | None = None) -> None:
        """Forget a fault, or all of them, and release it."""
        with self._changed:
            for each in list(self._planned) if fault is None else [fault]:
                self._planned.pop(each, None)
        self.release(fault)

    def _opened(self, gate: _Gate) -> None:
        with self._changed:
            del self._gates[gate]


def _disconnect(call: SessionCall, _send: Step) -> None:
    call.disconnect("a test wants it")


def groups_of(request: Any) -> Iterator[str]:
    """The groups a request names, in whichever of its fields."""
    yield getattr(request, "group_id", "")
    for each in getattr(request, "groups", ()):
        yield each if isinstance(each, str) else each.group_id
    yield from getattr(request, "groups_names", ())
    yield getattr(request, "key", "")
    yield from getattr(request, "coordinator_keys", ())


def _names_groups(key: ApiKey) -> bool:
    return not _GROUP_FIELDS.isdisjoint(each.name for each in fields(load_api(key).request))


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


def _api_key(name: str) -> ApiKey:
    for key in ApiKey:
        if _plain(key.name) == _plain(name):
            return key
    raise ValueError(f"api={name!r}: expected the name of an API, such as JoinGroup")


def _error_code(name: str) -> ErrorCode:
    for code in ErrorCode:
        if code.name == name.upper() and code is not ErrorCode.NONE:
            return code
    raise ValueError(f"error={name!r}: expected the name of an error, such as NOT_COORDINATOR")

"""The state that sessions share, and the interface of the connection under a session."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Protocol

from coordinator_protocol.errors import ErrorCode
from coordinator_server.api.services import Services
from coordinator_server.net.memory import MemoryBudget
from coordinator_server.net.session_call import Late, SessionCall
from coordinator_server.observe.counters import Counters
from coordinator_server.observe.line_limit import LineLimiter

Report = Callable[..., None]
"""Called as `report(event, **fields)` for the log."""


class FaultInjector(Protocol):
    """Faults injected into requests, for tests of clients."""

    def take(self, call: SessionCall) -> ErrorCode | Late | None:
        """The fault of the next request.

        An error is answered instead of serving it; `Late` decides when it is answered; None: it is
        served as always.
        """
        ...


class SessionTransport(Protocol):
    """The connection under a session."""

    def wake(self) -> None:
        """Call `proceed` and take what there is to send, soon: an answer came late."""
        ...

    def run(self, handling: Coroutine[Any, Any, None]) -> None:
        """Run the handling of a request as a task; one that waits ends with the connection."""
        ...

    async def in_slices(self, step: Callable[[], bool]) -> None:
        """Call `step` until it returns True, with turns of the event loop in between.

        The steps of different requests follow one another: one request at a time is decoded.
        """
        ...

    def may_build(self, size: int, go_on: Callable[[], None]) -> bool:
        """Whether there is memory to go on with a response that has `size` bytes so far.

        False: `go_on` is called when there is. The session's `is_building` is set until the
        response is complete.
        """
        ...

    async def aside(self, work: Callable[[], Any]) -> Any:
        """The result of work that takes long, done beside the event loop."""
        ...


def _unreported(_event: str, **_fields: object) -> None:
    return


@dataclass(slots=True)
class SessionContext:
    """The state that all sessions share."""

    services: Services
    counters: Counters = field(default_factory=Counters)
    report: Report = _unreported
    faults: FaultInjector | None = None
    memory: MemoryBudget = field(default_factory=MemoryBudget)
    lines: LineLimiter = field(init=False)
    """The rate-limited log of events that any client can cause."""

    def __post_init__(self) -> None:
        self.lines = LineLimiter(self.report, self.services.clock.monotonic_ms)

"""The token of a request: where its result goes."""

from abc import ABC, abstractmethod
from collections.abc import Callable

from coordinator_server.group.effects import Result


class Ticket(ABC):
    """Delivers a result, exactly once; a second one is a bug and raises."""

    __slots__ = ("is_pending",)

    def __init__(self) -> None:
        self.is_pending = True
        """Whether the result is still to come."""

    def resolve(self, result: Result) -> None:
        """Hand the result to whoever asked."""
        if not self.is_pending:
            raise RuntimeError(f"a request was answered twice, now with {result}")
        self.is_pending = False
        self.deliver(result)

    @abstractmethod
    def deliver(self, result: Result) -> None:
        """What is done with the result; called by `resolve` alone."""


class CallbackTicket(Ticket):
    """Calls a function with the result."""

    __slots__ = ("_deliver",)

    def __init__(self, deliver: Callable[[Result], None]) -> None:
        super().__init__()
        self._deliver = deliver

    def deliver(self, result: Result) -> None:
        """See Ticket."""
        self._deliver(result)

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
        """Deliver the result; only `resolve` calls this."""

    def failed(self, _bug: Exception) -> bool:
        """Delivering has raised: whoever asked hears of that instead; False if nobody can."""
        return False


class CallbackTicket(Ticket):
    """Calls a function with the result."""

    __slots__ = ("_deliver", "_failed")

    def __init__(
        self,
        deliver: Callable[[Result], None],
        failed: Callable[[Exception], None] | None = None,
    ) -> None:
        super().__init__()
        self._deliver = deliver
        self._failed = failed

    def deliver(self, result: Result) -> None:
        """See Ticket."""
        self._deliver(result)

    def failed(self, bug: Exception) -> bool:
        """See Ticket."""
        if self._failed is not None:
            self._failed(bug)
        return self._failed is not None

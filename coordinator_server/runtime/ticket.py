"""The token of a request: where its result goes."""

from collections.abc import Callable

from coordinator_server.group.effects import Result


class Ticket:
    """Delivers a result, exactly once; a second one is a bug and raises."""

    __slots__ = ("_deliver",)

    def __init__(self, deliver: Callable[[Result], None]) -> None:
        self._deliver: Callable[[Result], None] | None = deliver

    def resolve(self, result: Result) -> None:
        """Hand the result to whoever asked."""
        deliver, self._deliver = self._deliver, None
        if deliver is None:
            raise RuntimeError(f"a request was answered twice, now with {result}")
        deliver(result)

    @property
    def is_pending(self) -> bool:
        """Whether the result is still to come."""
        return self._deliver is not None

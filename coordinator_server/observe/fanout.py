"""One observation goes to every observer; none of them can disturb the others or the group."""

import contextlib
from asyncio import CancelledError
from collections.abc import Callable, Iterable

from coordinator_server.group.rebalance_events import Observation

Observer = Callable[[Observation], None]
OnFailure = Callable[[Observer, BaseException], None]


class Fanout:
    """Hands observations on, in order, on the event loop. It never raises."""

    def __init__(self, observers: Iterable[Observer], on_failure: OnFailure) -> None:
        """Make a fan-out.

        Args:
            observers: what is called with every observation; it must not block.
            on_failure: is told when an observer raised; what it raises itself is dropped.
        """
        self._observers = tuple(observers)
        self._on_failure = on_failure

    def publish(self, observation: Observation) -> None:
        """Hand an observation to every observer."""
        for observer in self._observers:
            try:
                observer(observation)
            except (Exception, CancelledError) as error:  # noqa: BLE001 - it must not end a group
                self._failed(observer, error)

    def _failed(self, observer: Observer, error: BaseException) -> None:
        with contextlib.suppress(Exception, CancelledError):
            self._on_failure(observer, error)

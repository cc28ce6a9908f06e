"""Passes observations to all observers and isolates their failures."""

import contextlib
from asyncio import CancelledError
from collections.abc import Callable, Iterable

from coordinator_server.group.rebalance_events import Observation

Observer = Callable[[Observation], None]
OnFailure = Callable[[Observer, BaseException], None]


class Fanout:
    """Passes observations on in order, on the event loop; never raises."""

    def __init__(self, observers: Iterable[Observer], on_failure: OnFailure) -> None:
        """Make a fan-out.

        Args:
            observers: called with every observation; they must not block.
            on_failure: called when an observer raised; its own exceptions are dropped.
        """
        self._observers = tuple(observers)
        self._on_failure = on_failure

    def publish(self, observation: Observation) -> None:
        """Pass an observation to every observer."""
        for observer in self._observers:
            try:
                observer(observation)
            except (Exception, CancelledError) as error:  # noqa: BLE001 - it must not end a group
                self._failed(observer, error)

    def _failed(self, observer: Observer, error: BaseException) -> None:
        with contextlib.suppress(Exception, CancelledError):
            self._on_failure(observer, error)

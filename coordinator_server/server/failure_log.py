"""Logs internal failures of the server."""

from coordinator_server.group.group import TurnFailed
from coordinator_server.loop.task_keeper import origin
from coordinator_server.observe.counters import Counters
from coordinator_server.observe.fanout import Observer
from coordinator_server.observe.log import Logger


class FailureLines:
    """Writes the lines; it also counts failures of observers, the callers count the others."""

    def __init__(self, logger: Logger, counters: Counters) -> None:
        self._logger = logger
        self._counters = counters

    def turn_failed(self, group_id: str, bug: TurnFailed) -> None:
        """Log that an event of a group raised, after which its partition is loaded again."""
        self._logger.error(
            "group_turn_failed",
            group=group_id,
            request=type(bug.event).__name__,
            exc_info=bug.__context__,
        )

    def step_failed(self, step: str, group_id: str, error: BaseException) -> None:
        """Log that a step outside of request processing raised; the runtime counts it."""
        self._logger.error(
            "step_failed", step=step, group=group_id, error=repr(error), origin=origin(error)
        )

    def observer_failed(self, observer: Observer, error: BaseException) -> None:
        """Log and count that an observer raised."""
        self._counters.observer_failures += 1
        self._logger.error("observer_failed", observer=repr(observer), error=repr(error))

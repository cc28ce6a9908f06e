"""The results of several groups, for one answer: they come in any order, and all go on at once."""

from collections.abc import Callable, Sequence
from functools import partial

from coordinator_server.group.effects import Result
from coordinator_server.runtime.ticket import CallbackTicket, Ticket


class Gather:
    """Collects `count` results and hands them on, in order, when the last has come."""

    __slots__ = ("_deliver", "_missing", "_results")

    def __init__(self, count: int, deliver: Callable[[Sequence[Result]], None]) -> None:
        self._results: dict[int, Result] = {}
        self._missing = count
        self._deliver = deliver
        if not count:
            deliver(())

    def ticket(self, index: int) -> Ticket:
        """The token of the result at `index`."""
        return CallbackTicket(partial(self._put, index))

    def _put(self, index: int, result: Result) -> None:
        self._results[index] = result
        self._missing -= 1
        if not self._missing:
            self._deliver([self._results[place] for place in range(len(self._results))])

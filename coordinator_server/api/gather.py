"""The results of several groups, for one answer: they come in any order, and all go on at once."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final, TypeVar

from coordinator_server.group.effects import Result
from coordinator_server.runtime.ticket import CallbackTicket, Ticket

AT_ONCE: Final = 128
"""Groups that are asked before others may have their turn."""
_Item = TypeVar("_Item")


def in_turns(items: Iterator[_Item], do: Callable[[_Item], None]) -> None:
    """Do something with each: with some now, with as many in every further turn of the loop."""
    count = 0
    for item in islice(items, AT_ONCE):
        do(item)
        count += 1
    if count == AT_ONCE:
        asyncio.get_running_loop().call_soon(in_turns, items, do)


class Gather:
    """Collects `count` results and hands them on, in order, when the last has come."""

    __slots__ = ("_deliver", "_made", "_missing", "_results")

    def __init__(
        self,
        count: int,
        deliver: Callable[[Sequence[Any]], None],
        made: Callable[[int, Result], Any] = lambda _index, result: result,
    ) -> None:
        """`made` is what is made of each result when it comes, and handed on in its place."""
        self._results: dict[int, Any] = {}
        self._missing = count
        self._deliver = deliver
        self._made = made
        if not count:
            deliver(())

    def ticket(self, index: int) -> Ticket:
        """The token of the result at `index`."""
        return CallbackTicket(partial(self._put, index))

    def _put(self, index: int, result: Result) -> None:
        self._results[index] = self._made(index, result)
        self._missing -= 1
        if not self._missing:
            self._deliver([self._results[place] for place in range(len(self._results))])

"""Defers calls until all requests of one turn of the event loop have been handled.

The records of one turn become one append, the appends become one write, and the responses of a
connection become one more. Each step causes the next, and all run in the same turn of the loop: a
turn each would poll all sockets in between.
"""

import asyncio
from asyncio import CancelledError
from collections.abc import Callable
from contextlib import suppress
from typing import Final

Soon = Callable[[Callable[[], object]], None]
"""Defers a call to the next turn of the event loop."""

STEPS: Final = 3
"""Append, write, respond; later steps, such as the next request, wait for another turn."""


class SoonInLoop:
    """Implements Soon for the running loop; calls deferred in one step run in the next step."""

    __slots__ = ("_due", "_is_awaited")

    def __init__(self) -> None:
        self._due: list[Callable[[], object]] = []
        self._is_awaited = False

    def __call__(self, call: Callable[[], object]) -> None:
        """See Soon."""
        if not self._is_awaited:
            asyncio.get_running_loop().call_soon(self._run)
            self._is_awaited = True
        self._due.append(call)

    def _run(self) -> None:
        self._is_awaited = True
        try:
            for _ in range(STEPS):
                due, self._due = self._due, []
                for call in due:
                    try:
                        call()
                    except (Exception, CancelledError) as error:  # noqa: BLE001 - see _failed
                        _failed(error)
                if not self._due:
                    return
        finally:
            # If call_soon raises, the next deferred call schedules again.
            self._is_awaited = False
            if self._due:
                asyncio.get_running_loop().call_soon(self._run)
                self._is_awaited = True


def _failed(error: BaseException) -> None:
    """Log the failure of a call; an error in logging must not stop the other calls."""
    with suppress(Exception, CancelledError):
        context = {"message": "a deferred call has failed", "exception": error}
        asyncio.get_running_loop().call_exception_handler(context)

"""What is put off until all requests that came together have been looked at.

Records that come in one turn of the event loop are one append, appends are one write, answers of a
connection are one more. Each of these steps brings about the next, and they follow one another in
one turn of the loop: a turn each would look at all sockets in between.
"""

import asyncio
from asyncio import CancelledError
from collections.abc import Callable
from contextlib import suppress
from typing import Final

Soon = Callable[[Callable[[], object]], None]
"""Has something called in the next turn of the event loop."""

STEPS: Final = 3
"""Append, write, answer: what comes behind these, such as a next request, has to wait its turn."""


class SoonInLoop:
    """Implements Soon for the loop that runs: what a step puts off is the next step."""

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
            # If the loop does not take it, the next call asks anew.
            self._is_awaited = False
            if self._due:
                asyncio.get_running_loop().call_soon(self._run)
                self._is_awaited = True


def _failed(error: BaseException) -> None:
    """Log the failure of a call; others must not miss their turn, whatever goes wrong here."""
    with suppress(Exception, CancelledError):
        context = {"message": "a deferred call has failed", "exception": error}
        asyncio.get_running_loop().call_exception_handler(context)

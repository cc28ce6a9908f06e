"""Counts the time slices of a long request, with a clock that advances on every read."""

from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from coordinator_server.clock import ManualClock
from coordinator_server.loop import time_slice as pace_module
from coordinator_server.loop.time_slice import LongWork, long_work


class AdvancingClock(ManualClock):
    """A clock that advances by 1 ms on every read."""

    def monotonic_ms(self) -> int:
        self.advance(1)
        return super().monotonic_ms()


async def pieces(handling: Coroutine[Any, Any, Any]) -> int:
    """The number of time slices in which the loop runs a handler."""
    queue, count = long_work(), 1

    def add(piece: Callable[[], object]) -> None:
        nonlocal count
        count += 1
        LongWork.add(queue, piece)

    with patch.object(pace_module, "long_work", lambda: SimpleNamespace(add=add)):
        await handling
    return count

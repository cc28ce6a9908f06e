"""Memory of responses that are made in many turns of the event loop."""

import asyncio
from collections.abc import Callable
from typing import Final

from coordinator_server.api.call import Call

GROWTH: Final = 1 << 16
"""Bytes by which a response grows before it is asked again whether there is memory for more."""

MayGrow = Callable[[int, Callable[[], None]], bool]
"""See Call.may_grow."""


class Growth:
    """To be asked at every step: `if growth.is_due(size): await growth.allowed(size)`.

    Nothing is asked for a response of less than `GROWTH` bytes.
    """

    __slots__ = ("_allowed", "_asked_at", "_may_grow")

    def __init__(self, call: Call) -> None:
        self._may_grow: MayGrow = call.may_grow
        self._asked_at = 0
        self._allowed: asyncio.Future[None] | None = None

    def is_due(self, size: int) -> bool:
        """Whether the response has grown much since memory was asked for last."""
        return size >= self._asked_at + GROWTH

    async def grown(self, size: int) -> None:
        """Both."""
        if size >= self._asked_at + GROWTH:
            await self.allowed(size)

    def dropped(self) -> None:
        """Release the memory of a response that is not sent as it is."""
        if self._asked_at:
            self._asked_at = 0
            self._may_grow(0, self._go_on)

    async def allowed(self, size: int) -> None:
        """Wait until there is memory for more of the response, which has `size` bytes now."""
        self._asked_at = size
        if not self._may_grow(size, self._go_on):
            self._allowed = asyncio.get_running_loop().create_future()
            await self._allowed

    def _go_on(self) -> None:
        # The request may have been cancelled meanwhile.
        if self._allowed is not None and not self._allowed.done():
            self._allowed.set_result(None)

"""Recognises the repeated OffsetCommit of a connection by its bytes, without decoding it."""

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from coordinator_server.api.services import Services
from coordinator_server.net.session_call import SessionCall

if TYPE_CHECKING:
    from coordinator_server.api.registry import RepeatedRequest, Route

_LAYOUTS: Final = 8
"""The number of layouts per connection that may turn out useless."""


class CommitRecognizer:
    """The latest request of a connection that had one like it before."""

    __slots__ = ("_layouts_left", "_length", "later", "route")

    def __init__(self) -> None:
        self.later: RepeatedRequest | None = None
        """Serves what differs in numbers that its API knows the places of."""
        self.route: Route
        """Of what `later` serves."""
        self._length = 0
        """Of the last request that may be worth recognising."""
        self._layouts_left = _LAYOUTS

    def note(
        self,
        call: SessionCall,
        services: Services,
        buffer: bytes,
        start: int,
        end: int,
        body: int,
    ) -> None:
        """Look whether the request in a frame is to be recognised the next time."""
        self._note_alike(call, services, buffer[start:end], body - start)

    def recognised(self) -> None:
        """Laying out was not for nothing."""
        self._layouts_left = _LAYOUTS

    def _note_alike(self, call: SessionCall, services: Services, frame: bytes, body: int) -> None:
        """Be ready for a request if one as long as it has come before.

        Where nothing ever comes again, that is given up.
        """
        route = call.route
        if len(frame) != self._length:
            self._length = len(frame)
            return
        if route.later is None or not self._layouts_left:
            return
        self._layouts_left -= 1
        with suppress(ValueError):
            self.later = route.later(call, call.request, services, frame, body)
            self.route = route

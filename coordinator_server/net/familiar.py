"""What a connection asks again and again, recognised by its bytes: no more of it is decoded."""

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from coordinator_server.api.services import Services
from coordinator_server.net.repeat import Repeat
from coordinator_server.net.session_call import SessionCall

if TYPE_CHECKING:
    from coordinator_server.api.registry import Later, Route

LONGEST_REPEATED: Final = 16_384
"""Bytes of a request that is remembered, lest it come again."""

_LAYOUTS: Final = 8
"""How often a connection's requests are laid out for nothing."""


class Familiar:
    """The latest request of a connection that came twice, and the latest that had one like it."""

    __slots__ = ("_layouts_left", "_length", "_seen", "later", "repeat", "way")

    def __init__(self) -> None:
        self.repeat: Repeat | None = None
        """Serves the same but for the correlation id."""
        self.later: Later | None = None
        """Serves what differs in numbers that its API knows the places of."""
        self.way: Route
        """Of what `later` serves."""
        self._seen = 0
        """Hash of the last request that may be repeated, but for its correlation id."""
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
        if call.route.again is not None:
            self._note_repeated(call, services, buffer, start, end)
        if call.route.later is not None:
            self._note_alike(call, services, buffer[start:end], body - start)

    def recognised(self) -> None:
        """Laying out was not for nothing."""
        self._layouts_left = _LAYOUTS

    def _note_repeated(
        self, call: SessionCall, services: Services, buffer: bytes, start: int, end: int
    ) -> None:
        """Be ready for what has now come twice."""
        way = call.route
        seen, self._seen = self._seen, hash(buffer[start + 8 : end])
        if seen != self._seen or end - start > LONGEST_REPEATED or way.again is None:
            return
        if self.repeat is None or not self.repeat.holds(buffer, start, end):
            again = way.again(call, call.request, services)
            if again is not None:
                self.repeat = Repeat(way, again, buffer, start, end)

    def _note_alike(self, call: SessionCall, services: Services, frame: bytes, body: int) -> None:
        """Be ready for a request if one as long as it has come before.

        Where nothing ever comes again, that is given up.
        """
        way = call.route
        if len(frame) != self._length:
            self._length = len(frame)
            return
        if way.later is None or not self._layouts_left:
            return
        self._layouts_left -= 1
        with suppress(ValueError):
            self.later = way.later(call, call.request, services, frame, body)
            self.way = way

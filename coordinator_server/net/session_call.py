"""One request of a connection, from its frame to its answer."""

from asyncio import CancelledError
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from coordinator_server.ports import Caller

if TYPE_CHECKING:
    from coordinator_server.api.registry import Route
    from coordinator_server.net.session import Session


class SessionCall:
    """Implements api.call.Call for a session.

    Whoever holds it may answer at any time, whatever has become of the client: what comes twice
    or too late is dropped, and nothing that is wrong with a response ever raises here.
    """

    __slots__ = (
        "_session",
        "api_key",
        "began",
        "caller",
        "correlation_id",
        "is_large",
        "now_ms",
        "request",
        "route",
        "version",
    )

    def __init__(
        self,
        session: "Session",
        route: "Route",
        correlation_id: bytes,
        caller: Caller,
        request: Any,
        now_ms: int,
        began: float,
    ) -> None:
        self._session = session
        self.route = route
        self.api_key: int = route.api_key
        self.version = route.version
        self.correlation_id = correlation_id
        self.caller = caller
        self.request = request
        self.now_ms = now_ms
        self.began = began
        """When its chunk was taken up, in seconds of the performance counter."""
        self.is_large = False
        """Whether the request was decoded beside the event loop."""

    def answer(self, response: Any) -> None:
        """Encode the response and send it."""
        if self._session.current is not self:
            return
        route, error = self.route, getattr(response, "error_code", 0)
        try:
            if route.encode_parts is None:
                body, parts = route.encode(response), None
            else:
                body, parts = b"", route.encode_parts(response)
        except (Exception, CancelledError) as bug:  # noqa: BLE001 - it is somebody else's turn
            self._session.failed(self, bug)
            return
        if parts is None:
            self._session.send(self, body, error)
        else:
            self._session.send_parts(self, parts, error)

    def encoded(self, response: Any) -> list[bytes]:
        """The body of the response, in parts. Raises ValueError."""
        route = self.route
        encode = route.encode_parts
        return [route.encode(response)] if encode is None else encode(response)

    def answer_body(self, body: bytes, error: int = 0) -> None:
        """Send an encoded body."""
        if self._session.current is self:
            self._session.send(self, body, error)

    def answer_parts(self, parts: list[bytes], error: int = 0) -> None:
        """Send an encoded body in parts."""
        if self._session.current is self:
            self._session.send_parts(self, parts, error)

    def may_grow(self, size: int, go_on: Callable[[], None]) -> bool:
        """See api.call.Call."""
        return self._session.may_grow(self, size, go_on)

    def answer_nothing(self) -> None:
        """Go on to the next request."""
        if self._session.current is self:
            self._session.skip(self)

    def failed(self, bug: BaseException) -> None:
        """Answer with an error for a bug."""
        if self._session.current is self:
            self._session.failed(self, bug)

    def disconnect(self, why: str) -> None:
        """End the connection."""
        if self._session.current is self:
            self._session.end("no_answer", why)

    def late(self, late: "Late") -> "LateCall":
        """The same call, but `late` decides when it is answered; only one of both is answered."""
        return LateCall(self._session, self, late)


Late = Callable[[SessionCall, Callable[[], None]], None]
"""Gets a call that has its answer, and what sends it; to be called on the event loop, if at all."""


class LateCall(SessionCall):
    """A call of which the answer is made as always, and sent when somebody else lets it go."""

    __slots__ = ("_late",)

    def __init__(self, session: "Session", call: SessionCall, late: Late) -> None:
        super().__init__(
            session,
            call.route,
            call.correlation_id,
            call.caller,
            call.request,
            call.now_ms,
            call.began,
        )
        self._late = late

    def answer(self, response: Any) -> None:
        """Have the response sent."""
        self._late(self, partial(SessionCall.answer, self, response))

    def answer_body(self, body: bytes, error: int = 0) -> None:
        """Have an encoded body sent."""
        self._late(self, partial(SessionCall.answer_body, self, body, error))

    def answer_parts(self, parts: list[bytes], error: int = 0) -> None:
        """Have an encoded body sent in parts."""
        self._late(self, partial(SessionCall.answer_parts, self, parts, error))

    def answer_nothing(self) -> None:
        """Have the session go on to the next request."""
        self._late(self, partial(SessionCall.answer_nothing, self))

"""Serves requests that take more than one turn of the event loop."""

from asyncio import CancelledError
from collections.abc import Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from coordinator_protocol.errors import ErrorCode
from coordinator_server.api.services import Services
from coordinator_server.net.body_limits import LargeDecoding
from coordinator_server.net.context import SessionTransport
from coordinator_server.net.session_call import SessionCall

if TYPE_CHECKING:
    from coordinator_server.net.session import Session


def start(shell: SessionTransport, work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine as a task; one that cannot be started is closed."""
    try:
        shell.run(work)
    except BaseException:
        work.close()
        raise


async def decode_large(
    session: "Session", shell: SessionTransport, call: SessionCall, decoding: LargeDecoding
) -> None:
    """Decode a request in several turns of the event loop, then have it served."""
    try:
        await shell.in_slices(lambda: session.current is not call or decoding.step())
    except (Exception, CancelledError) as error:
        # A decoder's bug is no reason to stop serving. Whoever cancels a request on purpose
        # has taken it from the session before.
        if session.current is not call:
            raise
        session.undecodable(error)
        return
    if session.current is call:
        session.decoded(call, decoding)


async def refuse_large(
    session: "Session", shell: SessionTransport, call: SessionCall, error: ErrorCode
) -> None:
    """Answer a large request with an error in every place that it names."""

    def encoded() -> list[bytes]:
        return call.encoded(call.route.refuse(call.request, error, call.version))

    try:
        call.answer_parts(await shell.aside(encoded), error)
    except (Exception, CancelledError) as bug:
        # Whoever cancels a request on purpose has taken it from the session before.
        if session.current is not call and isinstance(bug, CancelledError):
            raise
        session.failed(call, bug)


async def handle_async(
    session: "Session", shell: SessionTransport, call: SessionCall, services: Services
) -> None:
    """Run a handler that waits, and send its response."""
    try:
        response = await call.route.handle(call, call.request, services)
        # The answer to a large request is as large: it is encoded beside the loop, too.
        encode = partial(call.encoded, response)
        parts = await shell.aside(encode) if response and call.is_large else None
        if parts is not None:
            call.answer_parts(parts, getattr(response, "error_code", 0))
        elif response is not None:
            call.answer(response)
    except (Exception, CancelledError) as bug:
        # Whoever cancels a request on purpose has taken it from the session before.
        if session.current is not call and isinstance(bug, CancelledError):
            raise
        session.failed(call, bug)

"""Accepts connections, whatever goes wrong with one of them."""

import asyncio
from asyncio import CancelledError
from collections.abc import Callable
from typing import cast


def accepting(make: Callable[[], asyncio.BaseProtocol]) -> Callable[[], asyncio.BaseProtocol]:
    """A factory of protocols that never raises, for `create_server`.

    After an exception of its factory a listener of uvloop accepts no connection any more, and for a
    cancellation the whole event loop ends. Here the connection is closed instead.
    """

    def accept() -> asyncio.BaseProtocol:
        try:
            return make()
        except (Exception, CancelledError) as error:  # noqa: BLE001 - see above
            context = {"message": "a connection could not be accepted", "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)
            return RefusedConnection()

    return accept


class RefusedConnection(asyncio.Protocol):
    """A connection that is closed at once."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See Protocol."""
        cast("asyncio.Transport", transport).abort()

"""Keeps a listener accepting when its protocol factory raises."""

import asyncio
from asyncio import CancelledError
from collections.abc import Callable
from typing import cast


def accepting(make: Callable[[], asyncio.BaseProtocol]) -> Callable[[], asyncio.BaseProtocol]:
    """Wrap a protocol factory for `create_server` so that it never raises.

    After an exception in the factory a listener of uvloop accepts no more connections, and a
    cancellation ends the event loop. The wrapper closes the connection instead.
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
    """Protocol that closes its connection at once."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See Protocol."""
        cast("asyncio.Transport", transport).abort()

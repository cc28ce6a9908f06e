"""Imports slow modules after the start, when the server already serves clients."""

import asyncio
import sys
from importlib import import_module
from typing import Final

from coordinator_server.api.registry import import_all

_HTTP: Final = "coordinator_server.server.http_setup"
_BEFORE_HTTP_SECONDS: Final = 0.05
_BEFORE_APIS_SECONDS: Final = 0.2


async def import_apis() -> None:
    """Import the APIs that no client has requested yet."""
    await asyncio.sleep(_BEFORE_APIS_SECONDS)
    await asyncio.to_thread(import_all)


async def import_http() -> None:
    """Import the HTTP server beside the event loop."""
    if _HTTP not in sys.modules:
        # The import takes 200 ms of the interpreter; waiting Kafka clients come first.
        await asyncio.sleep(_BEFORE_HTTP_SECONDS)
        await asyncio.to_thread(import_module, _HTTP)

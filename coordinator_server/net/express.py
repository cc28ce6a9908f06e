"""Serves requests of the usual form straight from their bytes; all others take the general path.

Heartbeats and fetches of offsets are most of what a coordinator serves. Their express handlers
(registry.Express) read the fields, call the group and return the response, or leave the request to
the general path before anything has happened.
"""

from asyncio import CancelledError
from struct import Struct
from time import perf_counter
from typing import Final

from coordinator_protocol.frames import SIZE_BYTES
from coordinator_server.api.registry import ROUTES, Route
from coordinator_server.api.services import Services
from coordinator_server.net.request_header import HEADER_AT, HeaderReader
from coordinator_server.net.request_timing import measure
from coordinator_server.observe.counters import Counters

MOST_AT_ONCE: Final = 64
"""Requests of a chunk that are served before the rest of it takes the general path."""

_size_of: Final = Struct(">I").unpack_from
_seconds: Final = perf_counter  # not looked up every time, when compiled


def serve_express(
    data: bytes, header: HeaderReader, services: Services, now_ms: int, counters: Counters
) -> tuple[bytes, int]:
    """Serve requests at the start of a chunk that came at `now_ms` (monotonic milliseconds).

    Returns their responses, which count as sent, and where the rest of the chunk begins.
    """
    began = _seconds()
    at, size = 0, len(data)
    served: list[int] = []
    parts: list[bytes] = []
    intent = known = tail = size_bytes = b""
    route: Route | None = None
    response: bytes | None = None
    try:
        while at < size and len(served) < MOST_AT_ONCE:
            start = at + SIZE_BYTES
            end: int = start + _size_of(data, at)[0]
            if data[start : start + 4] != intent:
                intent, response = data[start : start + 4], None
                route = ROUTES.get(intent)
                known = b"" if route is None else header.known(route)
            # The header is that of an earlier request: the general path has read that one.
            body = start + HEADER_AT + len(known)
            if (
                route is None
                or route.express is None
                or end > size
                or not known
                or data[start + HEADER_AT : body] != known
            ):
                break
            made = route.express(data, body, end, route.version, header.caller, now_ms, services)
            if made is None:
                break
            if made is not response:
                response, tail = made, route.tags + made
                size_bytes = (4 + len(tail)).to_bytes(SIZE_BYTES, "big")
            parts.append(size_bytes + data[start + 4 : start + HEADER_AT] + tail)
            served.append(route.api_key)
            at = end
    except (Exception, CancelledError):  # noqa: BLE001, S110 - the general path says what is wrong
        pass
    if not served:
        return b"", 0
    responses = parts[0] if len(parts) == 1 else b"".join(parts)
    counters.bytes_in += at
    counters.bytes_out += len(responses)
    for api_key in served:
        counters.apis[api_key].accepted += 1
    measure(served, _seconds() - began, counters)
    return responses, at

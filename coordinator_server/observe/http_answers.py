"""Answers as the HTTP API gives them: JSON, errors, and lists too long for one turn of the loop."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from aiohttp import web

from coordinator_server.observe.forms import Form

if TYPE_CHECKING:
    from coordinator_server.observe.http_hosts import AllowedHosts

SLICE_SECONDS = 0.003
"""How long a list is written before others get their turn; heartbeats wait behind it."""


BODY_SECONDS = 10.0
"""How long a client may take to send the body of a request."""

MAX_BODY_BYTES = 1 << 20
"""Of a request; resetting the offsets of 10,000 partitions takes less."""

SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""Of every answer: nothing from another host, and ids of strangers are never taken for code."""


class BadRequest(Exception):
    """A request that makes no sense; the message names what, its value and what was expected."""


def error(status: int, message: str, **more: Any) -> web.Response:
    """An error in words."""
    return web.json_response({"error": message, **more}, status=status)


def whole_number(
    query: Mapping[str, str],
    name: str,
    default: int,
    *,
    least: int = 0,
    most: int | None = None,
) -> int:
    """A parameter of the query. Raises BadRequest."""
    text = query.get(name)
    if text is None:
        return default
    is_number = text.isascii() and text.isdecimal() and len(text) <= 18
    if not is_number or int(text) < least or (most is not None and int(text) > most):
        bounds = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise BadRequest(f"{name}={text!r}: expected a whole number {bounds}")
    return int(text)


async def stream(request: web.Request, start: str, items: Iterable[Form], end: str) -> Any:
    """Write `start`, the items as a JSON list, and `end`, in slices of a few milliseconds.

    `items` are made while they are written, so that making them does not hold up the loop either.
    """
    response = web.StreamResponse(headers={"Content-Type": "application/json; charset=utf-8"})
    await response.prepare(request)
    parts, began = [start, "["], time.perf_counter()
    separator = ""
    for item in items:
        parts.append(separator + json.dumps(item))
        separator = ","
        if time.perf_counter() - began > SLICE_SECONDS:
            await response.write("".join(parts).encode())
            await asyncio.sleep(0)
            parts, began = [], time.perf_counter()
    parts.append(f"]{end}")
    await response.write("".join(parts).encode())
    await response.write_eof()
    return response


def application(
    routes: Iterable[web.AbstractRouteDef], hosts: "AllowedHosts | None" = None
) -> web.Application:
    """The application of these routes; it answers in JSON where there is none.

    `hosts` are the names under which it may be asked; without them every name will do.
    """
    guards = [] if hosts is None else [hosts.middleware()]
    made = web.Application(middlewares=[*guards, _errors_as_json], client_max_size=MAX_BODY_BYTES)
    made.on_response_prepare.append(_add_headers)
    made.add_routes(routes)
    return made


async def read_body(request: web.Request, patience: float = BODY_SECONDS) -> bytes:
    """The body of a request. Raises BadRequest if it does not come in time."""
    try:
        async with asyncio.timeout(patience):
            return await request.read()
    except TimeoutError:
        raise BadRequest(f"the body did not come within {patience:g} seconds") from None


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@web.middleware
async def _errors_as_json(request: web.Request, handler: Handler) -> Any:
    try:
        return await handler(request)
    except BadRequest as problem:
        return error(400, str(problem))
    except ConnectionError:
        # Who asked has gone while the answer was made: nobody gets this one.
        return error(503, "nobody is there any more")
    except web.HTTPException as raised:
        return error(raised.status, f"{request.method} {request.path}: {raised.reason}")


async def _add_headers(_request: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(SECURITY_HEADERS)

"""Answers as the HTTP API gives them: JSON, errors, and lists too long for one turn of the loop."""

import asyncio
import json
import time
from collections.abc import Iterable, Mapping
from typing import Any

from aiohttp import web

from coordinator_server.observe.forms import Form

SLICE_SECONDS = 0.003
"""How long a list is written before others get their turn; heartbeats wait behind it."""


class BadRequest(Exception):
    """A request that makes no sense; the message names what, its value and what was expected."""


def error(status: int, message: str, **more: Any) -> web.Response:
    """An error in words."""
    return web.json_response({"error": message, **more}, status=status)


def whole_number(query: Mapping[str, str], name: str, default: int, *, least: int = 0) -> int:
    """A parameter of the query. Raises BadRequest."""
    text = query.get(name)
    if text is None:
        return default
    if not text.isascii() or not text.isdecimal() or len(text) > 18 or int(text) < least:
        raise BadRequest(f"{name}={text!r}: expected a whole number of at least {least}")
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

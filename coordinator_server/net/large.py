"""Large bodies: decoded beside the event loop, and refused if they hold too much."""

from dataclasses import fields, is_dataclass
from typing import Any, Final

from coordinator_server.api.registry import Route
from protocol.errors import Malformed

LARGE_BODY: Final = 1 << 20
"""Bytes above which a body is decoded beside the event loop: it may hold a million objects."""

MOST_ELEMENTS: Final = 100_000
"""Elements of a large request's arrays above which it is refused: each costs a turn's time."""


def decode_large(way: Route, buffer: bytes, body: int, end: int) -> Any:
    """The request from `body` to `end`. Raises Malformed, also for too many elements."""
    request = way.decode(buffer, body, end)
    elements = _elements(request)
    if elements > MOST_ELEMENTS:
        raise Malformed(f"{elements} elements, at most {MOST_ELEMENTS} are served")
    return request


def _elements(entity: Any) -> int:
    """How many elements the arrays of a message have, with those inside them."""
    count = 0
    for each in fields(entity):
        value = getattr(entity, each.name)
        if isinstance(value, list):
            count += len(value)
            if value and is_dataclass(value[0]):
                count += sum(map(_elements, value))
    return count

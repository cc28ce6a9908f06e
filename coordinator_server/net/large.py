"""Large bodies: decoded beside the event loop, and refused if they hold too much."""

from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Final

from coordinator_server.api.registry import Route
from protocol.errors import Malformed
from protocol.schema import Array

LARGE_BODY: Final = 1 << 17
"""Bytes above which a body is decoded beside the event loop: it may hold thousands of objects."""

COUNTED_BODY: Final = 1 << 20
"""Bytes above which the elements of a body are counted."""

MOST_ELEMENTS: Final = 100_000
"""Elements of its arrays above which it is refused: each costs a turn's time."""


def decode_large(way: Route, buffer: bytes, body: int, end: int) -> Any:
    """The request from `body` to `end`. Raises Malformed, also for too many elements."""
    request = way.decode(buffer, body, end)
    elements = _elements([request]) if end - body > COUNTED_BODY else 0
    if elements > MOST_ELEMENTS:
        raise Malformed(f"{elements} elements, at most {MOST_ELEMENTS} are served")
    return request


def _elements(messages: Sequence[Any]) -> int:
    """How many elements the arrays of messages of one kind have, with those inside them."""
    count = 0
    for each in fields(messages[0]):
        if isinstance(each.metadata["rule"].wire, Array):
            inside = [one for message in messages for one in getattr(message, each.name) or ()]
            count += len(inside)
            if inside and is_dataclass(inside[0]):
                count += _elements(inside)
    return count

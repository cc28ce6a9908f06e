"""Large bodies: decoded beside the event loop, and refused if they hold too much."""

from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Final

from coordinator_server.api.registry import Route
from protocol.api_keys import ApiKey
from protocol.errors import Malformed
from protocol.schema import Array

LARGE_BODY: Final = 1 << 17
"""Bytes above which a body is decoded beside the event loop: it may hold thousands of objects."""

COUNTED_BODY: Final = 1 << 14
"""Bytes above which the elements of a body are counted; less cannot hold too many."""

MOST_ELEMENTS: Final = 100_000
"""Elements of its arrays above which it is refused: each costs a turn's time."""

MOST_NAMES: Final = 10_000
"""The same where each is a name that is looked up, and costs far more."""

_OF_NAMES: Final = frozenset(
    {
        ApiKey.METADATA,
        ApiKey.OFFSET_FETCH,
        ApiKey.FIND_COORDINATOR,
        ApiKey.LEAVE_GROUP,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.DELETE_GROUPS,
    }
)


def decode_large(way: Route, buffer: bytes, body: int, end: int) -> Any:
    """The request from `body` to `end`. Raises Malformed, also for too many elements."""
    request = way.decode(buffer, body, end)
    refuse_too_many(way, request)
    return request


def refuse_too_many(way: Route, request: Any) -> None:
    """Hold a large request against what is served at once. Raises Malformed."""
    inside = _arrays([request])
    names = sum(map(len, inside)) if way.api.key in _OF_NAMES else 0
    if names > MOST_NAMES:
        raise Malformed(f"{names} names, at most {MOST_NAMES} are served")
    elements = sum(map(_elements, inside))
    if elements > MOST_ELEMENTS:
        raise Malformed(f"{elements} elements, at most {MOST_ELEMENTS} are served")


def _elements(array: Sequence[Any]) -> int:
    """How many elements an array has, with those of the arrays inside them."""
    inside = _arrays(array) if is_dataclass(array[0]) else []
    return len(array) + sum(map(_elements, inside))


def _arrays(messages: Sequence[Any]) -> list[Sequence[Any]]:
    """The arrays of messages of one kind, by their fields; empty ones are left out."""
    found = [
        [one for message in messages for one in getattr(message, each.name) or ()]
        for each in fields(messages[0])
        if isinstance(each.metadata["rule"].wire, Array)
    ]
    return [array for array in found if array]

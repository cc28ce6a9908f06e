"""One object for what nearly all members have alike, since there may be very many of them.

What is shared is bounded in number and length: `sys.intern` never lets go of a string on Python
3.12, and clients choose these.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from coordinator_server.group.events import ProtocolMetadata

MAX_SHARED: Final = 4_096
"""How many strings are shared at a time: those used last."""
MAX_SHARED_CHARS: Final = 128
"""Longer strings are kept as they come: they are nobody's usual client id."""


@lru_cache(maxsize=MAX_SHARED)
def _shared(text: str) -> str:
    return text


def text_alike(text: str) -> str:
    """The same text."""
    return _shared(text) if len(text) <= MAX_SHARED_CHARS else text


@lru_cache(maxsize=1_024)
def timeout_alike(milliseconds: int) -> int:
    """The same number."""
    return milliseconds


def protocols_alike(protocols: Iterable[ProtocolMetadata]) -> tuple[ProtocolMetadata, ...]:
    """The same protocols in the same order."""
    return tuple([(text_alike(name), metadata) for name, metadata in protocols])

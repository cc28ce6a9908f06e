"""Returns memory to the system after large requests: the C library keeps it by default.

glibc raises the size from which it maps memory separately to that of the largest block that was
freed, up to 32 MiB. Later blocks below that size come from its heap, where one small block behind
them keeps them from being returned.
"""

import sys
from collections.abc import Callable
from functools import cache
from typing import Any, Final

MAPPED_FROM: Final = 1 << 20
"""Bytes of a block from which on it is mapped separately, and returned when it is freed."""

KEPT_ON_TOP: Final = 1 << 23
"""Free bytes at the end of the heap that are kept for the next requests."""

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3


@cache
def _function(name: str) -> Callable[..., Any] | None:
    """A function of the C library, None where there is none of that name (musl, macOS)."""
    if sys.platform != "linux":
        return None
    import ctypes  # takes milliseconds that a start without large requests need not spend

    try:
        found: Callable[..., Any] = getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError):
        return None
    return found


@cache
def map_large_blocks() -> None:
    """Have large blocks returned to the system as soon as they are freed; once is enough."""
    mallopt = _function("mallopt")
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, MAPPED_FROM)
        mallopt(_M_TRIM_THRESHOLD, KEPT_ON_TOP)


def trim() -> None:
    """Return free pages within the heap to the system; takes milliseconds, so not on the loop."""
    malloc_trim = _function("malloc_trim")
    if malloc_trim is not None:
        malloc_trim(0)

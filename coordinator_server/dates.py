"""Times of the wall clock in words; numbers from a log or a client may lie outside the calendar."""

from datetime import UTC, datetime
from typing import Final

_DAY_MS: Final = 86_400_000
EARLIEST_MS: Final = -62_135_596_800_000 + _DAY_MS
"""The year 1, a day late: there is room for every time zone."""
LATEST_MS: Final = 253_402_300_799_999 - _DAY_MS
"""The end of the year 9999, a day early."""


def within_calendar(wall_ms: int) -> int:
    """The nearest time, in milliseconds since the epoch, that a date can show."""
    return min(max(wall_ms, EARLIEST_MS), LATEST_MS)


def utc(wall_ms: int) -> datetime:
    """The date of a time in milliseconds since the epoch; never raises for an integer."""
    return datetime.fromtimestamp(within_calendar(wall_ms) / 1000, UTC)

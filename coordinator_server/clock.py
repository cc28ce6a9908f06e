"""Clocks: the system's, one that ignores pauses of the process, and one that tests advance."""

from abc import ABC, abstractmethod
from datetime import UTC, datetime
from time import monotonic_ns, time_ns
from typing import Final

_NANOS_PER_MS: Final = 1_000_000
# mypyc does not look up Final names of the module on every call.
_monotonic_ns: Final = monotonic_ns
_time_ns: Final = time_ns


class Clock(ABC):
    """Deadlines use the monotonic clock; record timestamps and retention use the wall clock.

    This port is a class and not a Protocol because every request reads it several times.
    """

    @abstractmethod
    def monotonic_ms(self) -> int:
        """Milliseconds of a clock that never jumps."""

    @abstractmethod
    def wall_ms(self) -> int:
        """Milliseconds since the epoch."""


class SystemClock(Clock):
    """The clock of the operating system."""

    def monotonic_ms(self) -> int:
        """Milliseconds of a clock that never jumps."""
        return _monotonic_ns() // _NANOS_PER_MS

    def wall_ms(self) -> int:
        """Milliseconds since the epoch."""
        return _time_ns() // _NANOS_PER_MS


LONGEST_GAP_MS: Final = 1_000
"""Longest time between two reads of a watched clock; a longer gap was a pause."""
LOOK_MS: Final = 250
"""Longest interval between two reads of a running process."""


class PauseAwareClock(Clock):
    """A monotonic clock that leaves out the time in which the whole process was stopped.

    A stopped process (SIGSTOP, `docker pause`) could not read the heartbeats that arrived, so its
    deadlines continue as if there had been no pause. A gap between two reads reveals a pause; the
    caller of `begin` must read the clock at least every `LOOK_MS`. The wall clock is not changed.
    """

    def __init__(self, base: Clock | None = None) -> None:
        self.pauses = 0
        self.paused_ms = 0
        """Length of all pauses together."""
        self._base = base
        """The clock of tests; None: the operating system's."""
        self._seen_ms = 0
        self._is_watched = False

    def begin(self) -> None:
        """Start to detect pauses."""
        self._seen_ms = self._now()
        self._is_watched = True

    def end(self) -> None:
        """Stop detecting pauses: nothing reads the clock regularly any more."""
        self._is_watched = False

    def monotonic_ms(self) -> int:
        """Milliseconds without the pauses of the process; never decreases."""
        base = self._base
        # Inlined `_now`: a call would cost time in every request.
        now = _monotonic_ns() // _NANOS_PER_MS if base is None else base.monotonic_ms()
        gap = now - self._seen_ms
        if gap > LONGEST_GAP_MS and self._is_watched:
            self.pauses += 1
            self.paused_ms += gap - LOOK_MS
        self._seen_ms = now
        return now - self.paused_ms

    def _now(self) -> int:
        base = self._base
        return _monotonic_ns() // _NANOS_PER_MS if base is None else base.monotonic_ms()

    def wall_ms(self) -> int:
        """Milliseconds since the epoch."""
        return _time_ns() // _NANOS_PER_MS if self._base is None else self._base.wall_ms()


class ManualClock(Clock):
    """A clock that `advance` moves; with `base` it also follows the base, ahead of it.

    Without a base it stays at `monotonic_ms` and `wall_ms` until `advance` moves it.
    """

    def __init__(
        self,
        monotonic_ms: int = 1_000_000,
        wall_ms: int = 1_700_000_000_000,
        *,
        base: Clock | None = None,
    ) -> None:
        self._base = base
        self._monotonic_ms = 0 if base else monotonic_ms
        self._wall_ms = 0 if base else wall_ms

    def monotonic_ms(self) -> int:
        """Milliseconds that only `advance`, or the base, moves."""
        return self._monotonic_ms + (self._base.monotonic_ms() if self._base else 0)

    def wall_ms(self) -> int:
        """Milliseconds since the epoch, moved together with the monotonic clock."""
        return self._wall_ms + (self._base.wall_ms() if self._base else 0)

    def advance(self, ms: int) -> None:
        """Move both clocks forward by `ms` milliseconds.

        Raises:
            ValueError: for a negative `ms`: a monotonic clock never goes back.
        """
        if ms < 0:
            raise ValueError(f"ms={ms}: a clock moves forward only, expected 0 or more")
        self._monotonic_ms += ms
        self._wall_ms += ms


_DAY_MS: Final = 86_400_000
EARLIEST_MS: Final = -62_135_596_800_000 + _DAY_MS
"""The start of the year 1 plus a day, so that it is valid in every time zone."""
LATEST_MS: Final = 253_402_300_799_999 - _DAY_MS
"""The end of the year 9999 minus a day."""


def within_calendar(wall_ms: int) -> int:
    """The nearest time, in milliseconds since the epoch, that a date can show."""
    return min(max(wall_ms, EARLIEST_MS), LATEST_MS)


def utc(wall_ms: int) -> datetime:
    """The date of a time in milliseconds since the epoch; never raises for an integer."""
    return datetime.fromtimestamp(within_calendar(wall_ms) / 1000, UTC)

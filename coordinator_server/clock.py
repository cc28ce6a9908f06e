"""The time as the server sees it: the system's, or one that tests move by hand."""

from abc import ABC, abstractmethod
from datetime import UTC, datetime
from time import monotonic_ns, time_ns
from typing import Final

_NANOS_PER_MS: Final = 1_000_000
# Names of our own are not looked up every time, when compiled.
_monotonic_ns: Final = monotonic_ns
_time_ns: Final = time_ns


class Clock(ABC):
    """Time. Deadlines use the monotonic clock, record timestamps and retention the wall clock.

    A port like those in ports.py; a class, because it is read several times in every request.
    """

    @abstractmethod
    def monotonic_ms(self) -> int:
        """Milliseconds that never jump."""

    @abstractmethod
    def wall_ms(self) -> int:
        """Milliseconds since the epoch."""


class SystemClock(Clock):
    """The machine's own time."""

    def monotonic_ms(self) -> int:
        """Milliseconds that never jump."""
        return _monotonic_ns() // _NANOS_PER_MS

    def wall_ms(self) -> int:
        """Milliseconds since the epoch."""
        return _time_ns() // _NANOS_PER_MS


LONGEST_GAP_MS: Final = 1_000
"""Between two looks at a clock that is looked at regularly; a longer one was a pause."""
LOOK_MS: Final = 250
"""How often it is looked at, at least."""


class PauseAwareClock(Clock):
    """A monotonic clock that leaves out the time in which the whole process stood still.

    A process that was stopped (SIGSTOP, `docker pause`) has had no chance to read the heartbeats
    that came meanwhile. Its deadlines go on where they were, as if the pause had not been. A pause
    shows as a gap between two looks; whoever calls `begin` sees to it that the clock is looked at
    at least every `LOOK_MS`. The wall clock runs on.
    """

    def __init__(self, base: Clock | None = None) -> None:
        self.pauses = 0
        self.paused_ms = 0
        """How much time was left out, in all pauses together."""
        self._base = base
        """What tests move; None: the machine's own time."""
        self._seen_ms = 0
        self._is_watched = False

    def begin(self) -> None:
        """From now on the clock is looked at regularly."""
        self._seen_ms = self._now()
        self._is_watched = True

    def end(self) -> None:
        """The clock is not looked at regularly any more: a gap says nothing."""
        self._is_watched = False

    def monotonic_ms(self) -> int:
        """Milliseconds of this process, without those in which it stood still; never goes back."""
        base = self._base
        # As `_now`, which would be a call more for every request.
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
    """A clock that `advance` moves; with `base` it also runs on by itself, ahead of the base.

    Without a base it stands at `monotonic_ms` and `wall_ms` until it is moved.
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
"""The year 1, a day late: there is room for every time zone."""
LATEST_MS: Final = 253_402_300_799_999 - _DAY_MS
"""The end of the year 9999, a day early."""


def within_calendar(wall_ms: int) -> int:
    """The nearest time, in milliseconds since the epoch, that a date can show."""
    return min(max(wall_ms, EARLIEST_MS), LATEST_MS)


def utc(wall_ms: int) -> datetime:
    """The date of a time in milliseconds since the epoch; never raises for an integer."""
    return datetime.fromtimestamp(within_calendar(wall_ms) / 1000, UTC)

"""The time as the server sees it: the system's, or one that tests move by hand."""

from abc import ABC, abstractmethod
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

"""Limits log lines that clients can cause, per reason and host, and counts those left out."""

from collections.abc import Callable
from typing import Any, Final

HOST_QUIET_MS: Final = 1_000
"""After a line about a host, until the next one of the same kind about it."""

MOST_PER_SECOND: Final = 10
"""Lines of one kind about all hosts together."""

MOST_HOSTS: Final = 1_000
"""Kinds and hosts that are remembered; all further ones share a place."""

_SECOND_MS: Final = 1_000


class LineLimiter:
    """Passes lines on: of each kind one a second about a host, and ten a second about all.

    A line that follows suppressed ones has their number as `suppressed`. Where none follows,
    `flush` reports it, so no line is ever lost without a trace.
    """

    __slots__ = ("_now_ms", "_of_kind", "_places", "_report")

    def __init__(self, report: Callable[..., None], now_ms: Callable[[], int]) -> None:
        self._report = report
        self._now_ms = now_ms
        self._places: dict[tuple[str, str, str], _Position] = {}
        self._of_kind: dict[tuple[str, str], tuple[int, int]] = {}
        """When the current second of a kind began, and its lines since then."""

    def report(self, event: str, kind: str, host: str, **fields: Any) -> None:
        """Write a line, or count it: `kind` says which lines of the event are alike."""
        now_ms = self._now_ms()
        key = (event, kind, host)
        place = self._places.get(key)
        if place is None:
            if len(self._places) >= MOST_HOSTS:
                key = (event, kind, "other hosts")
            place = self._places.setdefault(key, _Position())
        if now_ms < place.quiet_until_ms or not self._has_room(event, kind, now_ms):
            place.suppressed += 1
            return
        place.quiet_until_ms = now_ms + HOST_QUIET_MS
        suppressed, place.suppressed = place.suppressed, 0
        if suppressed:
            fields["suppressed"] = suppressed
        self._report(event, host=host, **fields)

    def flush(self) -> None:
        """Report what was suppressed more than a second ago, and forget hosts that are quiet."""
        now_ms = self._now_ms()
        for (event, kind, host), place in [*self._places.items()]:
            if now_ms < place.quiet_until_ms:
                continue
            if not place.suppressed:
                del self._places[event, kind, host]
            elif self._has_room("log_lines_suppressed", "", now_ms):
                self._report(
                    "log_lines_suppressed",
                    of=event,
                    reason=kind,
                    host=host,
                    lines=place.suppressed,
                )
                place.suppressed = 0
                place.quiet_until_ms = now_ms + HOST_QUIET_MS

    def _has_room(self, event: str, kind: str, now_ms: int) -> bool:
        began_ms, lines = self._of_kind.get((event, kind), (now_ms, 0))
        if now_ms - began_ms >= _SECOND_MS:
            began_ms, lines = now_ms, 0
        if lines >= MOST_PER_SECOND:
            return False
        self._of_kind[event, kind] = began_ms, lines + 1
        return True


class _Position:
    """Lines of one kind about one host."""

    __slots__ = ("quiet_until_ms", "suppressed")

    def __init__(self) -> None:
        self.quiet_until_ms = 0
        self.suppressed = 0

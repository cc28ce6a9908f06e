"""Decides whether a flush waits for the next commits of the clients that were just answered.

Clients that commit in a loop fall into two halves otherwise: each sync covers the commits that
arrived during the one before, so twice as many syncs are needed. Lingering pays off if the clients
answered by a sync commit again within the next one, and not if records arrive independently.
"""

from typing import Final

LINGER_SECONDS: Final = 0.005
"""A flush lingers this long, and twice as long at most; Kafka's default is the same
(`group.coordinator.append.linger.ms`)."""
FEWEST: Final = 4
"""Flushes with repeated commits before the first one lingers."""
MOST: Final = 256
"""The upper limit of that number, which doubles each time lingering does not pay off."""

RecordCounts = dict[str, int]
"""Numbers of records by log name."""


class AdaptiveLinger:
    """Learns from the record counts of flushes; reads no clock."""

    __slots__ = ("_answered", "_at_first", "_needed", "_rounds_repeated", "wanted")

    def __init__(self) -> None:
        self.wanted = 0
        """How many records the next flush waits for; 0 if it does not linger."""
        self._answered: RecordCounts = {}
        """Records acknowledged by the last flush."""
        self._rounds_repeated = 0
        """Flushes after which the clients committed again; halved when they did not."""
        self._needed = FEWEST
        self._at_first = 0
        """Answered and waiting records when flushes began to linger."""

    def ended(self, answered: RecordCounts, waiting: RecordCounts) -> None:
        """Learn from a flush: the records it answered, and those that arrived meanwhile."""
        total = sum(answered.values()) + sum(waiting.values())
        if not self.wanted:
            self._at_first = total
            is_repeated = self._has_repeated(waiting)
            self._rounds_repeated = (
                self._rounds_repeated + 1 if is_repeated else self._rounds_repeated // 2
            )
        elif total > 2 * self._at_first:
            # Lingering collects ever more records: clients do not wait for answers.
            self.back_off()
        else:
            self._needed = max(FEWEST, self._needed - 1)
        self._answered = answered
        if self._rounds_repeated >= self._needed:
            # One in eight may be missing: a slow client must not delay the others.
            self.wanted = total - total // 8

    def _has_repeated(self, waiting: RecordCounts) -> bool:
        """Whether three quarters of the last answered records were followed by new ones."""
        again = 0
        for log, answered in self._answered.items():
            again += min(answered, waiting.get(log, 0))
        return 0 < 3 * sum(self._answered.values()) <= 4 * again

    def back_off(self) -> None:
        """Stop lingering and require twice as many repeated flushes before the next try."""
        self.stop()
        self._needed = min(2 * self._needed, MOST)

    def stop(self) -> None:
        """Stop lingering."""
        self.wanted = 0
        self._rounds_repeated = 0

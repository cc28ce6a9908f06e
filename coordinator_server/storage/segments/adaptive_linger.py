"""Whether a sync waits for those who were answered by the last one, because they come again.

Clients that commit one after the other fall into two halves otherwise: a sync begins with what came
during the one before, so there are twice as many as are needed. Waiting is worth it where those who
were answered came again within one sync; where records come anyway, or not at all, it is not.
"""

from typing import Final

LINGER_SECONDS: Final = 0.005
"""A pass waits so long before it gives up, and twice as long at most: Kafka always waits so long by
default, where it waits at all (`group.coordinator.append.linger.ms`)."""
FEWEST: Final = 4
"""Passes after which those who were answered came again, before one waits."""
MOST: Final = 256
"""The same after waiting was in vain again and again."""

Records = dict[str, int]
"""How many there are, by the name of their log."""


class AdaptiveLinger:
    """Counts records of passes; it does not know the time."""

    __slots__ = ("_answered", "_at_first", "_needed", "_rounds_repeated", "wanted")

    def __init__(self) -> None:
        self.wanted = 0
        """How many records the next pass waits for; 0 if it does not wait."""
        self._answered: Records = {}
        """By the last pass."""
        self._rounds_repeated = 0
        """Passes after which they did, less those after which they did not."""
        self._needed = FEWEST
        self._at_first = 0
        """What was answered and what had come when passes began to wait."""

    def ended(self, answered: Records, waiting: Records) -> None:
        """A pass has answered some records; others have come meanwhile."""
        total = sum(answered.values()) + sum(waiting.values())
        if not self.wanted:
            self._at_first = total
            is_repeated = self._has_repeated(waiting)
            self._rounds_repeated = (
                self._rounds_repeated + 1 if is_repeated else self._rounds_repeated // 2
            )
        elif total > 2 * self._at_first:
            # The longer it waits the more there are: they come without an answer, too.
            self.back_off()
        else:
            self._needed = max(FEWEST, self._needed - 1)
        self._answered = answered
        if self._rounds_repeated >= self._needed:
            # Not for the last few.
            self.wanted = total - total // 8

    def _has_repeated(self, waiting: Records) -> bool:
        """Whether there are as many as the pass before the last has answered, in the same logs."""
        again = 0
        for log, answered in self._answered.items():
            again += min(answered, waiting.get(log, 0))
        return 0 < 3 * sum(self._answered.values()) <= 4 * again

    def back_off(self) -> None:
        """Waiting was not worth it: it is tried again when those answered came for longer."""
        self.stop()
        self._needed = min(2 * self._needed, MOST)

    def stop(self) -> None:
        """Nobody comes any more."""
        self.wanted = 0
        self._rounds_repeated = 0

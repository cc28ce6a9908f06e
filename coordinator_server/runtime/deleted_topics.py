"""Deleted topics that some partition has still to forget; once for all partitions.

A partition that is not served leaves open what is deleted meanwhile, perhaps for days, and often
many are not: names of its own for each would take as many times the memory.
"""

from typing import Final

MOST_OPEN: Final = 100
"""Deletions that are kept apart; of older ones every topic is kept by itself."""


class DeletedTopics:
    """Deletions by their numbers, and up to which of them each partition has forgotten."""

    def __init__(self) -> None:
        self.number = 0
        """That of the latest deletion."""
        self._recent: dict[int, frozenset[str]] = {}
        """The topics of a deletion, which is the same object for all: there may be thousands."""
        self._older: dict[str, int] = {}
        """The last deletion of a topic, in their order: it may come back and be deleted again."""
        self._settled: dict[object, int] = {}
        """The last deletion that was forgotten, by the partitions that have later ones open."""

    def __len__(self) -> int:
        return len(self._older) + len(self._recent)

    def open(self, who: object, topics: frozenset[str]) -> None:
        """A partition has to forget topics; all partitions are given the same object."""
        if self._recent.get(self.number) is not topics:
            self.number += 1
            self._recent[self.number] = topics
            if len(self._recent) > MOST_OPEN:
                self._age()
        self._settled.setdefault(who, self.number - 1)

    def _age(self) -> None:
        number = next(iter(self._recent))
        for topic in self._recent.pop(number):
            # It comes behind the others again.
            self._older.pop(topic, None)
            self._older[topic] = number

    def since(self, who: object) -> frozenset[str]:
        """The topics that a partition has still to forget."""
        first = self._settled.get(who, self.number)
        topics = [each for number, each in self._recent.items() if number > first]
        older: list[str] = []
        for topic, number in reversed(self._older.items()):
            if number <= first:
                break
            older.append(topic)
        if len(topics) == 1 and not older:
            return topics[0]
        return frozenset(older).union(*topics)

    def settle(self, who: object, number: int) -> None:
        """A partition has forgotten, or need not forget, what was deleted up to a number."""
        before = self._settled.get(who)
        if before is None or number <= before:
            return
        if number < self.number:
            self._settled[who] = number
        else:
            del self._settled[who]
        least = min(self._settled.values(), default=self.number)
        if least > before:
            self._recent = {n: topics for n, topics in self._recent.items() if n > least}
            if self._older:
                self._older = {topic: n for topic, n in self._older.items() if n > least}

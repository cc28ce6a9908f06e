"""The records a log was given, and the rules for the records it has when it is opened again."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.simulation.storage.scheduler import Failure, Killed


class Given(NamedTuple):
    """A record as it was given to a log."""

    key: bytes
    value: bytes | None


class Found(NamedTuple):
    """A record as it was read."""

    offset: int
    key: bytes
    value: bytes | None


@dataclass
class Batch:
    """Records that were appended together, and the answer to that."""

    base: int
    records: list[Given]
    answers: int = 0
    is_acknowledged: bool = False

    @property
    def end(self) -> int:
        return self.base + len(self.records)


@dataclass
class Ledger:
    """What a log may have and must have.

    Batches that a load did not find are dropped here; found again later they break a rule.
    """

    name: str
    batches: list[Batch] = field(default_factory=list)
    kept_end: int = 0
    """All records before must be there whatever happens: acknowledged, or seen after a start."""
    answered_end: int = 0
    """All records before must be there unless the power is cut or an operation fails."""
    compacts: bool = True
    life: int = -1
    """Of the process that opened it last."""
    limbo: list[list[Batch]] = field(default_factory=list)
    """Other batches the log may have instead: cut in memory, while the journal has them until the
    cut is in there, too. Nobody was told that they are durable, nor that they are gone."""
    is_over: Callable[[], bool] = lambda: False
    """Whether the process is gone: whatever it still does counts no more."""
    loses_unsynced: bool = False
    """Whether an earlier life may have lost what it had not synced."""

    @property
    def end(self) -> int:
        return self.batches[-1].end if self.batches else 0

    def _check_alive(self) -> None:
        if self.is_over():
            raise Killed

    def appended(self, base: int, records: Sequence[Given]) -> Batch:
        """The log took a batch."""
        self._check_alive()
        if base != self.end:
            raise Failure(f"{self.name}: a batch got offset {base}, the log ended at {self.end}")
        batch = Batch(base, list(records))
        self.batches.append(batch)
        return batch

    def withdrawn(self, batch: Batch) -> None:
        """The log refused it after all."""
        self._check_alive()
        self.batches = [each for each in self.batches if each is not batch]

    def answered(self, batch: Batch, error: BaseException | None, *, durably: bool) -> None:
        """Somebody was told whether a batch is durable, under the policy."""
        self._check_alive()
        batch.answers += 1
        if batch.answers > 1:
            raise Failure(f"{self.name}: the append at offset {batch.base} is answered twice")
        if error is not None:
            return
        batch.is_acknowledged = True
        if not any(batch is each for each in self.batches):
            raise Failure(
                f"{self.name}: the append at offset {batch.base} is acknowledged, but the log was "
                "opened without it"
            )
        self.answered_end = max(self.answered_end, batch.end)
        if durably:
            self.kept_end = max(self.kept_end, batch.end)
            self.limbo.clear()

    def unanswered(self) -> list[int]:
        """Offsets of batches nobody was told about."""
        return [batch.base for batch in self.batches if not batch.answers]

    def is_superseded(self, offset: int, key: bytes) -> bool:
        """Whether a later record has the same key, so that compaction may remove this one."""
        return any(
            record.key == key and batch.base + number > offset
            for batch in self.batches
            for number, record in enumerate(batch.records)
        )

    def opened(
        self, end: int, found: Sequence[Found], *, weakly: bool, is_new_life: bool, cuts_later: bool
    ) -> None:
        """The log was opened and read. With `weakly` it may lack what was not on disk.

        With `cuts_later` records that it lacks may be found until something else is durable.
        """
        self._check_alive()
        must = self.kept_end if weakly else max(self.kept_end, self.answered_end)
        if end < must:
            raise Failure(
                f"{self.name}: the log ends at offset {end}, records up to {must} were "
                "acknowledged or seen after an earlier start"
            )
        self._choose(end, found, self.limbo if is_new_life else [])
        before, self.batches = self.batches, [each for each in self.batches if each.base < end]
        if is_new_life:
            self.limbo.clear()
            for batch in self.batches:
                batch.answers = max(batch.answers, 1)
        elif cuts_later and len(before) > len(self.batches):
            self.limbo.append(before)
        self.kept_end = self.answered_end = end
        self.loses_unsynced = False

    def _choose(self, end: int, found: Sequence[Found], others: Sequence[list[Batch]]) -> None:
        """Take the batches that are there for those that were appended last."""
        latest, failure = self.batches, None
        for batches in (latest, *others):
            self.batches = batches
            try:
                self._check_end(end)
                self.check(found, 0, end, end)
            except Failure as error:
                failure = failure or error
            else:
                return
        self.batches = latest
        assert failure is not None
        raise failure

    def _check_end(self, end: int) -> None:
        if end > self.end:
            raise Failure(
                f"{self.name}: the log ends at offset {end}, records up to {self.end} were "
                "appended and not cut since"
            )
        if any(batch.base < end < batch.end for batch in self.batches):
            raise Failure(f"{self.name}: the log ends at {end}, within a batch")

    def settled(self) -> None:
        """What the log has is durable, and so is what was cut."""
        self._check_alive()
        self.limbo.clear()

    def check_read(self, found: Sequence[Found], start: int, up_to: int) -> None:
        """A read from an offset on, which may end anywhere before another."""
        if found and found[-1].offset >= up_to:
            raise Failure(f"{self.name}: a read up to {up_to} has offset {found[-1].offset}")
        until = found[-1].offset if found else start
        self.check(found, start, self.end, until)

    def check(self, found: Sequence[Found], start: int, end: int, until: int) -> None:
        """Records that were read are those given, in order; missing ones were compacted away.

        None from `start` to `until` is missing otherwise. The log ends at `end`.
        """
        given = [
            (batch.base + number, record)
            for batch in self.batches
            for number, record in enumerate(batch.records)
        ]
        by_offset = dict(given)
        previous = -1
        for record in found:
            if record.offset <= previous:
                raise Failure(f"{self.name}: offset {record.offset} follows {previous}")
            previous = record.offset
            wanted = by_offset.get(record.offset)
            if record.offset >= end or wanted is None:
                raise Failure(
                    f"{self.name}: a read has offset {record.offset} ({record.value!r}), "
                    f"the log ends at {min(end, self.end)}"
                )
            if wanted != (record.key, record.value):
                raise Failure(
                    f"{self.name}: offset {record.offset} has {record.key!r} {record.value!r}, "
                    f"{wanted.key!r} {wanted.value!r} was appended there"
                )
        there = {record.offset for record in found}
        last = {record.key: offset for offset, record in given if offset < end}
        for offset, lacking in given:
            if start <= offset < until and offset not in there:
                if self.compacts and (last[lacking.key] != offset or lacking.value is None):
                    continue
                raise Failure(
                    f"{self.name}: offset {offset} is missing, the last record of {lacking.key!r} "
                    f"before the end at {end}"
                )

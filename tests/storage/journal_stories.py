"""Lives of a data directory with a journal, made from a seed, and what a power loss leaves of them.

Every moment at which something goes to the disk may be the one at which power is lost. A story
keeps what the disk would hold then, and afterwards opens it as a server does.
"""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from coordinator_protocol.batch import LogRecord, build_batch
from coordinator_protocol.batch_records import read_records
from coordinator_server.storage.segments.flusher import Flusher, FlushPolicy
from coordinator_server.storage.segments.journal import Journal
from coordinator_server.storage.segments.journal_format import HEADER_BYTES
from coordinator_server.storage.segments.journal_replay import replay_all
from coordinator_server.storage.segments.log import SegmentLog
from tests.support.simulated_disk import SimulatedDisk

DATA = Path("/data")
NAMES = ("__consumer_offsets-0", "orders-0", "orders-1")
SEGMENT_BYTES = 4_000
CAPACITY = HEADER_BYTES + 6_000
SNAPSHOTS = 12


@dataclass
class Model:
    """What was written to every log, and how much of it was acknowledged."""

    written: dict[str, list[bytes]] = field(default_factory=lambda: {name: [] for name in NAMES})
    acknowledged: dict[str, int] = field(default_factory=lambda: dict.fromkeys(NAMES, 0))
    synced: dict[str, int] = field(default_factory=lambda: dict.fromkeys(NAMES, 0))
    """How much of that has to survive a loss of power."""

    def after_power_loss(self) -> "Model":
        written = {name: list(values) for name, values in self.written.items()}
        return Model(written, dict(self.synced), dict(self.synced))


class Story:
    """One life after the other on a disk."""

    def __init__(self, seed: int, policy: FlushPolicy = FlushPolicy.COMMIT) -> None:
        self.random = Random(seed)
        self.policy = policy
        self.disk = SimulatedDisk()
        self.disk.names_now[DATA] = self.disk.durable_names[DATA] = None
        self.model = Model()
        self.snapshots: list[tuple[SimulatedDisk, Model]] = []
        self.reports: list[str] = []
        self.odds = 0.0

    def report(self, event: str, **_fields: object) -> None:
        self.reports.append(event)

    def _operation(self, _operation: str) -> None:
        if self.random.random() < self.odds and len(self.snapshots) < SNAPSHOTS:
            self.snapshots.append(
                (self.disk.lose_power(self.random), self.model.after_power_loss())
            )

    def open(self, disk: SimulatedDisk) -> tuple[Journal, list[SegmentLog]]:
        """What a start does."""
        journal = Journal(
            DATA,
            capacity=CAPACITY,
            syncs=self.policy is FlushPolicy.COMMIT,
            boot=disk.boot,
            files=disk,
            report=self.report,
        )
        checkpoints = journal._checkpoints

        def checkpoint_sometimes() -> None:
            # In the same thread, so that a story is the same each time.
            if self.random.random() < 0.6:
                checkpoints.run()

        checkpoints.begin = checkpoint_sometimes  # type: ignore[method-assign]
        replay_all(journal, DATA, self.report, disk)
        logs = [
            SegmentLog(DATA / name, files=disk, segment_bytes=SEGMENT_BYTES, journal=journal)
            for name in NAMES
        ]
        return journal, logs

    async def play(self, lives: int = 3) -> None:
        """Live; a life ends with a kill, a clean stop or a loss of power."""
        for _ in range(lives):
            journal, logs = self.open(self.disk)
            self.check(self.model, logs)
            self.odds = 0.05
            self.disk.on_operation = self._operation
            # What it does by the clock the story does itself.
            flusher = Flusher(self.policy, 3_600_000, journal, write_out_seconds=3_600)
            for _ in range(self.random.randint(0, 40)):
                await self._turn(flusher, logs)
                self._do_something_else(journal, logs)
            if self.random.random() < 0.3:
                await flusher.close()
                for log in logs:
                    log.close()
                assert journal.close()
                self.model.synced.update(self.model.acknowledged)
            self.odds = 0.0
            self.disk.on_operation = lambda _operation: None
            if self.random.random() < 0.5:
                self.disk = self.disk.lose_power(self.random)
                self.model = self.model.after_power_loss()
            else:
                self.disk = self.disk.kill()
            await flusher.close()
        for disk, model in self.snapshots:
            _journal, logs = self.open(disk)
            self.check(model, logs)
            # Once more: what a replay has done must not depend on memory.
            _journal, logs = self.open(disk.lose_power(self.random))
            self.check(model, logs)

    async def _turn(self, flusher: Flusher, logs: list[SegmentLog]) -> None:
        """Some appends to some logs, one pass, and what it acknowledges."""
        futures = []
        for log in self.random.sample(logs, self.random.randint(1, len(logs))):
            for _ in range(self.random.randint(1, 3)):
                written = self.model.written[log.name]
                size = self.random.choice((1, 30, 30, 30, 200, 1_500))
                value = b"%d:" % len(written) + self.random.randbytes(size)
                # Before the append: it may roll the segment, and so sync what was there.
                written.append(value)
                log.append(build_batch([LogRecord(b"key", value, 1)]))
            futures.append((log, flusher.flush(log), log.end_offset))
        for log, future, end in futures:
            await future
            self.model.acknowledged[log.name] = end
            if self.policy is FlushPolicy.COMMIT:
                self.model.synced[log.name] = end

    def _do_something_else(self, journal: Journal, logs: list[SegmentLog]) -> None:
        """What comes between passes: bulk writes of segments, readers, syncs of the journal."""
        dice = self.random.random()
        if dice < 0.2:
            self.random.choice(logs).write_out()
        elif dice < 0.3:
            log = self.random.choice(logs)
            assert values_of(log) == self.model.written[log.name], "what was kept back is not read"
        elif dice < 0.4:
            self.random.choice(logs).sync_and_note()
        elif dice < 0.6 and self.policy is FlushPolicy.INTERVAL:
            acknowledged = dict(self.model.acknowledged)
            assert journal.sync() == []
            self.model.synced.update(acknowledged)

    def check(self, model: Model, logs: list[SegmentLog]) -> None:
        """Everything acknowledged is there, and nothing that was not written in that order."""
        for log in logs:
            name = log.name
            found = values_of(log)
            written = model.written[name]
            assert found == written[: len(found)], f"{name} holds what was not written so"
            assert len(found) >= model.acknowledged[name], f"{name} has lost what was acknowledged"
            if model is self.model:
                del written[len(found) :]


def values_of(log: SegmentLog) -> list[bytes]:
    """The value of every record."""
    return [
        record.value or b""
        for header, chunk, at in log.batches()
        for record in read_records(header, chunk, at)
    ]


def play(seed: int, policy: FlushPolicy = FlushPolicy.COMMIT) -> Story:
    """The story of a seed. Raises AssertionError, CorruptLog where something was lost."""
    story = Story(seed, policy)
    asyncio.run(story.play())
    return story

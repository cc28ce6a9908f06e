"""The users of the storage: a tenure of a partition as the runtime has it, a topic partition."""

import asyncio
from typing import TYPE_CHECKING

from coordinator_protocol.batch import batches
from coordinator_protocol.batch_builder import NewBatch
from coordinator_protocol.batch_records import read_records
from coordinator_server.storage.base import CorruptLog, Fenced
from coordinator_server.storage.base import append as append_and_wait
from coordinator_server.storage.segments.flusher import FlushPolicy
from coordinator_server.storage.segments.log import SegmentLog
from tests.simulation.storage.ledger import Batch, Found, Given, Ledger
from tests.simulation.storage.scheduler import Failure

if TYPE_CHECKING:
    from coordinator_server.storage.segments.storage import SegmentPartitionLog
    from tests.simulation.storage.process import Process

PATIENCE_SECONDS = 600.0
"""Virtual time; nothing that is answered at all takes as long."""


def read_all(log: SegmentLog) -> list[Found]:
    """Every record of a log."""
    return [
        Found(record.offset, record.key or b"", record.value)
        for header, chunk, at in log.batches()
        for record in read_records(header, chunk, at)
    ]


def read_some(log: SegmentLog, offset: int, size: int, up_to: int) -> list[Found]:
    """The records of a read."""
    data = log.read(offset, size, up_to)
    first = next(batches(data), None)
    if first is not None and first[1].last_offset < offset:
        raise Failure(
            f"a read from {offset} begins with a batch that ends at {first[1].last_offset}"
        )
    return [
        Found(record.offset, record.key or b"", record.value)
        for at, header in batches(data)
        for record in read_records(header, data, at)
    ]


class Client:
    """The parts that both have in common."""

    def __init__(self, process: "Process", ledger: Ledger) -> None:
        self.process = process
        self.random = process.random
        self.ledger = ledger
        self._loaded = 0
        self._outstanding = 0
        self._all_answered = asyncio.Event()
        self.has_failed = False

    def records(self) -> list[Given]:
        """What is appended next."""
        random = self.random
        many = random.choice([1, 1, 1, 2, 5])
        return [self._record(f"{self.ledger.name}:{self.ledger.end + n}") for n in range(many)]

    def _record(self, name: str) -> Given:
        random = self.random
        key = b"k%d" % random.randrange(self.process.setup.keys)
        number = self.process.ledgers.next_number()
        value = f"{name}#{number}.".encode().ljust(random.choice([30, 30, 200, 700]), b"x")
        return Given(key, None if random.random() < 0.1 else value)

    def noted(self, batch: Batch) -> None:
        """The log took records."""
        self._outstanding += 1
        self._all_answered.clear()
        many = len(batch.records)
        self.process.tell(f"{self.ledger.name}: {many} records appended at {batch.base}")

    def answered(self, ledger: Ledger, batch: Batch, error: BaseException | None) -> None:
        """Somebody was told of a batch."""
        process = self.process
        if ledger is self.ledger:
            self._outstanding -= 1
            if not self._outstanding:
                self._all_answered.set()
        process.tell(f"{ledger.name}: append at {batch.base} answered: {error or 'durable'}")
        if error is not None and ledger is self.ledger:
            self.failed_unasked(error)
        synced = process.setup.policy is FlushPolicy.COMMIT
        try:
            ledger.answered(batch, error, durably=synced)
            if error is None and synced and ledger is self.ledger:
                self._check_durable(ledger, batch)
        except Failure as failure:
            process.scheduler.fail(str(failure))

    def failed_unasked(self, error: BaseException) -> None:
        """Where no operation of the disk fails nothing else may."""
        process = self.process
        if not process.had_failures:
            process.scheduler.fail(f"{self.ledger.name}: failed without a reason: {error!r}", error)

    def _check_durable(self, ledger: Ledger, batch: Batch) -> None:
        for number, record in enumerate(batch.records):
            if record.value is None or ledger.is_superseded(batch.base + number, record.key):
                continue
            if not self.process.disk.has_durably(record.value):
                raise Failure(
                    f"{ledger.name}: offset {batch.base + number} is acknowledged and not on disk"
                )

    async def settled(self) -> None:
        """Wait until all appends are answered."""
        while self._outstanding:
            try:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    await self._all_answered.wait()
            except TimeoutError:
                offsets = self.ledger.unanswered()
                raise Failure(
                    f"{self.ledger.name}: nobody answers the appends at {offsets}"
                ) from None

    def opened(self, log: SegmentLog, found: list[Found]) -> None:
        """The log was opened and read."""
        process = self.process
        is_new_life = self.ledger.life != process.number
        weakly = self.ledger.loses_unsynced if is_new_life else process.had_failures
        self.ledger.life = process.number
        process.tell(f"{self.ledger.name}: opened, it ends at {log.end_offset}")
        self.ledger.opened(
            log.end_offset,
            found,
            weakly=weakly,
            is_new_life=is_new_life,
            cuts_later=process.setup.journal_bytes > 0,
        )

    async def check_read(self, log: SegmentLog) -> None:
        """Read somewhere in a thread."""
        random = self.random
        up_to = self.ledger.answered_end
        offset = random.randint(0, max(up_to, 1))
        size = random.choice([1, 300, 5_000])
        found = await asyncio.to_thread(read_some, log, offset, size, up_to)
        self.process.tell(f"{self.ledger.name}: read from {offset}: {len(found)} records")
        self.ledger.check_read(found, offset, up_to)


class PartitionClient(Client):
    """Claims a partition, appends, and claims it again after failures."""

    def __init__(self, process: "Process", partition: int) -> None:
        super().__init__(process, process.ledgers.of(f"p{partition}", compacts=True))
        self._partition = partition
        self._log: SegmentPartitionLog | None = None

    async def run(self) -> None:
        """Live until the process stops."""
        left = self.process.setup.operations
        while left:
            if self._log is None or self.has_failed:
                await self._open()
            left -= 1
            await self._operate()
        await self.process.finished(self)
        await self.settled()
        if self._log is None or self.has_failed or self._is_failed():
            await self._open()

    def _is_failed(self) -> bool:
        log = self.process.storage.open_log(self._partition)
        return log is None or log.failed is not None

    async def _open(self) -> None:
        for attempt in range(200):
            await self.close()
            if attempt:
                await asyncio.sleep(0.02 * attempt)
            try:
                await self._claim()
            except (OSError, Fenced) as error:
                self.process.tell(f"{self.ledger.name}: could not be opened: {error}")
                self.failed_unasked(error)
            except CorruptLog as error:
                raise Failure(f"{self.ledger.name}: {error}") from error
            else:
                return
        raise Failure(f"{self.ledger.name}: cannot be opened again")

    async def _claim(self) -> None:
        storage = self.process.storage
        self._log = await storage.claim(self._partition)
        async for _ in self._log.load():
            pass
        log = storage.open_log(self._partition)
        assert log is not None
        self.opened(log, read_all(log))
        self.has_failed = False
        await asyncio.wait_for(append_and_wait(self._log, NewBatch(0)), PATIENCE_SECONDS)
        if self.process.setup.policy is FlushPolicy.COMMIT:
            self.ledger.settled()

    async def _operate(self) -> None:
        random = self.random
        choice = random.random()
        log = self.process.storage.open_log(self._partition)
        if choice < 0.55:
            for _ in range(random.choice([1, 1, 2, 4])):
                if not self.has_failed:
                    self._append()
            if random.random() < 0.6:
                await self.settled()
        elif choice < 0.7:
            await asyncio.sleep(random.choice([0, 0.001, 0.01, 0.3]))
        elif choice < 0.9 and log is not None:
            try:
                await self.check_read(log)
            except OSError as error:
                self.process.tell(f"{self.ledger.name}: read failed: {error}")
                self.failed_unasked(error)
                self.has_failed = log.failed is not None
        elif choice < 0.93:
            self.process.tell(f"{self.ledger.name}: the partition is claimed again")
            if random.random() < 0.5:
                self._log = None
            await self._open()
        else:
            await self.settled()

    def _append(self) -> None:
        partition_log = self._log
        log = self.process.storage.open_log(self._partition)
        assert partition_log is not None
        assert log is not None
        records = self.records()
        new = NewBatch(self.process.loop.clock.wall_ms())
        for record in records:
            new.add(record.key, record.value)
        base = log.end_offset
        early: list[int | BaseException] = []
        is_appending = True
        ledger = self.ledger
        batch = ledger.appended(base, records)

        def then(result: int | BaseException) -> None:
            if isinstance(result, BaseException):
                self.has_failed = True
            if is_appending:
                early.append(result)
                return
            error = result if isinstance(result, BaseException) else None
            if error is None and result != batch.end - 1:
                self.process.scheduler.fail(
                    f"{ledger.name}: append at {batch.base} answered with offset {result}"
                )
            self.answered(ledger, batch, error)

        partition_log.append(new, then)
        is_appending = False
        if log.end_offset > base:
            self.noted(batch)
            for result in early:
                then(result)
            return
        ledger.withdrawn(batch)
        if not early:
            raise Failure(f"{ledger.name}: an append was neither taken nor refused")

    async def close(self) -> None:
        """End the tenure."""
        log, self._log = self._log, None
        if log is not None:
            try:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    await log.close()
            except OSError as error:
                if isinstance(error, TimeoutError):
                    raise Failure(f"{self.ledger.name}: the log is never closed") from error
                self.process.tell(f"{self.ledger.name}: close failed: {error}")

    def close_files(self) -> None:
        """Nothing is left open."""

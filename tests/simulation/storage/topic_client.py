"""A client of a topic partition in the simulation of the storage."""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from coordinator_protocol.batch import LogRecord, build_batch, read_header
from coordinator_server.storage.base import CorruptLog
from coordinator_server.storage.segments.log import SegmentLog
from coordinator_server.storage.segments.log_identity import PARTITION_METADATA
from coordinator_server.topics.errors import TopicError
from coordinator_server.topics.partition import TopicPartitionLog
from tests.simulation.storage.clients import Client, read_all
from tests.simulation.storage.scheduler import Failure

if TYPE_CHECKING:
    from tests.simulation.storage.process import Process


class TopicClient(Client):
    """A partition of a topic, which is deleted and made again now and then."""

    def __init__(self, process: "Process", number: int) -> None:
        self._name = f"t{number}"
        super().__init__(process, process.ledgers.of_topic(self._name))
        self._log: SegmentLog | None = None
        self._removals: list[asyncio.Task[None]] = []
        self._make()

    def _make(self) -> None:
        topic_id = self.process.ledgers.topic_id(self._name)
        opening = partial(self._open_log, topic_id)
        self._partition = TopicPartitionLog(opening, self.process.flusher, None)  # type: ignore[arg-type]
        self._log = None

    def _open_log(self, topic_id: str, create: bool) -> SegmentLog | None:
        """As topics.directories.PartitionDirectories; in a thread."""
        process = self.process
        files, path = process.files, process.journal._directory / f"{self._name}-0"
        with process.directories:
            if self._is_marked(path, lambda text: topic_id not in text):
                process.journal.close_previous(path.name)
                process.journal.forget([path.name])
                process.disk.drop_directory(path)
            self._mark(path, topic_id)
            return SegmentLog(
                path,
                files=files,
                segment_bytes=process.setup.segment_bytes,
                journal=process.journal,
            )

    def _is_marked(self, path: Path, matches: Callable[[str], bool]) -> bool:
        """Makes no file where there is none."""
        disk, mark = self.process.disk, path / PARTITION_METADATA

        def text() -> str | None:
            inode = disk.names_now.get(mark)
            return None if inode is None else inode.current.decode()

        found = self.process.files.do("read", mark, text)
        return found is not None and matches(found)

    def _mark(self, path: Path, topic_id: str) -> None:
        files = self.process.files
        files.make_directory(path)
        if PARTITION_METADATA not in files.names(path):
            files.replace(path / PARTITION_METADATA, f"version: 0\ntopic_id: {topic_id}".encode())

    async def run(self) -> None:
        """Live until the process stops."""
        for _ in range(self.process.setup.operations):
            try:
                await self._open()
                await self._operate()
            except TopicError as error:
                self.process.tell(f"{self.ledger.name}: {error}")
                self._check_corruption(error)
                await asyncio.sleep(0.05)
        await self.process.finished(self)
        await self.settled()
        log = self._partition._log
        if log is not None:
            self._partition._drop_if_failed(log)
        await self._open()

    async def _open(self) -> None:
        partition = self._partition
        for attempt in range(200):
            if attempt:
                await asyncio.sleep(0.02 * attempt)
            try:
                await partition.open(create=True)
                log = partition._log
                if log is None or log is self._log:
                    return
                found = await asyncio.to_thread(read_all, log)
            except TopicError as error:
                self.process.tell(f"{self.ledger.name}: could not be opened: {error}")
                self._check_corruption(error)
            except OSError as error:
                self.process.tell(f"{self.ledger.name}: could not be read: {error}")
                if log is not None:
                    partition._drop_if_failed(log)
            except CorruptLog as error:
                raise Failure(f"{self.ledger.name}: {error}") from error
            else:
                self._log = log
                self.opened(log, found)
                return
        raise Failure(f"{self.ledger.name}: cannot be opened again")

    def _check_corruption(self, error: TopicError) -> None:
        if isinstance(error.__cause__, CorruptLog):
            raise Failure(f"{self.ledger.name}: {error.__cause__}")

    async def _operate(self) -> None:
        random = self.random
        choice = random.random()
        log = self._log
        if choice < 0.6:
            for _ in range(random.choice([1, 1, 2, 4])):
                await self._append()
            if random.random() < 0.6:
                await self.settled()
        elif choice < 0.75:
            await asyncio.sleep(random.choice([0, 0.001, 0.01, 0.3]))
        elif choice < 0.9 and log is not None and self._partition._log is log:
            try:
                await self.check_read(log)
            except OSError as error:
                self.process.tell(f"{self.ledger.name}: read failed: {error}")
                self.failed_unasked(error)
                self._partition._drop_if_failed(log)
        else:
            await self._delete()

    async def _append(self) -> None:
        records = self.records()
        now = self.process.loop.clock.wall_ms()
        data = build_batch([LogRecord(r.key, r.value, now) for r in records])
        assert read_header(data).records == len(records)
        log = self._partition._log
        if log is None or log is not self._log:
            return
        ledger = self.ledger
        batch = ledger.appended(log.end_offset, records)
        try:
            appended = await self._partition.append(data)
        except TopicError:
            ledger.withdrawn(batch)
            raise
        if appended.base_offset != batch.base:
            raise Failure(f"{ledger.name}: append at {batch.base} got {appended.base_offset}")
        self.noted(batch)

        def done(durable: "asyncio.Future[None]") -> None:
            self.answered(ledger, batch, durable.exception())

        if appended.durable.done():
            done(appended.durable)
        else:
            appended.durable.add_done_callback(done)

    async def _delete(self) -> None:
        """As topics.service.Topics: the catalog first, then what is open, then the directory."""
        process, partition = self.process, self._partition
        process.tell(f"{self.ledger.name}: the topic is deleted and made again")
        topic_id = process.ledgers.topic_id(self._name)
        process.ledgers.delete_topic(self._name)
        partition.discard()
        self._make()
        self.ledger = process.ledgers.of_topic(self._name)
        self.ledger.life = process.number
        self._outstanding = 0
        self._all_answered = asyncio.Event()
        removal = asyncio.create_task(self._remove(partition, topic_id))
        self._removals.append(removal)
        if self.random.random() < 0.7:
            await asyncio.wait([removal])

    async def _remove(self, partition: TopicPartitionLog, topic_id: str) -> None:
        await partition.wait_closed()
        try:
            await asyncio.to_thread(self._remove_files, partition, topic_id)
        except OSError as error:
            self.process.tell(f"{self._name}: the files of {topic_id} stay: {error}")

    def _remove_files(self, partition: TopicPartitionLog, topic_id: str) -> None:
        process = self.process
        path = process.journal._directory / f"{self._name}-0"
        partition.close_files()
        if self._is_marked(path, lambda text: topic_id in text):
            process.journal.forget([path.name])
        with process.directories:
            if self._is_marked(path, lambda text: topic_id in text):
                process.disk.drop_directory(path)

    async def close(self) -> None:
        """Wait for removals."""
        while self._removals:
            await self._removals.pop()
        await self._partition.wait_closed()

    def close_files(self) -> None:
        """As Topics.close."""
        self._partition.refuse()
        self._partition.close_files()

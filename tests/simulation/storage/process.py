"""One life of the process: the real storage, its clients, and its end."""

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final
from unittest.mock import patch
from uuid import UUID

from coordinator_server.loop.batching import SoonInLoop
from coordinator_server.storage.segments import (
    background,
    journal_file,
    journal_files,
    journal_names,
    unwritten,
)
from coordinator_server.storage.segments.checkpoint import forget_offsets
from coordinator_server.storage.segments.cleaner import Cleaner, CleanerSettings
from coordinator_server.storage.segments.flusher import Flusher, FlushPolicy
from coordinator_server.storage.segments.journal import DEFAULT_BYTES, Journal
from coordinator_server.storage.segments.journal_format import HEADER_BYTES
from coordinator_server.storage.segments.journal_replay import replay_all
from coordinator_server.storage.segments.storage import TOPIC, SegmentStorage
from coordinator_server.topics.catalog_file import to_base64
from tests.simulation.storage.clients import PartitionClient
from tests.simulation.storage.files import SimFiles
from tests.simulation.storage.instrument import scheduled
from tests.simulation.storage.loop import SimLoop
from tests.simulation.storage.primitives import SimLock
from tests.simulation.storage.scheduler import Failure, Scheduler
from tests.simulation.storage.setup import CALM, COMPACTION, CUT, Ending, LifeSetup, Setup
from tests.simulation.storage.topic_client import TopicClient
from tests.support.simulated_disk import SimulatedDisk

if TYPE_CHECKING:
    from tests.simulation.storage.world import Ledgers

DATA: Final = Path("/data")
TOPIC_ID: Final = UUID(int=7)
FIRST_BYTES: Final = HEADER_BYTES + 512
"""Of a file of the journal: frames soon make it grow."""


class HeldDirectory:
    """Implements directory.HeldDirectory."""

    def __init__(self, start: int) -> None:
        self.path = DATA
        self.cluster_id = "simulated"
        self.start = start

    def close(self) -> None:
        pass


class Process:
    """The storage of a server, from its start to its end."""

    def __init__(
        self,
        setup: Setup,
        life: LifeSetup,
        number: int,
        disk: SimulatedDisk,
        ledgers: "Ledgers",
        tell: Callable[[str], None],
    ) -> None:
        self.setup = setup
        self.life = life
        self.random = Random(f"{setup.seed}/{number}")
        self.scheduler = Scheduler(Random(f"{setup.seed}/{number}/threads"), life.preemption)
        self.scheduler.stop_at = life.stop_at
        self.disk = disk
        self.ledgers = ledgers
        self._tell_world = tell
        disk_random = Random(f"{setup.seed}/{number}/disk")
        begins_calm = self.random.random() < 0.8
        weather = CALM if begins_calm else life.weather
        self.files = SimFiles(disk, self.scheduler, disk_random, weather, self.tell)
        self.files.happened = self._happened
        self._trigger_in = self.random.choice([1, 1, 3, 20])
        self.directories = SimLock(self.scheduler)
        """Held while somebody decides for whom a topic's directory is."""
        self.number = number
        self.loop = SimLoop(self.scheduler)
        self.had_failures = bool(life.weather.failing)
        self.ended_cleanly = False
        self.could_start = True

    def tell(self, text: str) -> None:
        self._tell_world(f"{self.number}.{self.scheduler.steps:05d} {text}")

    def _happened(self, what: str, suffix: str) -> None:
        """An operation begins, or fails: the end may be near."""
        if what in {"rename", "remove"}:
            what = {"rename.cleaned": COMPACTION, "remove.log": CUT}.get(what + suffix, what)
        if what == self.life.trigger:
            self._trigger_in -= 1
            if self._trigger_in == 0:
                delay = self.random.randint(0, self.life.delay)
                self.scheduler.stop_at = self.scheduler.steps + 1 + delay

    def report(self, event: str, **fields: object) -> None:
        """A line of the log."""
        self.tell(f"log: {event} {fields}")

    # --- the life ---

    def run(self) -> str:
        """Live; the broken rule, or empty."""
        self.ledgers.process_is_over = False
        with ExitStack() as undo:
            undo.enter_context(scheduled(self.scheduler))
            for module, name, value in (
                (unwritten, "HOLD_BYTES", self.setup.hold_bytes),
                (background, "WRITE_OUT_BYTES", self.setup.write_out_bytes),
                (journal_files, "FIRST_BYTES", FIRST_BYTES),
                (journal_file, "FIRST_BYTES", FIRST_BYTES),
            ):
                undo.enter_context(patch.object(module, name, value))
            main = self.scheduler.spawn("loop", lambda: self.loop.run_main(self._main()))
            main.speed = 1.0
            try:
                self.ended_cleanly = self.scheduler.run(main)
            finally:
                failure = self.scheduler.failure
                self.ledgers.process_is_over = True
                self.scheduler.kill()
                self.loop.kill()
        return failure

    async def _main(self) -> None:
        try:
            await self._start()
        except OSError as error:
            self.tell(f"the process could not start: {error}")
            self.could_start = False
            return
        try:
            await asyncio.gather(*(client.run() for client in self.clients))
            await self._stop()
        except Failure as failure:
            self.scheduler.fail(str(failure))
        self._check_stopped()

    def _sweep(self) -> None:
        """As topics.directories.sweep_deleted."""
        left = self.ledgers.left(self.disk)
        forget_offsets(DATA, {path.name for path in left}, self.files)
        for path in left:
            self.disk.drop_directory(path)

    def _topic_id(self, name: str) -> str | None:
        """As storing.open_journal."""
        return to_base64(TOPIC_ID) if name == TOPIC else self.ledgers.expected_id(name)

    async def _start(self) -> None:
        setup = self.setup
        self.tell(f"the process starts, {setup.policy.value}")
        self._sweep()
        self.journal = Journal(
            DATA,
            capacity=setup.journal_bytes or DEFAULT_BYTES,
            writes=setup.journal_bytes > 0,
            syncs=setup.policy is FlushPolicy.COMMIT,
            topic_ids=self._topic_id,
            boot=self.disk.boot,
            files=self.files,
            report=self.report,
        )
        replay_all(self.journal, DATA, self.report, self.files)
        self.flusher = Flusher(
            setup.policy, 300, self.journal, soon=SoonInLoop(), report=self.report
        )
        self.flusher.unwritten._room_bytes = setup.hold_bytes
        self.storage = SegmentStorage(
            HeldDirectory(self.number + 1),
            self.flusher,
            partitions=setup.partitions,
            segment_bytes=setup.segment_bytes,
            topic_id=TOPIC_ID,
            report=self.report,
            journal=self.journal,
            files=self.files,
        )
        settings = CleanerSettings(
            min_cleanable_ratio=0.1,
            delete_retention_ms=setup.delete_retention_ms,
            backoff_ms=10,
            max_bytes_per_second=1e6,
            min_dirty_bytes=1,
        )
        self.cleaner = Cleaner(
            self.storage.open_logs,
            settings,
            self.loop.clock.wall_ms,
            self.report,
            _ignore,
            files=self.files,
        )
        if setup.cleans:
            self.cleaner.start()
        self.clients: list[PartitionClient | TopicClient] = [
            *(PartitionClient(self, each) for each in range(setup.partitions)),
            *(TopicClient(self, each) for each in range(setup.topics)),
        ]
        self._busy = len(self.clients)
        self._all_finished = asyncio.Event()
        self.files.weather = self.life.weather

    async def finished(self, client: PartitionClient | TopicClient) -> None:
        """A client has done its operations; from the last one on no operation fails."""
        self._busy -= 1
        if not self._busy:
            self.tell("all clients are done, nothing fails any more")
            self.files.weather = CALM
            self._all_finished.set()
        await self._all_finished.wait()

    async def _stop(self) -> None:
        """As App.stop."""
        self.tell("the process stops")
        await self.cleaner.stop()
        # A thread that waits for a slow disk is left behind, with the file that it has open.
        is_cleaner_left = self.cleaner._threads._unfinished > 0
        for client in self.clients:
            await client.close()
        await self.storage.stop()
        if await self.flusher.close(600):
            raise Failure("the flusher gave up, although the disk answers")
        # What a log that failed at the last moment lacks stays in the journal.
        has_failed = any(not log.is_open for log in self.journal.open_logs())
        for client in self.clients:
            client.close_files()
        is_empty = await asyncio.to_thread(self.journal.close)
        self.is_settled = is_empty or has_failed
        if not is_cleaner_left:
            self._check_files()

    def _check_stopped(self) -> None:
        for ledger in self.ledgers.all():
            if offsets := ledger.unanswered():
                self.scheduler.fail(f"{ledger.name}: nobody answered the appends at {offsets}")
        if not self.is_settled:
            self.scheduler.fail("the journal could not be emptied at a clean stop")
        left = journal_names.owners(DATA, self.disk)
        # One that could not be made may be left, and not be removed either.
        if left and not self.had_failures:
            self.scheduler.fail("the journal has files after a clean stop")

    def _check_files(self) -> None:
        if self.files.open_files:
            names = sorted("/".join(path.parts[-2:]) for path in self.files.open_files.values())
            self.scheduler.fail(f"files are open after a clean stop: {', '.join(names)}")

    # --- its end ---

    def disk_after(self) -> SimulatedDisk:
        """The disk as the next life finds it."""
        random = Random(f"{self.setup.seed}/{self.number}/power")
        if self.life.ending is Ending.POWER or (self.ended_cleanly and random.random() < 0.5):
            self.tell("the power is cut")
            return self.disk.lose_power(random)
        self.tell("the process is gone")
        return self.disk.kill()

    @property
    def loses_unsynced(self) -> bool:
        """Whether records may be gone that were acknowledged before they were synced."""
        return self.had_failures or self.life.ending is Ending.POWER


def _ignore(_seconds: float) -> None:
    pass

"""Loss of power under the journal: nothing acknowledged is lost, and each planted fault shows."""

import asyncio
import struct
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from threading import Event

import pytest

from coordinator_server.storage.base import CorruptLog
from coordinator_server.storage.segments import journal_files, journal_format, segment_recovery
from coordinator_server.storage.segments import log as log_module
from coordinator_server.storage.segments.flush_waiter import FlushWaiter
from coordinator_server.storage.segments.flusher import Flusher, FlushPolicy
from coordinator_server.storage.segments.journal import Journal
from coordinator_server.storage.segments.journal_file import JournalFile
from coordinator_server.storage.segments.journal_files import JournalFiles
from coordinator_server.storage.segments.log import SegmentLog
from coordinator_server.storage.segments.segment import Segment
from coordinator_server.storage.segments.segment_writer import SegmentWriter
from tests.storage import journal_stories
from tests.storage.journal_stories import play
from tests.support.simulated_disk import SimulatedBlockFile

pytestmark = pytest.mark.interpreted

SEEDS = 150
SOUND_SEEDS = 40
Plant = Callable[[pytest.MonkeyPatch], None]


@pytest.mark.parametrize("policy", FlushPolicy)
def test_no_story_loses_what_was_acknowledged_under_a_policy(policy: FlushPolicy) -> None:
    snapshots, reports = 0, set()
    for seed in range(SOUND_SEEDS):
        story = play(seed, policy)
        snapshots += len(story.snapshots)
        reports.update(story.reports)
    assert snapshots > 5 * SOUND_SEEDS
    torn = (
        set() if policy is FlushPolicy.COMMIT else {"journal_out_of_reach", "journal_end_skipped"}
    )
    assert {"journal_replayed"} <= reports <= {"journal_replayed", *torn}


def write_is_not_synced(patch: pytest.MonkeyPatch) -> None:
    def write(
        self: SimulatedBlockFile,
        at: int,
        data: bytes,
        *,
        durably: bool = True,
    ) -> None:
        self._inode.change(at, data)
        self._disk.enter("write")

    patch.setattr(SimulatedBlockFile, "write", write)


def reply_comes_before_the_write(patch: pytest.MonkeyPatch) -> None:
    journal_work = Flusher._journal_work

    def reply_first(
        self: Flusher, journal: Journal, waiting: list[FlushWaiter]
    ) -> Callable[[], None] | None:
        work = journal_work(self, journal, waiting)
        if work is None:
            return None
        loop = asyncio.get_running_loop()
        replied = Event()
        loop.call_soon(lambda: self._end_flush(waiting, {}))
        loop.call_soon(replied.set)

        def write_late() -> None:
            assert replied.wait(30)
            work()

        return write_late

    patch.setattr(Flusher, "_journal_work", reply_first)


def recycled_before_segments_are_synced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SegmentLog, "sync_and_note", lambda log: log.end_offset)


def settled_before_segments_are_written(patch: pytest.MonkeyPatch) -> None:
    def sync(writer: SegmentWriter, then: Callable[[int], None] | None = None) -> int:
        for segment in writer._segments.all:
            segment.file.sync()
        end = writer._segments.active.end_offset
        if then is not None:
            then(end)
        return end

    patch.setattr(SegmentWriter, "sync", sync)


def full_segment_is_not_synced(patch: pytest.MonkeyPatch) -> None:
    finish = SegmentWriter._finish_full

    def unsynced(writer: SegmentWriter) -> None:
        with pytest.MonkeyPatch.context() as meanwhile:
            meanwhile.setattr(SegmentWriter, "_sync_dirty", lambda _writer: None)
            finish(writer)

    patch.setattr(SegmentWriter, "_finish_full", unsynced)


def next_file_is_made_first(patch: pytest.MonkeyPatch) -> None:
    finish = SegmentWriter._finish_full

    def made_first(writer: SegmentWriter) -> None:
        if writer._full:
            writer._segments.active.make_file(writer._files)
            writer._write(writer._segments.active)
        finish(writer)

    patch.setattr(SegmentWriter, "_finish_full", made_first)


def readers_do_not_see_what_is_kept_back(patch: pytest.MonkeyPatch) -> None:
    def reading(log: SegmentLog) -> AbstractContextManager[list[Segment]]:
        return nullcontext(log._segments.all)

    patch.setattr(SegmentLog, "_reading", reading)


def gap_is_passed_over(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(segment_recovery, "_position", lambda segment, *_, **__: segment.size)


def torn_batch_before_the_journals_is_kept(patch: pytest.MonkeyPatch) -> None:
    def unchecked(
        segment: Segment, run: journal_format.BatchRun, *_: object, **__: object
    ) -> int | None:
        return segment.position_after(run.offset)

    patch.setattr(segment_recovery, "_position", unchecked)


def journal_is_not_synced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Journal, "sync", lambda _journal: [])


def replay_is_skipped(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(log_module, "restore_from_journal", lambda *_: None)


def stale_generation_is_replayed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(journal_format, "_counts", lambda *_: True)
    # Or a stale frame would have another checksum, too.
    patch.setattr(journal_files, "new_seed", lambda: 0)


def torn_frame_is_replayed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(journal_format, "crc32c", lambda *_: 0)


def new_generation_is_not_written(patch: pytest.MonkeyPatch) -> None:
    begin = JournalFiles.begin_generation

    def only_in_memory(self: JournalFiles, file: JournalFile) -> None:
        with pytest.MonkeyPatch.context() as unwritten:
            if file.generation:
                unwritten.setattr(file.file, "write", lambda *_, **__: None)
            begin(self, file)

    patch.setattr(JournalFiles, "begin_generation", only_in_memory)


def journal_is_emptied_before_logs_are_opened(patch: pytest.MonkeyPatch) -> None:
    def forget(journal: Journal, *_args: object) -> bool:
        for file in journal._journal_files.full:
            file.names.clear()
        return journal.checkpoint()

    patch.setattr(journal_stories, "replay_all", forget)


@pytest.mark.parametrize(
    ("plant", "policy"),
    [
        (write_is_not_synced, FlushPolicy.COMMIT),
        (reply_comes_before_the_write, FlushPolicy.COMMIT),
        (recycled_before_segments_are_synced, FlushPolicy.COMMIT),
        (recycled_before_segments_are_synced, FlushPolicy.OS),
        (settled_before_segments_are_written, FlushPolicy.COMMIT),
        (settled_before_segments_are_written, FlushPolicy.OS),
        (full_segment_is_not_synced, FlushPolicy.COMMIT),
        (next_file_is_made_first, FlushPolicy.COMMIT),
        (readers_do_not_see_what_is_kept_back, FlushPolicy.OS),
        (replay_is_skipped, FlushPolicy.COMMIT),
        (replay_is_skipped, FlushPolicy.OS),
        (stale_generation_is_replayed, FlushPolicy.COMMIT),
        (torn_frame_is_replayed, FlushPolicy.COMMIT),
        (gap_is_passed_over, FlushPolicy.OS),
        (torn_batch_before_the_journals_is_kept, FlushPolicy.OS),
        (journal_is_not_synced, FlushPolicy.INTERVAL),
        (new_generation_is_not_written, FlushPolicy.COMMIT),
        (journal_is_emptied_before_logs_are_opened, FlushPolicy.COMMIT),
    ],
)
def test_a_planted_fault_is_found(
    plant: Plant, policy: FlushPolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    for seed in range(SEEDS):
        try:
            play(seed, policy)
        except (AssertionError, CorruptLog, ValueError, struct.error):
            return
    pytest.fail(f"{plant.__name__}: {SEEDS} stories have not noticed it")

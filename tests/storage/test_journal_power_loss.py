"""Loss of power under the journal: nothing acknowledged is lost, and each planted fault shows."""

import struct
from collections.abc import Callable
from threading import Event

import pytest

from coordinator_server.storage.base import CorruptLog
from coordinator_server.storage.segments import frames
from coordinator_server.storage.segments.flusher import Flusher
from coordinator_server.storage.segments.journal import Journal, JournalFile
from coordinator_server.storage.segments.log import SegmentLog
from tests.storage import journal_stories
from tests.storage.journal_stories import play
from tests.support.power import SimulatedBlockFile

SEEDS = 150
SOUND_SEEDS = 60
Plant = Callable[[pytest.MonkeyPatch], None]


def test_no_story_loses_what_was_acknowledged() -> None:
    snapshots, reports = 0, set()
    for seed in range(SOUND_SEEDS):
        story = play(seed)
        snapshots += len(story.snapshots)
        reports.update(story.reports)
    assert snapshots > 5 * SOUND_SEEDS
    assert reports == {"journal_replayed"}


def write_is_not_synced(patch: pytest.MonkeyPatch) -> None:
    def write(self: SimulatedBlockFile, at: int, data: bytes) -> None:
        self._inode.change(at, data)
        self._disk.enter("write")

    patch.setattr(SimulatedBlockFile, "write", write)


def reply_comes_before_the_write(patch: pytest.MonkeyPatch) -> None:
    def run(self: Flusher) -> None:
        while (job := self._jobs.get()) is not None:
            loop, work = job
            replied = Event()
            loop.call_soon_threadsafe(self._end_pass, {})
            loop.call_soon_threadsafe(replied.set)
            assert replied.wait(30)
            work()

    patch.setattr(Flusher, "_run", run)


def recycled_before_segments_are_synced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SegmentLog, "settle", lambda log: log.end_offset)


def replay_is_skipped(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SegmentLog, "_replay", lambda _log: None)


def stale_generation_is_replayed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(frames, "_counts", lambda *_: True)


def torn_frame_is_replayed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(frames, "crc32c", lambda *_: 0)


def new_generation_is_not_written(patch: pytest.MonkeyPatch) -> None:
    begin = Journal._begin_generation

    def only_in_memory(self: Journal, file: JournalFile) -> None:
        with pytest.MonkeyPatch.context() as unwritten:
            if file.generation:
                unwritten.setattr(file.file, "write", lambda *_: None)
            begin(self, file)

    patch.setattr(Journal, "_begin_generation", only_in_memory)


def journal_is_emptied_before_logs_are_opened(patch: pytest.MonkeyPatch) -> None:
    def forget(journal: Journal, *_args: object) -> bool:
        for file in journal._full:
            file.names.clear()
        return journal.checkpoint()

    patch.setattr(journal_stories, "replay_all", forget)


@pytest.mark.parametrize(
    "plant",
    [
        write_is_not_synced,
        reply_comes_before_the_write,
        recycled_before_segments_are_synced,
        replay_is_skipped,
        stale_generation_is_replayed,
        torn_frame_is_replayed,
        new_generation_is_not_written,
        journal_is_emptied_before_logs_are_opened,
    ],
)
def test_a_planted_fault_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    for seed in range(SEEDS):
        try:
            play(seed)
        except (AssertionError, CorruptLog, ValueError, struct.error):
            return
    pytest.fail(f"{plant.__name__}: {SEEDS} stories have not noticed it")

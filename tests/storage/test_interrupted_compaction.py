"""The renames of a compaction hold against the loss of power, and only with all of their syncs."""

from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from random import Random

import pytest

from coordinator_protocol.batch import read_header
from coordinator_server.storage.base import CorruptLog
from coordinator_server.storage.segments.log import SegmentLog
from tests.support.compacted_logs import (
    DIRECTORY,
    RETENTION_MS,
    PowerLost,
    Step,
    clean,
    open_log,
    simulated_disk,
    state_of,
    write,
)
from tests.support.simulated_disk import SimulatedDisk, SimulatedFile

SEEDS = range(12)


class Forgetful(SimulatedDisk):
    """Leaves out one kind of sync that a compaction makes, and says nothing."""

    def __init__(self, left_out: str) -> None:
        super().__init__()
        self._left_out = left_out
        self._last = ""

    def open(self, path: Path) -> SimulatedFile:
        file = super().open(path)
        if self._left_out == "contents" and path.suffix == ".cleaned":
            file.sync = lambda: None  # type: ignore[method-assign]
        return file

    def rename(self, path: Path, to: Path) -> None:
        super().rename(path, to)
        self._last = to.suffix

    def sync_directory(self, path: Path) -> None:
        if self._last == self._left_out:
            self.enter("sync_directory")
        else:
            super().sync_directory(path)
        self._last = ""


def several_small_segments(disk: SimulatedDisk) -> SegmentLog:
    """A log whose next compaction makes one segment of many, with keys that most of them have."""
    disk.names_now[DIRECTORY.parent] = disk.durable_names[DIRECTORY.parent] = None
    log = open_log(disk)
    steps: list[Step] = [("commit", number % 7, 0) for number in range(70)]
    write(log, [[step] for step in [*steps, ("tombstone", 3, 0), *steps[:2] * 10]])
    log.segment_bytes = 10_000
    return log


def outcomes(left_out: str) -> Iterator[object]:
    """What a start finds when the power is lost at any operation; None is the right thing."""
    for last in count():
        disk = Forgetful(left_out)
        log = several_small_segments(disk)
        state, performed = state_of(log), 0

        def step(_operation: str) -> None:
            nonlocal performed
            if performed == last:  # noqa: B023 - used within this turn only
                raise PowerLost
            performed += 1

        disk.on_operation = step
        ended = False
        with suppress(PowerLost):
            clean(log)
            ended = True
        disk.on_operation = lambda _operation: None
        for seed in SEEDS:
            try:
                found = state_of(open_log(disk.lose_power(Random(seed))))
            except CorruptLog as error:
                yield error
            else:
                yield None if found == state else found
        if ended:
            return


def test_no_loss_of_power_changes_what_a_load_finds() -> None:
    assert [wrong for wrong in outcomes("nothing") if wrong is not None] == []


@pytest.mark.parametrize("left_out", ["contents", ".swap", ".deleted"])
def test_a_sync_that_is_left_out_is_noticed(left_out: str) -> None:
    assert any(wrong is not None for wrong in outcomes(left_out))


def test_an_old_cleaned_file_does_not_undo_a_later_compaction() -> None:
    """Beside it Kafka's rule takes the swap file for half of a split."""
    disk = simulated_disk()
    log = several_small_segments(disk)
    state = state_of(log)
    log.close()
    stale = disk.open(DIRECTORY / "00000000000000000000.log.cleaned")
    stale.append(b"half of something")
    stale.sync()
    disk.sync_directory(DIRECTORY)
    for last in count():
        log = open_log(disk)
        log.segment_bytes = 10_000
        performed = 0

        def step(_operation: str) -> None:
            nonlocal performed
            if performed == last:  # noqa: B023 - used within this turn only
                raise PowerLost
            performed += 1

        disk.on_operation = step
        try:
            clean(log)
            break
        except PowerLost:
            disk.on_operation = lambda _operation: None
        disk = disk.lose_power(Random(last))
        assert state_of(open_log(disk)) == state
    assert state_of(log) == state


def swapped(disk: SimulatedDisk) -> tuple[object, int, Path]:
    """A disk as a kill leaves it right after the first rename: state, segments, the swap file."""
    log = several_small_segments(disk)
    state, segments = state_of(log), len(log.closed_segments())

    def at_swap(operation: str) -> None:
        if operation == "sync_directory":
            raise PowerLost

    disk.on_operation = at_swap
    with suppress(PowerLost):
        clean(log)
    disk.on_operation = lambda _operation: None
    (swap,) = [path for path in disk.names_now if path.suffix == ".swap"]
    return state, segments, swap


def test_a_stale_cleaned_file_behind_a_swap_file_leaves_the_swap_file_in_force() -> None:
    disk = simulated_disk()
    state, segments, swap = swapped(disk)
    disk.open(swap.with_name("00000000000000009999.log.cleaned")).append(b"unfinished")
    log = open_log(disk)
    assert state_of(log) == state
    assert len(log.closed_segments()) < segments
    assert not [path for path in disk.names_now if path.suffix in (".swap", ".cleaned")]


def test_a_stale_cleaned_file_before_a_swap_file_undoes_it_while_the_old_ones_are_there() -> None:
    disk = simulated_disk()
    state, segments, swap = swapped(disk)
    disk.open(swap.with_name("00000000000000000000.log.cleaned")).append(b"unfinished")
    log = open_log(disk)
    assert state_of(log) == state
    assert len(log.closed_segments()) == segments


def test_a_swap_file_that_is_not_whole_stops_the_log_and_is_named() -> None:
    disk = simulated_disk()
    _, _, swap = swapped(disk)
    inode = disk.names_now[swap]
    assert inode is not None
    del inode.current[-5:]
    with pytest.raises(CorruptLog, match=swap.name):
        open_log(disk)


def test_tombstones_keep_their_time_over_interruptions() -> None:
    """The delete horizon is in the batch, so a pass that is repeated does not begin it anew."""
    disk = simulated_disk()
    log = several_small_segments(disk)
    clean(log, 5_000)
    again = open_log(disk)
    clean(again, 5_000 + RETENTION_MS - 1)
    horizons = {
        read_header(chunk, at).base_timestamp
        for header, chunk, at in again.batches()
        if header.attributes & 0x40
    }
    assert horizons == {5_000 + RETENTION_MS}

"""Compaction changes nothing that a load can see, whenever it is interrupted."""

from contextlib import suppress
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator_protocol.batch import build_batch
from coordinator_protocol.history import RebalanceHistoryKey, encode_history_key
from coordinator_protocol.records import OffsetCommitKey, encode_key
from coordinator_server.storage.base import LogRecord
from coordinator_server.storage.segments.compact import CompactionCancelled, compact
from tests.support.compacted_logs import (
    RETENTION_MS,
    NoPace,
    PowerLost,
    Step,
    clean,
    close_while_compacting,
    open_log,
    record,
    records_of,
    simulated_disk,
    state_of,
    write,
)


class GivesUp(NoPace):
    """Abandons after so many steps."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def spend(self, size: int) -> None:
        self.left -= 1
        if self.left < 0:
            raise CompactionCancelled


KEYS = st.integers(0, 4)
COMMIT = st.tuples(st.just("commit"), KEYS, st.just(0))
TOMBSTONE = st.tuples(st.just("tombstone"), KEYS, st.just(0))
PENDING = st.tuples(st.just("pending"), KEYS, st.integers(0, 1))
MARKER = st.tuples(st.sampled_from(["commits", "aborts"]), st.just(0), st.integers(0, 1))
PLAIN = st.lists(st.one_of(COMMIT, TOMBSTONE), min_size=1, max_size=4)
HISTORIES = st.lists(st.one_of(PLAIN, st.lists(st.one_of(PENDING, MARKER), max_size=1)))


@settings(max_examples=150)
@given(HISTORIES, HISTORIES, st.lists(st.integers(0, 3_000), max_size=3))
def test_a_load_sees_the_same_before_and_after(
    before: list[list[Step]], after: list[list[Step]], times: list[int]
) -> None:
    disk = simulated_disk()
    log = open_log(disk)
    for history in (before, after):
        write(log, history)
        state, end = state_of(log), log.end_offset
        full = {found.offset: found for found in records_of(log)}
        for now in [0, *sorted(times)]:
            clean(log, now)
            assert state_of(log) == state
            assert log.end_offset == end
        kept = records_of(log)
        assert [full[found.offset] for found in kept] == kept
        again = open_log(disk)
        assert records_of(again) == kept
        assert again.end_offset == end


@settings(max_examples=150)
@given(HISTORIES, st.integers(0, 60), st.integers(0, 3_000), st.randoms(use_true_random=False))
def test_power_lost_at_any_operation_loses_nothing_and_brings_nothing_back(
    history: list[list[Step]], operations: int, now: int, random: Random
) -> None:
    disk = simulated_disk()
    log = open_log(disk)
    write(log, history * 2)
    state, end = state_of(log), log.end_offset
    clean(log)
    left = operations

    def count(_operation: str) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise PowerLost

    for _ in range(3):  # the second time within what a start puts right
        disk.on_operation = count
        with suppress(PowerLost):
            clean(log, now)
        disk.on_operation = lambda _operation: None
        disk = disk.lose_power(random)
        left = random.randint(0, 12)
        disk.on_operation = count
        try:
            log = open_log(disk)
        except PowerLost:
            disk.on_operation = lambda _operation: None
            disk = disk.lose_power(random)
        disk.on_operation = lambda _operation: None
        log = open_log(disk)
        assert state_of(log) == state
        assert log.end_offset == end
        assert not [p for p in disk.names_now if p.suffix in (".swap", ".cleaned", ".deleted")]
        left = random.randint(0, 60)


COMMITS: list[list[Step]] = [[("commit", number % 5, 0)] for number in range(60)]


def test_every_operation_of_a_compaction_may_be_the_last() -> None:
    deleted: list[list[Step]] = [[("tombstone", key, 0)] for key in range(5)]
    alive: list[list[Step]] = [[("commit", key, 0)] for key in (5, 6, 7, 8)]
    history = [*alive, *COMMITS, *deleted, *([[("commit", 9, 0)]] * 20)]
    performed: list[str] = []
    for last in range(10_000):
        disk = simulated_disk()
        log = open_log(disk)
        write(log, history)
        clean(log)
        write(log, [[("commit", 9, 0)]] * 20)
        state = state_of(log)
        performed.clear()

        def count(operation: str) -> None:
            if len(performed) == last:  # noqa: B023 - used within this turn only
                raise PowerLost
            performed.append(operation)

        disk.on_operation = count
        try:
            clean(log, RETENTION_MS + 1)
            break
        except PowerLost:
            disk.on_operation = lambda _operation: None
        for seed in range(6):
            assert state_of(open_log(disk.lose_power(Random(seed)))) == state
        assert state_of(open_log(disk)) == state
    assert {"append", "sync", "rename", "sync_directory", "remove"} <= set(performed)


@pytest.mark.parametrize("operation", ["open", "append", "sync", "rename", "sync_directory"])
def test_an_error_of_the_disk_ends_the_compaction_and_not_the_log(operation: str) -> None:
    for number in range(3):
        disk = simulated_disk()
        log = open_log(disk)
        write(log, COMMITS)
        state = state_of(log)
        seen = 0

        def fail(name: str) -> None:
            nonlocal seen
            seen += name == operation
            if name == operation and seen == number + 1:  # noqa: B023 - used within this turn only
                raise OSError(28, "No space left on device")

        disk.on_operation = fail
        with pytest.raises(OSError, match="No space"):
            clean(log)
        disk.on_operation = lambda _operation: None
        assert state_of(log) == state
        write(log, [[("commit", 1, 0)]])
        assert state_of(open_log(disk)) == state_of(log)
        log.close()


def test_tombstones_stay_for_the_retention_and_then_go() -> None:
    log = open_log(simulated_disk())
    write(log, [[("commit", 0, 0)], [("tombstone", 0, 0)], *([[("commit", 1, 0)]] * 40)])
    deleted = encode_key(OffsetCommitKey("group", "topic", 0))

    def about_it() -> list[bool]:
        return [found.value is None for found in records_of(log) if found.key == deleted]

    clean(log, 5_000)
    assert about_it() == [True]
    clean(log, 5_000 + RETENTION_MS - 1)
    assert about_it() == [True]
    clean(log, 5_000 + RETENTION_MS)
    assert about_it() == []


def test_what_a_transaction_names_stays_as_it_is() -> None:
    log = open_log(simulated_disk())
    write(log, [[("commit", 0, 0)], [("pending", 0, 1)], [("tombstone", 0, 0)]])
    write(log, [[("commits", 0, 1)], *([[("commit", 1, 0)]] * 40)])
    before = records_of(log)
    clean(log)
    clean(log, RETENTION_MS * 2)
    after = records_of(log)
    assert after[:4] == before[:4]
    assert len(after) < len(before)


def test_records_without_a_key_or_of_unknown_types_are_kept_by_key() -> None:
    log = open_log(simulated_disk())
    for number in range(40):
        log.append(build_batch([LogRecord(None, b"%d" % number, 1)]))
        log.append(build_batch([LogRecord(b"\0\x63unknown", b"%d" % number, 1)]))
    log.sync()
    clean(log)
    found = records_of(log)
    assert len([each for each in found if each.key is None]) == 40
    assert [each for each in found if each.key][-1].value == b"39"
    assert len(found) < 60


def test_the_end_of_every_segment_can_be_read_from_its_file() -> None:
    log = open_log(simulated_disk())
    write(log, COMMITS)
    clean(log)
    for segment, following in pairwise([*log.closed_segments(), log._segments.active]):
        *_, (_, last, _, _) = segment.walk()
        assert last.last_offset + 1 == following.base_offset


def test_a_reader_goes_on_over_a_compaction() -> None:
    log = open_log(simulated_disk())
    write(log, COMMITS)
    everything = records_of(log)
    batches = log.batches()
    found = [next(batches)]
    clean(log)
    found += batches
    assert [header.base_offset for header, _, _ in found] == [each.offset for each in everything]
    assert log._segments._replaced == []


@pytest.mark.parametrize("steps", [0, 1, 50, 70, 100])
def test_an_abandoned_compaction_leaves_nothing_behind(steps: int) -> None:
    disk = simulated_disk()
    log = open_log(disk)
    write(log, COMMITS)
    state = state_of(log)
    with pytest.raises(CompactionCancelled):
        compact(log, throttle=GivesUp(steps), wall_ms=lambda: 0, delete_retention_ms=RETENTION_MS)
    assert state_of(log) == state
    assert not [path for path in disk.names_now if path.suffix == ".cleaned"]


def test_a_log_is_closed_only_when_its_compaction_has_given_up() -> None:
    log = open_log(simulated_disk())
    write(log, COMMITS)
    assert close_while_compacting(log) == ["compaction", "closed"]


def test_a_pass_ends_behind_the_segment_with_too_many_keys_and_the_next_goes_on() -> None:
    log = open_log(simulated_disk())
    write(log, COMMITS)
    state = state_of(log)
    closed = log.dirty_bytes
    left = []
    while log.dirty_bytes:
        compact(
            log,
            throttle=NoPace(),
            wall_ms=lambda: 0,
            delete_retention_ms=RETENTION_MS,
            max_keys=1,
        )
        left.append(log.dirty_bytes)
    assert closed > left[0] > left[1]
    assert state_of(log) == state


def test_the_last_batch_of_a_producer_stays_even_if_nothing_of_it_does() -> None:
    """A broker reads the producer's last sequence number from it (kafka.log.Cleaner)."""
    log = open_log(simulated_disk())
    for number in range(30):
        made = record(("commit", 0, 0), number)
        made.producer_id, made.producer_epoch = number % 2, 0
        log.append(build_batch([made]))
    write(log, COMMITS)
    before, state = log.size, state_of(log)
    log.segment_bytes = 100_000  # into one segment: the last batch of each stays too
    clean(log)
    kept = {h.producer_id: h.last_offset for h, _, _ in log.batches() if h.producer_id >= 0}
    assert kept == {0: 28, 1: 29}
    assert sum(h.producer_id >= 0 for h, _, _ in log.batches()) == 2
    assert log.size < before
    assert log.size == sum(header.size for header, _, _ in log.batches())
    assert state_of(log) == state


def test_every_rebalance_of_the_history_stays_until_its_own_tombstone() -> None:
    log = open_log(simulated_disk())
    for number in range(30):
        key = encode_history_key(RebalanceHistoryKey("group", number, 0))
        log.append(build_batch([record(("commit", 0, 0), number), LogRecord(key, b"story", 1)]))
    gone = encode_history_key(RebalanceHistoryKey("group", 3, 0))
    log.append(build_batch([LogRecord(gone, None, 2)]))
    write(log, COMMITS)
    clean(log, 1_000)
    assert sum(found.value == b"story" for found in records_of(log)) == 29
    clean(log, 1_000 + RETENTION_MS)
    assert gone not in [found.key for found in records_of(log)]

"""Writes a day of a busy coordinator's log, byte for byte as coordinator-server would.

600 groups in 50 partitions, 12 of them flapping; the same numbers make the same log.
`python -m benchmarks.pipeline_log DIR [--commits N] [--generations N]`.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from coordinator_protocol import history, records, subscription
from coordinator_protocol.batch import LogRecord, build_batch
from coordinator_protocol.history_writer import encode_history
from coordinator_protocol.java import partition_for
from coordinator_protocol.offset_value import OffsetCommitValue

LOG_PARTITIONS = 50
TOPIC_PARTITIONS = 12
BEGIN_MS = 1_760_000_000_000
DAY_MS = 86_400_000
RECORDS_PER_BATCH = 20
REASONS = ("session_expired", "member_left", "member_joined", "metadata_changed", "static_replaced")


@dataclass(frozen=True)
class Size:
    """How much is written."""

    commits: int = 2_000_000
    generations: int = 100_000
    groups: int = 600
    flapping: int = 12
    """Groups among them that have half of all generations, in bursts."""
    segment_bytes: int = 4 * 1024 * 1024


@dataclass
class Group:
    """A group and what it has come to."""

    name: str
    random: Random
    generation: int = 0
    started: int = 0
    """Members that ever were, for their ids."""
    members: list[str] = field(default_factory=list)
    offsets: list[int] = field(default_factory=lambda: [0] * TOPIC_PARTITIONS)

    @property
    def topic(self) -> str:
        """Groups share a few topics."""
        return f"topic-{len(self.name) + int(self.name[-1])}"

    def commit(self, at: int) -> LogRecord:
        """The commit of one partition."""
        partition = self.random.randrange(TOPIC_PARTITIONS)
        self.offsets[partition] += self.random.randrange(500)
        key = records.OffsetCommitKey(self.name, self.topic, partition)
        value = OffsetCommitValue(self.offsets[partition], 4, "", at)
        return LogRecord(records.encode_key(key), records.encode_value(value), at)

    def rebalance(self, at: int) -> list[LogRecord]:
        """One member goes or comes, and the group has a new generation."""
        leaves = len(self.members) >= 4 or (len(self.members) > 1 and self.random.random() < 0.5)
        culprit = self.members.pop(0) if leaves else self._start()
        reason = REASONS[self.random.randrange(2)] if leaves else REASONS[2]
        self.generation += 1
        took = self.random.randrange(3, 3_000)
        value = records.GroupMetadataValue(
            "consumer", self.generation, "range", self.members[0], at - 5, self._metadata()
        )
        headers: tuple[tuple[str, bytes], ...] = (
            ("rb.reason", reason.encode()),
            ("rb.member", culprit.encode()),
            ("rb.client", culprit.rsplit("-", 1)[0].encode()),
            ("rb.host", b"/10.0.0.7"),
            ("rb.start", b"%d" % (at - took)),
            ("rb.join_end", b"%d" % (at - 5)),
            ("rb.prev_gen", b"%d" % (self.generation - 1)),
        )
        key = records.encode_key(records.GroupMetadataKey(self.name))
        group = LogRecord(key, records.encode_value(value), at, headers)
        return [group, self._history(at, took, reason, culprit, leaves=leaves)]

    def _history(self, at: int, took: int, reason: str, culprit: str, *, leaves: bool) -> LogRecord:
        """What coordinator-server writes beside the group's record: the rebalance's own."""
        who = history.HistoryMember(culprit, None, culprit.rsplit("-", 1)[0], "/10.0.0.7")
        is_evicted = reason == "session_expired"
        before = len(self.members) + (1 if leaves else -1)
        value = history.RebalanceHistoryValue(
            sequence=self.generation,
            generation_before=self.generation - 1,
            generation_after=self.generation,
            started_ms=at - took,
            ended_ms=at,
            join_phase_ms=max(0, took - 5),
            sync_phase_ms=min(5, took),
            reason=reason,
            outcome="completed",
            state_before="Stable" if before else "Empty",
            culprit=who,
            client_reason=None,
            counts=history.HistoryCounts(
                before, len(self.members), not leaves, leaves and not is_evicted, is_evicted, 0, 1
            ),
            joined=[] if leaves else [who],
            left=[who] if leaves and not is_evicted else [],
            evicted=[who] if is_evicted else [],
            waited_for=[],
            rounds=[history.HistoryRound(reason, who, None)],
        )
        key = history.RebalanceHistoryKey(self.name, self.generation, self.generation)
        return LogRecord(history.encode_history_key(key), encode_history(value), at)

    def _start(self) -> str:
        self.started += 1
        member = f"{self.name}-client-{self.random.randrange(1 << 64):016x}"
        self.members.append(member)
        return member

    def _metadata(self) -> list[records.MemberMetadata]:
        subscribed = subscription.encode_subscription(subscription.Subscription([self.topic]))
        count = len(self.members)
        return [
            records.MemberMetadata(
                member,
                None,
                member.rsplit("-", 1)[0],
                f"/10.0.0.{number}",
                300_000,
                45_000,
                subscribed,
                subscription.encode_assignment(
                    subscription.Assignment({self.topic: range(number, TOPIC_PARTITIONS, count)})
                ),
            )
            for number, member in enumerate(self.members)
        ]


def events(size: Size, partition: int) -> Iterator[LogRecord]:
    """The records of one log partition in the order of their times."""
    names = [f"group-{number:04d}" for number in range(size.groups)]
    times: list[tuple[int, int, bool]] = []
    groups: list[Group] = []
    for number, name in enumerate(names):
        if partition_for(name, LOG_PARTITIONS) != partition:
            continue
        random = Random(number)  # noqa: S311 - the same log every time
        is_flapping = number < size.flapping
        share = size.flapping if is_flapping else size.groups - size.flapping
        generations = size.generations // 2 // share
        span = DAY_MS // 12 if is_flapping else DAY_MS
        times += [(random.randrange(span), len(groups), True) for _ in range(generations)]
        commits = size.commits // size.groups
        times += [(random.randrange(DAY_MS), len(groups), False) for _ in range(commits)]
        groups.append(Group(name, random))
    for at, number, is_rebalance in sorted(times):
        if is_rebalance:
            yield from groups[number].rebalance(BEGIN_MS + at)
        else:
            yield groups[number].commit(BEGIN_MS + at)


def write(directory: Path, size: Size) -> int:
    """Write the log into a new directory; returns how many records it has.

    Raises FileExistsError: the directory is there already.
    """
    directory.mkdir(parents=True)
    return sum(_write_partition(directory, size, number) for number in range(LOG_PARTITIONS))


def _write_partition(directory: Path, size: Size, partition: int) -> int:
    target = directory / f"__consumer_offsets-{partition}"
    target.mkdir()
    offset, segment = 0, bytearray()
    path = target / f"{0:020d}.log"
    batch: list[LogRecord] = []

    def flush() -> None:
        nonlocal offset, path
        if len(segment) > size.segment_bytes:
            path.write_bytes(segment)
            segment.clear()
            path = target / f"{offset:020d}.log"
        segment.extend(build_batch(batch, offset))
        offset += len(batch)
        batch.clear()

    for record in events(size, partition):
        batch.append(record)
        if len(batch) >= RECORDS_PER_BATCH:
            flush()
    if batch:
        flush()
    path.write_bytes(segment)
    return offset


def main() -> None:
    """Write the log and say what was written."""
    parser = argparse.ArgumentParser(description="Write a generated coordinator log.")
    parser.add_argument("directory", type=Path, help="a directory that is not there yet")
    for name in ("commits", "generations", "groups", "flapping", "segment_bytes"):
        option = "--" + name.replace("_", "-")
        parser.add_argument(option, type=int, default=getattr(Size, name))
    given = vars(parser.parse_args())
    directory = given.pop("directory")
    try:
        written = write(directory, Size(**given))
    except FileExistsError:
        raise SystemExit(f"error: {directory}: is there already, expected a new one") from None
    print(f"{written:,} records in {directory}")


if __name__ == "__main__":
    main()

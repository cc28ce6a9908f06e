"""Offsets to commit and fetched ones, one by one: how tests speak of them."""

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

from coordinator_protocol.messages.offset_commit import (
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from coordinator_server.group.effects import Fetched, FetchedOffset, Write, WriteOffsets, unpacked
from coordinator_server.group.events import CommitOffsets


class OffsetToCommit(NamedTuple):
    """One partition of an OffsetCommit."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str | None = ""


def topics_of(offsets: Iterable[OffsetToCommit]) -> list[OffsetCommitRequestTopic]:
    """The same as a request has them."""
    return [
        OffsetCommitRequestTopic(
            name=topic,
            partitions=[
                OffsetCommitRequestPartition(o.partition, o.offset, o.leader_epoch, o.metadata)
                for o in given
            ],
        )
        for topic, given in groupby(offsets, key=lambda offset: offset.topic)
    ]


def offsets_of(event: CommitOffsets) -> list[OffsetToCommit]:
    """What a request asks to commit."""
    return [
        OffsetToCommit(
            topic.name,
            given.partition_index,
            given.committed_offset,
            given.committed_leader_epoch,
            given.committed_metadata,
        )
        for topic in event.topics
        for given in topic.partitions
    ]


def fetched_offsets(result: Fetched) -> Iterator[tuple[str, FetchedOffset]]:
    """What was fetched, with its topic."""
    for topic, offsets in result.topics:
        for partition, found in offsets:
            yield topic, unpacked(partition, found)


def by_place(result: Fetched) -> dict[tuple[str, int], FetchedOffset]:
    """What was fetched, by topic and partition."""
    return {(topic, found.partition): found for topic, found in fetched_offsets(result)}


def one_by_one(writes: Iterable[Write | WriteOffsets]) -> Iterator[Write]:
    """Every record on its own."""
    for write in writes:
        if isinstance(write, WriteOffsets):
            yield from write.writes()
        else:
            yield write

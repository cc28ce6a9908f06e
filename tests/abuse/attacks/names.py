"""Attacks with requests of every API at the limits of their elements."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from coordinator_protocol.messages import (
    create_topics,
    delete_groups,
    delete_topics,
    describe_groups,
    fetch,
    find_coordinator,
    leave_group,
    list_groups,
    list_offsets,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    produce,
    sync_group,
)
from tests.abuse.attack import MEBIBYTE, Attack
from tests.abuse.attacks.memory import together
from tests.abuse.client import Target, frame
from tests.support.mutated_requests import RECORDS

NAMES = 9_000
PARTITIONS = 50_000
TOPICS = 5
"""That have the partitions together."""
CONNECTIONS = 4


def _names() -> list[str]:
    return [f"name-{number:05}" for number in range(NAMES)]


def _split(partitions: int = PARTITIONS) -> Iterable[tuple[str, range]]:
    return [(f"wide-{number}", range(partitions // TOPICS)) for number in range(TOPICS)]


def _metadata(create: bool) -> Any:
    topics = [metadata.MetadataRequestTopic(name=name) for name in _names()]
    return metadata.MetadataRequest(topics=topics, allow_auto_topic_creation=create)


def _offset_fetch_groups() -> Any:
    groups = [
        offset_fetch.OffsetFetchRequestGroup(
            group_id=name,
            topics=[offset_fetch.OffsetFetchRequestTopics(name="observed", partition_indexes=[0])],
        )
        for name in _names()[: NAMES // 2]
    ]
    return offset_fetch.OffsetFetchRequest(groups=groups)


def _offset_fetch_partitions() -> Any:
    topics = [
        offset_fetch.OffsetFetchRequestTopics(name=name, partition_indexes=list(numbers)[:1_900])
        for name, numbers in _split()
    ]
    group = offset_fetch.OffsetFetchRequestGroup(group_id="limits", topics=topics)
    return offset_fetch.OffsetFetchRequest(groups=[group])


def _leave_group() -> Any:
    members = [leave_group.MemberIdentity(member_id=name) for name in _names()]
    return leave_group.LeaveGroupRequest(group_id="observers-0", members=members)


def _create_topics() -> Any:
    topics = [
        create_topics.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        for name in _names()
    ]
    return create_topics.CreateTopicsRequest(topics=topics, timeout_ms=30_000)


def _delete_topics() -> Any:
    return delete_topics.DeleteTopicsRequest(topic_names=_names(), timeout_ms=30_000)


def _offset_commit(partitions: int) -> Any:
    topics = [
        offset_commit.OffsetCommitRequestTopic(
            name=name,
            partitions=[
                offset_commit.OffsetCommitRequestPartition(
                    partition_index=number, committed_offset=1, committed_metadata=""
                )
                for number in numbers
            ],
        )
        for name, numbers in _split(partitions)
    ]
    return offset_commit.OffsetCommitRequest(group_id="limits", member_id="", topics=topics)


def _offset_delete() -> Any:
    topics = [
        offset_delete.OffsetDeleteRequestTopic(
            name=name,
            partitions=[offset_delete.OffsetDeleteRequestPartition(number) for number in numbers],
        )
        for name, numbers in _split()
    ]
    return offset_delete.OffsetDeleteRequest(group_id="limits", topics=topics)


def _list_offsets() -> Any:
    topics = [
        list_offsets.ListOffsetsTopic(
            name=name,
            partitions=[
                list_offsets.ListOffsetsPartition(partition_index=number, timestamp=-1)
                for number in numbers
            ],
        )
        for name, numbers in _split()
    ]
    return list_offsets.ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=topics)


def _produce() -> Any:
    topics = [
        produce.TopicProduceData(
            name=name,
            partition_data=[
                produce.PartitionProduceData(index=number, records=RECORDS)
                for number in list(numbers)[:1_000]
            ],
        )
        for name, numbers in _split()
    ]
    return produce.ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=topics)


def _fetch(partitions: int) -> Any:
    topics = [
        fetch.FetchTopic(
            topic=name,
            partitions=[
                fetch.FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=1 << 20)
                for number in numbers
            ],
        )
        for name, numbers in _split(partitions)
    ]
    return fetch.FetchRequest(max_wait_ms=0, min_bytes=0, isolation_level=0, topics=topics)


def _sync_group() -> Any:
    assignments = [
        sync_group.SyncGroupRequestAssignment(member_id=f"member-{number}", assignment=b"")
        for number in range(PARTITIONS)
    ]
    return sync_group.SyncGroupRequest(
        group_id="observers-0", generation_id=1, member_id="nobody", assignments=assignments
    )


def _repeated(
    key: int, version: int, make: Callable[[], Any], wide: bool
) -> Callable[[Target], None]:
    def run(target: Target) -> None:
        if wide:
            target.create_topics({name: len(numbers) for name, numbers in _split()})
        request = frame(key, version, make())

        def repeat() -> None:
            while target.left:
                # A server that closes the connection is asked over another one.
                with suppress(OSError), target.connect() as connection:
                    while target.left:
                        target.ask(connection, request)

        together([repeat] * CONNECTIONS)

    return run


def _limit(
    api: str, key: int, version: int, make: Callable[[], Any], what: str, *, wide: bool = False
) -> Attack:
    return Attack(
        f"limits-{api}",
        f"4 connections repeat {what}",
        _repeated(key, version, make, wide),
        seconds=5,
        # Topics, offsets and indexes of logs that were created stay.
        keeps_bytes=256 * MEBIBYTE,
    )


def created_and_deleted(target: Target) -> None:
    """Create 9,000 topics and delete them, as often as there is time."""
    create, delete = frame(19, 5, _create_topics()), frame(20, 5, _delete_topics())
    with target.connect() as connection, suppress(OSError):
        while target.left:
            target.ask(connection, create)
            target.ask(connection, delete)


ATTACKS = (
    _limit("metadata", 3, 9, lambda: _metadata(create=False), "Metadata of 9,000 unknown names"),
    _limit("metadata-create", 3, 9, lambda: _metadata(create=True), "Metadata of 9,000 new names"),
    _limit("offset-fetch-groups", 9, 8, _offset_fetch_groups, "OffsetFetch of 4,500 groups"),
    _limit(
        "offset-fetch",
        9,
        8,
        _offset_fetch_partitions,
        "OffsetFetch of 9,500 partitions",
        wide=True,
    ),
    _limit(
        "find-coordinator",
        10,
        4,
        lambda: find_coordinator.FindCoordinatorRequest(key_type=0, coordinator_keys=_names()),
        "FindCoordinator of 9,000 groups",
    ),
    _limit("leave-group", 13, 4, _leave_group, "LeaveGroup of 9,000 members"),
    _limit(
        "describe-groups",
        15,
        5,
        lambda: describe_groups.DescribeGroupsRequest(
            groups=_names(), include_authorized_operations=True
        ),
        "DescribeGroups of 9,000 groups",
    ),
    _limit(
        "delete-groups",
        42,
        2,
        lambda: delete_groups.DeleteGroupsRequest(groups_names=_names()),
        "DeleteGroups of 9,000 groups",
    ),
    _limit(
        "list-groups",
        16,
        4,
        lambda: list_groups.ListGroupsRequest(states_filter=_names() * 5),
        "ListGroups with 45,000 filters",
    ),
    Attack(
        "limits-create-topics",
        "CreateTopics and DeleteTopics of 9,000 names by turns",
        created_and_deleted,
        seconds=12,
        keeps_bytes=256 * MEBIBYTE,
    ),
    _limit(
        "offset-commit",
        8,
        8,
        lambda: _offset_commit(19_000),
        "OffsetCommit of 19,000 partitions",
        wide=True,
    ),
    _limit(
        "offset-commit-beyond",
        8,
        8,
        lambda: _offset_commit(PARTITIONS),
        "OffsetCommit of 50,000 partitions",
        wide=True,
    ),
    _limit("offset-delete", 47, 0, _offset_delete, "OffsetDelete of 50,000 partitions", wide=True),
    _limit("list-offsets", 2, 5, _list_offsets, "ListOffsets of 50,000 partitions", wide=True),
    _limit("produce", 0, 7, _produce, "Produce to 5,000 partitions", wide=True),
    _limit("fetch", 1, 11, lambda: _fetch(19_000), "Fetch of 19,000 partitions", wide=True),
    _limit(
        "fetch-beyond",
        1,
        11,
        lambda: _fetch(PARTITIONS),
        "Fetch of 50,000 partitions",
        wide=True,
    ),
    _limit("sync-group", 14, 3, _sync_group, "SyncGroup with 50,000 assignments"),
)

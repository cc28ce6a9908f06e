"""Reads and changes groups over the Kafka protocol, as `kafka-consumer-groups.sh` does.

The forms have the fields of the HTTP API where both have the same data.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from coordinator_protocol.api_keys import ApiKey
from coordinator_protocol.errors import ErrorCode, Malformed
from coordinator_protocol.messages.delete_groups import DeleteGroupsRequest
from coordinator_protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
)
from coordinator_protocol.messages.list_groups import ListGroupsRequest
from coordinator_protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from coordinator_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from coordinator_protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from coordinator_protocol.messages.offset_fetch import OffsetFetchRequest
from coordinator_protocol.subscription import decode_assignment, subscribed_topics
from coordinator_server.cli.groups.kafka import Broker, KafkaCluster, KafkaProblem, check, name

Form = dict[str, Any]
Partition = tuple[str, int]
"""Topic and number."""

EARLIEST, LATEST = -2, -1
"""Special timestamps of ListOffsets."""

T = TypeVar("T")


class CommittedOffset(NamedTuple):
    """The committed offset of a partition."""

    offset: int
    leader_epoch: int
    metadata: str


def list_groups(cluster: KafkaCluster) -> list[Form]:
    """All groups of all brokers, by name. Raises KafkaProblem."""
    listed = []
    for broker in cluster.brokers():
        answer = cluster.ask(broker, ApiKey.LIST_GROUPS, ListGroupsRequest())
        check(answer.error_code, f"ListGroups of {broker.host}:{broker.port}")
        listed += [
            {
                "group": group.group_id,
                "state": group.group_state,
                "protocol_type": group.protocol_type,
                "coordinator": f"{broker.host}:{broker.port}",
            }
            for group in answer.groups
        ]
    return sorted(listed, key=lambda form: str(form["group"]))


def describe(cluster: KafkaCluster, group: str) -> Form:
    """A group with its members, its offsets and its lag. Raises KafkaProblem."""
    coordinator = cluster.coordinator(group)
    described = _described(cluster, coordinator, group)
    committed = committed_offsets(cluster, group)
    if described.group_state == "Dead" and not committed:
        raise KafkaProblem(f"no group {group!r} at {coordinator.host}:{coordinator.port}")
    members = [_member(member) for member in described.members]
    return {
        "group": group,
        "state": described.group_state,
        "protocol_type": described.protocol_type,
        "protocol": described.protocol_data,
        "coordinator": f"{coordinator.host}:{coordinator.port}",
        "members": members,
        "offsets": _offsets(cluster, committed, members),
    }


def _described(cluster: KafkaCluster, coordinator: Broker, group: str) -> DescribedGroup:
    request = DescribeGroupsRequest(groups=[group])
    found: DescribedGroup = cluster.ask(coordinator, ApiKey.DESCRIBE_GROUPS, request).groups[0]
    if found.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        found.group_state = "Dead"
    else:
        check(found.error_code, f"DescribeGroups of {group!r}")
    return found


def state(cluster: KafkaCluster, group: str) -> str:
    """The state of a group, `Dead` if there is none. Raises KafkaProblem."""
    return _described(cluster, cluster.coordinator(group), group).group_state


def _member(member: DescribedGroupMember) -> Form:
    form: Form = {
        "member_id": member.member_id,
        "group_instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "topics": [],
        "assigned": {},
    }
    try:
        form["topics"] = subscribed_topics(member.member_metadata) if member.member_metadata else []
        assigned = decode_assignment(member.member_assignment).partitions
        form["assigned"] = {topic: sorted(numbers) for topic, numbers in assigned.items()}
    except Malformed:
        # Only consumers use this format; other protocol types have opaque metadata.
        pass
    return form


def _offsets(
    cluster: KafkaCluster, committed: Mapping[Partition, CommittedOffset], members: Iterable[Form]
) -> list[Form]:
    """Every committed or assigned partition, with its end offset and owner."""
    owners = {
        (topic, number): member
        for member in members
        for topic, numbers in member["assigned"].items()
        for number in numbers
    }
    partitions = sorted({*committed, *owners})
    ends = log_offsets(cluster, partitions, LATEST)
    return [
        _offset(each, committed.get(each), ends.get(each), owners.get(each)) for each in partitions
    ]


def _offset(
    partition: Partition, committed: CommittedOffset | None, end: int | None, owner: Form | None
) -> Form:
    offset = None if committed is None else committed.offset
    return {
        "topic": partition[0],
        "partition": partition[1],
        "offset": offset,
        "end_offset": end,
        "lag": None if offset is None or end is None else max(0, end - offset),
        "metadata": None if committed is None else committed.metadata,
        "member_id": owner["member_id"] if owner else None,
        "client_id": owner["client_id"] if owner else None,
        "client_host": owner["client_host"] if owner else None,
    }


def committed_offsets(cluster: KafkaCluster, group: str) -> dict[Partition, CommittedOffset]:
    """The committed offsets of a group. Raises KafkaProblem."""
    request = OffsetFetchRequest(group_id=group, topics=None)
    answer = cluster.ask(cluster.coordinator(group), ApiKey.OFFSET_FETCH, request)
    check(answer.error_code, f"OffsetFetch of {group!r}")
    found = {}
    for topic in answer.topics:
        for each in topic.partitions:
            check(each.error_code, f"OffsetFetch of {topic.name}-{each.partition_index}")
            if each.committed_offset >= 0:
                found[topic.name, each.partition_index] = CommittedOffset(
                    each.committed_offset, each.committed_leader_epoch, each.metadata or ""
                )
    return found


def partitions_of(cluster: KafkaCluster, topics: Sequence[str]) -> dict[str, list[int]]:
    """The partitions of topics. Raises KafkaProblem if there is none of that name."""
    found = {}
    for topic in cluster.metadata(list(topics)).topics:
        check(topic.error_code, f"topic {topic.name!r}")
        found[topic.name or ""] = sorted(each.partition_index for each in topic.partitions)
    return found


def log_offsets(
    cluster: KafkaCluster, partitions: Sequence[Partition], timestamp: int
) -> dict[Partition, int]:
    """An end of the log of every partition that has a leader. Raises KafkaProblem."""
    if not partitions:
        return {}
    found: dict[Partition, int] = {}
    for leader, led in _by_leader(cluster, partitions).items():
        by_topic = _by_topic(
            (topic, ListOffsetsPartition(partition_index=number, timestamp=timestamp))
            for topic, number in led
        )
        request = ListOffsetsRequest(
            replica_id=-1,
            topics=[ListOffsetsTopic(name=t, partitions=asked) for t, asked in by_topic.items()],
        )
        for topic in cluster.ask(leader, ApiKey.LIST_OFFSETS, request).topics:
            for each in topic.partitions:
                if not each.error_code:
                    found[topic.name, each.partition_index] = each.offset
    return found


def _by_leader(
    cluster: KafkaCluster, partitions: Sequence[Partition]
) -> dict[Broker, list[Partition]]:
    wanted = set(partitions)
    metadata = cluster.metadata(sorted({topic for topic, _ in partitions}))
    brokers = {b.node_id: Broker(b.node_id, b.host, b.port) for b in metadata.brokers}
    led: dict[Broker, list[Partition]] = defaultdict(list)
    for topic in metadata.topics:
        for each in topic.partitions:
            partition = topic.name or "", each.partition_index
            if partition in wanted and each.leader_id in brokers:
                led[brokers[each.leader_id]].append(partition)
    return led


def delete_group(cluster: KafkaCluster, group: str) -> str:
    """Delete a group; Kafka's name of the error, NONE for success. Raises KafkaProblem."""
    request = DeleteGroupsRequest(groups_names=[group])
    answer = cluster.ask(cluster.coordinator(group), ApiKey.DELETE_GROUPS, request)
    return name(answer.results[0].error_code)


def delete_offsets(
    cluster: KafkaCluster, group: str, partitions: Iterable[Partition]
) -> dict[Partition, str]:
    """Delete what is committed; Kafka's name of each error, NONE for success.

    Raises KafkaProblem, also if the group as a whole is refused.
    """
    by_topic = _by_topic(
        (topic, OffsetDeleteRequestPartition(partition_index=number))
        for topic, number in partitions
    )
    request = OffsetDeleteRequest(
        group_id=group,
        topics=[OffsetDeleteRequestTopic(name=t, partitions=p) for t, p in by_topic.items()],
    )
    answer = cluster.ask(cluster.coordinator(group), ApiKey.OFFSET_DELETE, request)
    check(answer.error_code, f"OffsetDelete of {group!r}")
    return {
        (topic.name, each.partition_index): name(each.error_code)
        for topic in answer.topics
        for each in topic.partitions
    }


def commit(cluster: KafkaCluster, group: str, offsets: Mapping[Partition, int]) -> None:
    """Commit for a group without members, as a simple consumer. Raises KafkaProblem."""
    by_topic = _by_topic(
        (
            topic,
            OffsetCommitRequestPartition(
                partition_index=number, committed_offset=offset, committed_metadata=""
            ),
        )
        for (topic, number), offset in offsets.items()
    )
    request = OffsetCommitRequest(
        group_id=group,
        member_id="",
        topics=[OffsetCommitRequestTopic(name=t, partitions=p) for t, p in by_topic.items()],
    )
    answer = cluster.ask(cluster.coordinator(group), ApiKey.OFFSET_COMMIT, request)
    for topic in answer.topics:
        for each in topic.partitions:
            check(each.error_code, f"OffsetCommit of {topic.name}-{each.partition_index}")


def _by_topic(asked: Iterable[tuple[str, T]]) -> dict[str, list[T]]:
    """Group parts of a request by topic."""
    by_topic: dict[str, list[T]] = defaultdict(list)
    for topic, of_partition in asked:
        by_topic[topic].append(of_partition)
    return by_topic

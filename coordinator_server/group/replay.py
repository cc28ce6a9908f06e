"""The only writer of a group's durable state: used for every record, at load and at run time.

Durable are the offsets, the history of rebalances, and the group as its last GroupMetadata record
has it. The members and the phase of a rebalance under way are not: as in Kafka they are lost with
the tenure, and after a load the group is what `restore` makes of its record.
"""

from collections.abc import Collection

from coordinator_protocol.commit_template import CommitTemplate
from coordinator_protocol.history import PackedHistory, RebalanceHistoryKey
from coordinator_protocol.offset_value import OffsetCommitValue
from coordinator_protocol.records import GroupMetadataValue, OffsetCommitKey, RecordKey, RecordValue
from coordinator_server.group.classic.kind import ClassicKind
from coordinator_server.group.classic.state import ClassicGroupState, ClassicMember
from coordinator_server.group.group_state import GroupMemory
from coordinator_server.group.interning import text_alike
from coordinator_server.group.rebalance_log import dropped, kept

NO_PRODUCER_ID = -1


def apply(
    group: GroupMemory,
    key: RecordKey,
    value: RecordValue | None,
    producer_id: int = NO_PRODUCER_ID,
    order: int = -1,
    wall: int = -1,
) -> None:
    """Apply one record of the group; `order` is its place in the log.

    Commits of a producer stay pending until its marker. A tombstone of what is not there is
    nothing: compaction may have left it alone. `wall` dates a simple group made by its first
    commit. A group in memory is what it writes down: it applies nothing of that.
    """
    if isinstance(key, OffsetCommitKey):
        if not isinstance(value, OffsetCommitValue):
            group.offsets.remove(key.topic, key.partition)
            return
        if group.kind is None:
            group.kind = ClassicKind(group.group_id, wall)
        if producer_id == NO_PRODUCER_ID:
            group.offsets.put(key.topic, key.partition, value)
        else:
            group.offsets.put_pending(producer_id, order, key.topic, key.partition, value)
    elif isinstance(key, RebalanceHistoryKey):
        if isinstance(value, PackedHistory):
            group.past = kept(group.past, value)
        else:
            group.past = dropped(group.past, key)
    elif value is None:
        group.durable = group.kind = None
    elif isinstance(value, GroupMetadataValue):
        group.durable = value
        if group.kind is None:
            group.kind = ClassicKind(group.group_id, value.current_state_timestamp)


def apply_packed(
    group: GroupMemory, topic: str, values: Collection[tuple[int, bytes]], wall: int = -1
) -> None:
    """`apply` for plain commits of a topic: partitions and values, as in the log."""
    if group.kind is None:
        group.kind = ClassicKind(group.group_id, wall)
    group.offsets.put_packed(topic, values)


def apply_encoded(group: GroupMemory, template: CommitTemplate, encoded: bytes) -> None:
    """`apply` for the records of a repeated commit, of a group that exists."""
    group.offsets.put_encoded(template, encoded)


def end_transaction(group: GroupMemory, producer_id: int, *, commit: bool) -> None:
    """Apply a transaction marker."""
    group.offsets.end_transaction(producer_id, commit=commit)


def restore(group_id: str, value: GroupMetadataValue) -> ClassicKind:
    """The group of a record: Stable with its members, or Empty (Kafka's replay).

    Of each member's protocols only the selected one is in the log.
    """
    group = ClassicKind(group_id, value.current_state_timestamp)
    for written in value.members:
        member = ClassicMember(
            written.member_id,
            written.group_instance_id,
            written.client_id,
            written.client_host,
            # Versions before 1 have no rebalance timeout.
            written.session_timeout if written.rebalance_timeout < 0 else written.rebalance_timeout,
            written.session_timeout,
            [(value.protocol or "", written.subscription)],
            written.assignment,
        )
        group.add(member, value.protocol_type, None)
    group.protocol_type = text_alike(value.protocol_type) or None
    group.protocol_name = None if value.protocol is None else text_alike(value.protocol)
    group.generation = value.generation
    group.leader = (
        value.leader if value.leader in group.members else next(iter(group.members), None)
    )
    if group.members:
        group.state = ClassicGroupState.STABLE
    return group

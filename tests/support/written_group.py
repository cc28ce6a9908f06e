"""Compares a group in memory with its last record, where no rebalance is in progress."""

from dataclasses import replace

from coordinator_protocol.records import GroupMetadataKey, GroupMetadataValue, decode_value
from coordinator_server.group.classic.kind import ClassicKind
from coordinator_server.group.classic.rebalance import group_record
from coordinator_server.group.classic.state import ClassicGroup, ClassicGroupState
from coordinator_server.group.group_state import GroupMemory
from coordinator_server.group.replay import restore
from tests.support.classic import classic_of

_AT_REST = (ClassicGroupState.EMPTY, ClassicGroupState.STABLE)


def is_as_written(group: GroupMemory, written: GroupMetadataValue | None) -> bool:
    """Whether a load would yield the same group; True while members join and sync.

    A record has the time at which its rebalance came to the last phase. A group that has only
    offsets has none.
    """
    if group.kind is None:
        return written is None
    if classic_of(group).state not in _AT_REST:
        return True
    loaded = ClassicKind("", 0) if written is None else restore("", written)
    return _undated(classic_of(group)) == _undated(loaded)


def written_now(group: ClassicGroup) -> GroupMetadataValue:
    """The record value that the group would write now."""
    value = decode_value(GroupMetadataKey(group.group_id), group_record(group))
    assert isinstance(value, GroupMetadataValue)
    return value


def _undated(group: ClassicGroup) -> GroupMetadataValue:
    return replace(written_now(group), current_state_timestamp=0)

"""The classic group under a group id, for tests that look into it."""

from coordinator_server.group.classic.kind import ClassicKind
from coordinator_server.group.group_state import GroupMemory


def classic_or_none(group: GroupMemory) -> ClassicKind | None:
    assert group.kind is None or isinstance(group.kind, ClassicKind)
    return group.kind


def classic_of(group: GroupMemory) -> ClassicKind:
    classic = classic_or_none(group)
    assert classic is not None
    return classic

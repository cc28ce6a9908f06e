"""What is remembered under a group id, for those who read and write it: `machine` is the door."""

from coordinator_server.group.classic.state import ClassicGroup
from coordinator_server.group.offsets import OffsetStore
from coordinator_server.group.past import Past
from protocol.records import GroupMetadataValue


class GroupMemory:
    """What there is under a group id: a classic group, offsets, both or nothing."""

    __slots__ = ("classic", "durable", "group_id", "offsets", "past")
    classic: ClassicGroup | None
    durable: GroupMetadataValue | None
    """The group as its last record has it, from a load until `Loaded` makes the group of it."""
    past: Past
    """The finished rebalances that the log has; it goes with the group."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.classic = self.durable = None
        self.offsets = OffsetStore()
        self.past = ()

    @property
    def is_vacant(self) -> bool:
        """Whether there is nothing under this id that would have to be remembered."""
        return self.classic is None and not self.offsets

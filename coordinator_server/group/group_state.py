"""What is remembered under a group id, for those who read and write it: `machine` is the door."""

from coordinator_protocol.records import GroupMetadataValue
from coordinator_server.group.classic.state import ClassicGroup
from coordinator_server.group.offsets import OffsetStore
from coordinator_server.group.rebalance_log import Past


class GroupMemory:
    """What there is under a group id: a classic group, offsets, both or nothing."""

    __slots__ = ("classic", "durable", "ended_generation", "group_id", "offsets", "past")
    classic: ClassicGroup | None
    durable: GroupMetadataValue | None
    """The group as its last record has it, from a load until `Loaded` makes the group of it."""
    ended_generation: int
    """The last one of the group that has ended, which comes back if the log does not take that."""
    past: Past
    """The finished rebalances that the log has; it goes with the group."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.classic = self.durable = None
        self.ended_generation = 0
        self.offsets = OffsetStore()
        self.past = ()

    @property
    def last_generation(self) -> int:
        """The last one that members may have been told of, as long as nothing is durable."""
        classic = 0 if self.classic is None else self.classic.last_generation
        return max(classic, self.ended_generation)

    @property
    def is_vacant(self) -> bool:
        """Whether there is nothing under this id that would have to be remembered."""
        return self.classic is None and not self.offsets and not self.past

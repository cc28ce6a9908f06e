"""The state under a group id. `Group` decides what changes it, `replay.apply` changes it."""

from coordinator_protocol.records import GroupMetadataValue
from coordinator_server.group.kind import GroupKind
from coordinator_server.group.offsets import OffsetStore
from coordinator_server.group.rebalance_log import Past


class GroupMemory:
    """A group of some kind, committed offsets and past rebalances; any of them may be absent."""

    __slots__ = ("durable", "ended_generation", "group_id", "kind", "offsets", "past")
    kind: GroupKind | None
    """None where no group exists."""
    durable: GroupMetadataValue | None
    """The last record of a classic group, from recovery until `Loaded` restores the group."""
    ended_generation: int
    """The last generation of a removed group, which comes back if the log does not take that."""
    past: Past
    """The finished rebalances in the log; they are removed with the group."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.kind = self.durable = None
        self.ended_generation = 0
        self.offsets = OffsetStore()
        self.past = ()

    @property
    def last_generation(self) -> int:
        """The last generation that a member may know."""
        last = 0 if self.kind is None else self.kind.last_generation
        return max(last, self.ended_generation)

    @property
    def is_vacant(self) -> bool:
        """Whether nothing under this id has to be kept in memory."""
        return self.kind is None and not self.offsets and not self.past

"""The interface of a group kind: all that `Group`, the runtime and the observers need of a group.

A classic group is one kind; a KIP-848 consumer group would be another. Committed offsets and the
history of rebalances belong to the group id and are the same for every kind.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator

from coordinator_server.group.context import Context
from coordinator_server.group.effects import Effects, Refuse
from coordinator_server.group.events import CommitOffsets, Event, Loaded, Token
from coordinator_server.group.purgatory import Purgatory
from coordinator_server.group.rebalance_events import Culprit
from coordinator_server.group.rebalance_log import Past
from coordinator_server.group.status import (
    Census,
    GroupStatus,
    GroupSummary,
    MemberPresence,
    WaitingStatus,
)


class GroupKind(ABC):
    """A group with members. An abstract base class: mypyc calls methods of a Protocol slowly."""

    __slots__ = ("group_id", "purgatory")
    group_id: str
    purgatory: Purgatory
    """The runtime reads its `wake` after every request, as an attribute."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.purgatory = Purgatory()

    # --- events ---

    @abstractmethod
    def handle(self, event: Event, ctx: Context, out: Effects) -> None:
        """Handle an event of this group; offsets, deletion and loading are `Group`'s."""

    @abstractmethod
    def renew(self, member_id: str, instance_id: str | None, generation: int, now: int) -> bool:
        """Accept a request of a member whose only effect is a renewed session.

        False: nothing has changed, and `handle` makes the response.
        """

    @abstractmethod
    def released(self, member_ids: Iterable[str], now: int) -> None:
        """Renew the sessions of members whose held replies have been sent."""

    @abstractmethod
    def loaded(self, event: Loaded, past: Past, ctx: Context, out: Effects) -> None:
        """Begin to serve after recovery: every member gets a full session from now."""

    @abstractmethod
    def abort(self, ctx: Context, out: Effects) -> None:
        """Report a rebalance under way as aborted, because the tenure ends."""

    @abstractmethod
    def take_parked(self) -> list[Token]:
        """Return the tokens of all parked requests and forget them."""

    # --- state ---

    @property
    @abstractmethod
    def last_generation(self) -> int:
        """The last generation or epoch that a member may know."""

    @property
    @abstractmethod
    def has_logged_generation(self) -> bool:
        """Whether the group's records, once durable, contain `last_generation`."""

    @property
    @abstractmethod
    def has_nothing_to_end(self) -> bool:
        """Whether the group has no members and no rebalance under way."""

    @property
    @abstractmethod
    def is_removable(self) -> bool:
        """Whether the group may be removed once it has no offsets left."""

    @abstractmethod
    def broken_rules(self) -> Iterator[str]:
        """Describe the invariants that do not hold; for tests."""

    # --- offsets ---

    @abstractmethod
    def refuse_commit(self, event: CommitOffsets) -> Refuse | None:
        """Return why the sender may not commit offsets, or None."""

    @abstractmethod
    def committed(self, event: CommitOffsets, now: int) -> None:
        """Renew the session of the member whose commit was accepted."""

    @abstractmethod
    def takes_again(self, event: CommitOffsets, now: int) -> bool:
        """Do `refuse_commit` and `committed` in one call; False: refused, nothing has changed."""

    @abstractmethod
    def refuse_unless_empty(self) -> Refuse | None:
        """Return why the group may not be deleted or its offsets reset, or None."""

    @abstractmethod
    def refuse_offset_deletion(self) -> Refuse | None:
        """Return why OffsetDelete is refused for all topics, or None."""

    @abstractmethod
    def topics_in_use(self, topics: Iterable[str]) -> frozenset[str]:
        """Return those of `topics` whose offsets may neither be deleted nor expire."""

    @property
    @abstractmethod
    def offsets_may_expire(self) -> bool:
        """Whether offsets of topics that are not in use may expire now (KIP-211)."""

    @abstractmethod
    def retention_begins(self, commit_ms: int) -> int:
        """Return when the retention of an offset begins, in wall-clock milliseconds."""

    # --- what observers show ---

    @property
    @abstractmethod
    def group_type(self) -> str:
        """The type that ListGroups shows (KIP-848)."""

    @abstractmethod
    def summary(self) -> GroupSummary:
        """Return the group's entry in a list of groups."""

    @abstractmethod
    def status(self) -> GroupStatus:
        """Return the group with its members."""

    @abstractmethod
    def waiting(self, skew: int) -> WaitingStatus:
        """Return whom the group waits for; `skew` is wall-clock minus monotonic milliseconds."""

    @abstractmethod
    def waiting_counts(self) -> dict[str, int]:
        """Return how many members the group waits for, by WAITING_PHASES."""

    @abstractmethod
    def count(self, census: Census) -> None:
        """Add the group and its members to the census."""

    @abstractmethod
    def member_hosts(self) -> Iterator[str]:
        """Yield the client host of every member."""

    @abstractmethod
    def find_member(self, member_id: str) -> Culprit | None:
        """Return how reports name a member, or None if it is not a member."""

    @abstractmethod
    def first_parked(self) -> MemberPresence | None:
        """Return the first member with a parked request, or None."""

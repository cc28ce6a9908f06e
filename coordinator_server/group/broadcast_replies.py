"""Replies to all members at once, each of which is made when it is looked at.

A group may have thousands of members: what answers all of them would be thousands of objects,
made in one turn of the event loop while all other groups wait.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from coordinator_server.group.effects import Joined, JoinedMember, Reply, Synced
from coordinator_server.group.events import Token

FEW: Final = 16
"""So many are made at once: that is less work."""


@dataclass(slots=True, init=False)
class JoinedAll:
    """A join phase has ended: what those who joined are told."""

    tokens: list[Token]
    member_ids: list[str]
    """In the order of the tokens."""
    generation: int
    protocol_type: str | None
    protocol_name: str | None
    leader: str
    members: Sequence[JoinedMember]
    """For the leader."""

    def __init__(
        self,
        tokens: list[Token],
        member_ids: list[str],
        generation: int,
        protocol_type: str | None,
        protocol_name: str | None,
        leader: str,
        members: Sequence[JoinedMember],
    ) -> None:
        self.tokens = tokens
        self.member_ids = member_ids
        self.generation = generation
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.leader = leader
        self.members = members

    def reply(self, number: int) -> Reply:
        """The reply to a member; only the leader hears of the others."""
        member_id, leader = self.member_ids[number], self.leader
        members = self.members if member_id == leader else ()
        kind, name = self.protocol_type, self.protocol_name
        joined = Joined(member_id, self.generation, kind, name, leader, members)
        return Reply(self.tokens[number], joined, member_id)


@dataclass(slots=True, init=False)
class SyncedAll:
    """The leader has assigned: what those are told who wait for that."""

    tokens: list[Token]
    member_ids: list[str]
    """In the order of the tokens, as the assignments."""
    assignments: list[bytes]
    protocol_type: str | None
    protocol_name: str | None

    def __init__(
        self,
        tokens: list[Token],
        member_ids: list[str],
        assignments: list[bytes],
        protocol_type: str | None,
        protocol_name: str | None,
    ) -> None:
        self.tokens = tokens
        self.member_ids = member_ids
        self.assignments = assignments
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name

    def reply(self, number: int) -> Reply:
        """The reply to a member."""
        synced = Synced(self.protocol_type, self.protocol_name, self.assignments[number])
        return Reply(self.tokens[number], synced, self.member_ids[number])


ToAll = JoinedAll | SyncedAll


def replies_to_all(told: ToAll) -> Sequence[Reply]:
    """The replies, in the order of the tokens."""
    numbers = range(len(told.tokens))
    return [told.reply(n) for n in numbers] if len(numbers) <= FEW else Replies(told, numbers)


class Replies(Sequence[Reply]):
    """Some of the replies to all members."""

    __slots__ = ("_numbers", "_told")

    def __init__(self, told: ToAll, numbers: range) -> None:
        self._told = told
        self._numbers = numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def __iter__(self) -> Iterator[Reply]:
        return map(self._told.reply, self._numbers)

    def __getitem__(self, index: Any) -> Any:
        found = self._numbers[index]
        return Replies(self._told, found) if isinstance(found, range) else self._told.reply(found)

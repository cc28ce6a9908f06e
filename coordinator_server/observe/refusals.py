"""The latest refused requests of every group: why a member got an error, and how often."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from coordinator_server.group.rebalance_events import (
    Culprit,
    MemberRemoved,
    Observation,
    Refused,
    RemovalReason,
)

MAX_REFUSALS = 50
"""Kinds of refusals that are kept of a group."""
MAX_GROUPS = 1_000
MAX_REMOVED = 50
"""Members of a group that are remembered after they were removed."""

Place = tuple[str, str, str, str]
"""API, rule, member id and detail: what is equal in these is one refusal that happened again."""

UNKNOWN_MEMBER: Final = "member_unknown"
_SUFFIX: Final = len("-00000000-0000-0000-0000-000000000000")
"""What a member id has after the client id, or the instance id."""


class Removed(NamedTuple):
    """A member that is gone."""

    at_ms: int
    """Wall-clock milliseconds."""
    reason: RemovalReason
    member: Culprit


@dataclass(slots=True)
class Refusal:
    """A refused request, and equal ones that followed."""

    first: Refused
    count: int
    at_ms: int
    """When it was refused last (wall-clock milliseconds); `first.at_ms` is the first time."""
    member: Culprit
    """Who was refused last."""
    detail: str
    """The last one's."""
    removed: Removed | None = None
    """When and why that member was removed from the group, if that is known."""


class Refusals:
    """Refused requests by group, equal ones folded, bounded in both directions."""

    def __init__(
        self,
        wall_ms: Callable[[], int],
        *,
        max_refusals: int = MAX_REFUSALS,
        max_groups: int = MAX_GROUPS,
    ) -> None:
        """Keep `max_refusals` of each of the `max_groups` groups that refused last."""
        self._wall_ms = wall_ms
        self._max_refusals = max_refusals
        self._max_groups = max_groups
        self._groups: OrderedDict[str, OrderedDict[Place, Refusal]] = OrderedDict()
        self._removed: OrderedDict[str, OrderedDict[str, Removed]] = OrderedDict()

    def fold(self, group_id: str, place: Place, at_ms: int) -> bool:
        """Count a refusal if it is known; a flood of equal ones costs no more than this."""
        group = self._groups.get(group_id)
        kind = _kind(place)
        known = None if group is None else group.get(kind)
        if group is None or known is None:
            return False
        known.count += 1
        known.at_ms = at_ms
        group.move_to_end(kind)
        if place[1] == UNKNOWN_MEMBER and known.member.member_id != place[2]:
            known.member, known.detail = Culprit(place[2], None, "", ""), place[3]
            self._explain(group_id, known)
        return True

    def observe(self, observation: Observation) -> None:
        """Remember a refusal, or who is gone; a consumer of the fan-out."""
        match observation:
            case Refused():
                self._refused(observation)
            case MemberRemoved():
                self._member_removed(observation)

    def _refused(self, refused: Refused) -> None:
        group = self._groups.setdefault(refused.group_id, OrderedDict())
        self._groups.move_to_end(refused.group_id)
        refusal = Refusal(refused, 1, refused.at_ms, refused.member, refused.detail)
        if refused.rule == UNKNOWN_MEMBER:
            self._explain(refused.group_id, refusal)
        group[_kind(place_of(refused))] = refusal
        if len(group) > self._max_refusals:
            group.popitem(last=False)
        if len(self._groups) > self._max_groups:
            self._groups.popitem(last=False)

    def _member_removed(self, removed: MemberRemoved) -> None:
        group = self._removed.setdefault(removed.group_id, OrderedDict())
        self._removed.move_to_end(removed.group_id)
        member = removed.member.brief()
        group[member.member_id] = Removed(self._wall_ms(), removed.reason, member)
        if len(group) > MAX_REMOVED:
            group.popitem(last=False)
        if len(self._removed) > self._max_groups:
            self._removed.popitem(last=False)

    def _explain(self, group_id: str, refusal: Refusal) -> None:
        """Only the removal tells client and host of a member that the group does not know."""
        group = self._removed.get(group_id)
        refusal.removed = None if group is None else group.get(refusal.member.member_id)
        if refusal.removed is not None:
            refusal.member = refusal.removed.member

    def of(self, group_id: str) -> list[Refusal]:
        """The refusals of a group, the latest first."""
        return list(reversed(self._groups.get(group_id, OrderedDict()).values()))


def place_of(refused: Refused) -> Place:
    """What makes a refusal equal to another one of its group."""
    member_id = "" if refused.of_all else refused.member.member_id
    return refused.api, refused.rule, member_id, refused.detail


def _kind(place: Place) -> Place:
    """A client that comes back as a new member each time is one who is unknown, not many."""
    api, rule, member_id, _ = place
    return (api, rule, _client_of(member_id), "") if rule == UNKNOWN_MEMBER else place


def _client_of(member_id: str) -> str:
    """A member id without what the server added to the client id to make it."""
    suffix = member_id[-_SUFFIX:]
    is_made_here = len(suffix) == _SUFFIX and suffix[0] == "-" and suffix.count("-") == 5
    return member_id[:-_SUFFIX] if is_made_here else member_id

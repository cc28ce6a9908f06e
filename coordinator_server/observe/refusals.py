"""Keeps the latest refused requests of each group, with their reason and count."""

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
"""Most kinds of refusals of a group."""
MAX_GROUPS = 1_000
MAX_REMOVED = 50
"""Most remembered removed members of a group."""

RefusalKey = tuple[str, str, str, str]
"""API, rule, member id and detail; refusals with the same key are counted together."""

UNKNOWN_MEMBER: Final = "member_unknown"
_SUFFIX: Final = len("-00000000-0000-0000-0000-000000000000")
"""Length of the suffix of a generated member id."""


class Removed(NamedTuple):
    """A removed member."""

    at_ms: int
    """Wall-clock milliseconds."""
    reason: RemovalReason
    member: Culprit


@dataclass(slots=True)
class Refusal:
    """A refused request and equal ones that followed."""

    first: Refused
    count: int
    at_ms: int
    """Time of the last one (wall-clock milliseconds); `first.at_ms` is the first."""
    member: Culprit
    """Sender of the last one."""
    detail: str
    """Detail of the last one."""
    removed: Removed | None = None
    """Removal of that member from the group, if it is known."""


class Refusals:
    """A bounded number of refused requests by group; equal ones share an entry."""

    def __init__(
        self,
        wall_ms: Callable[[], int],
        *,
        max_refusals: int = MAX_REFUSALS,
        max_groups: int = MAX_GROUPS,
    ) -> None:
        """Keep `max_refusals` of each of the `max_groups` groups with the latest refusals."""
        self._wall_ms = wall_ms
        self._max_refusals = max_refusals
        self._max_groups = max_groups
        self._groups: OrderedDict[str, OrderedDict[RefusalKey, Refusal]] = OrderedDict()
        self._removed: OrderedDict[str, OrderedDict[str, Removed]] = OrderedDict()

    def fold(self, group_id: str, place: RefusalKey, at_ms: int) -> bool:
        """Count a refusal if its key is known; return whether it is."""
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
        """Remember a refusal or a removed member; an observer of the fan-out."""
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
        """Add the removal of a member, which has the client and host of an unknown member."""
        group = self._removed.get(group_id)
        refusal.removed = None if group is None else group.get(refusal.member.member_id)
        if refusal.removed is not None:
            refusal.member = refusal.removed.member

    def of(self, group_id: str) -> list[Refusal]:
        """The refusals of a group, the latest first."""
        return list(reversed(self._groups.get(group_id, OrderedDict()).values()))


def place_of(refused: Refused) -> RefusalKey:
    """The key of a refusal."""
    member_id = "" if refused.of_all else refused.member.member_id
    return refused.api, refused.rule, member_id, refused.detail


def _kind(place: RefusalKey) -> RefusalKey:
    """Unknown members of the same client share a key, because they are one returning client."""
    api, rule, member_id, _ = place
    return (api, rule, _client_of(member_id), "") if rule == UNKNOWN_MEMBER else place


def _client_of(member_id: str) -> str:
    """The client id or instance id in a generated member id."""
    suffix = member_id[-_SUFFIX:]
    is_generated = len(suffix) == _SUFFIX and suffix[0] == "-" and suffix.count("-") == 5
    return member_id[:-_SUFFIX] if is_generated else member_id

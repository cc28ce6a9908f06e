"""The latest refused requests of every group: why a member got an error, and how often."""

from collections import OrderedDict
from dataclasses import dataclass

from coordinator_server.group.reasons import Observation, Refused

MAX_REFUSALS = 50
"""Kinds of refusals that are kept of a group."""
MAX_GROUPS = 1_000

Place = tuple[str, str, str, str]
"""API, rule, member id and detail: what is equal in these is one refusal that happened again."""


@dataclass(slots=True)
class Refusal:
    """A refused request, and equal ones that followed."""

    first: Refused
    count: int
    at_ms: int
    """When it was refused last (wall-clock milliseconds); `first.at_ms` is the first time."""


class Refusals:
    """Refused requests by group, equal ones folded, bounded in both directions."""

    def __init__(self, *, max_refusals: int = MAX_REFUSALS, max_groups: int = MAX_GROUPS) -> None:
        """Keep `max_refusals` of each of the `max_groups` groups that refused last."""
        self._max_refusals = max_refusals
        self._max_groups = max_groups
        self._groups: OrderedDict[str, OrderedDict[Place, Refusal]] = OrderedDict()

    def fold(self, group_id: str, place: Place, at_ms: int) -> bool:
        """Count a refusal if it is known; a flood of equal ones costs no more than this."""
        group = self._groups.get(group_id)
        known = None if group is None else group.get(place)
        if group is None or known is None:
            return False
        known.count += 1
        known.at_ms = at_ms
        group.move_to_end(place)
        return True

    def observe(self, observation: Observation) -> None:
        """Remember a refusal; a consumer of the fan-out."""
        if not isinstance(observation, Refused):
            return
        group = self._groups.setdefault(observation.group_id, OrderedDict())
        self._groups.move_to_end(observation.group_id)
        group[place_of(observation)] = Refusal(observation, 1, observation.at_ms)
        if len(group) > self._max_refusals:
            group.popitem(last=False)
        if len(self._groups) > self._max_groups:
            self._groups.popitem(last=False)

    def of(self, group_id: str) -> list[Refusal]:
        """The refusals of a group, the latest first."""
        return list(reversed(self._groups.get(group_id, OrderedDict()).values()))


def place_of(refused: Refused) -> Place:
    """What makes a refusal equal to another one of its group."""
    member_id = "" if refused.of_all else refused.member.member_id
    return refused.api, refused.rule, member_id, refused.detail

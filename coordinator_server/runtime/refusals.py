"""Tells why a request was refused; off the way of requests that succeed.

Equal refusals are folded before anything is made of them, so that a flood of them costs little.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, Protocol

from coordinator_server.group.classic.state import ClassicGroup
from coordinator_server.group.effects import Refuse, Reply, Rule
from coordinator_server.group.events import (
    CommitOffsets,
    DeleteGroup,
    DeleteOffsets,
    Describe,
    Event,
    FetchOffsets,
    ForceRebalance,
    Heartbeat,
    Join,
    KickMember,
    Leave,
    ResetOffsets,
    Sync,
)
from coordinator_server.group.machine import Group
from coordinator_server.group.reasons import Culprit, Observation, Refused
from coordinator_server.ports import Clock

Fold = Callable[[str, tuple[str, str, str, str], int], bool]
"""Counts a refusal if an equal one is known: group, (api, rule, member id, detail), time."""

_APIS: Final[dict[type[Event], str]] = {
    Join: "JoinGroup",
    Sync: "SyncGroup",
    Heartbeat: "Heartbeat",
    Leave: "LeaveGroup",
    CommitOffsets: "OffsetCommit",
    FetchOffsets: "OffsetFetch",
    DeleteOffsets: "OffsetDelete",
    DeleteGroup: "DeleteGroups",
    Describe: "DescribeGroups",
    KickMember: "kick",
    ForceRebalance: "rebalance",
    ResetOffsets: "reset",
}

_STEPS_OF_JOINING: Final = frozenset({Rule.MEMBER_ID_REQUIRED})
"""Answers that are errors in name only: every client gets them on its way in."""

_OF_ALL_MEMBERS: Final = frozenset({Rule.REBALANCE_UNDER_WAY})
"""Told to every member alike: folded into one, which names the first."""


class Ear(Protocol):
    """Where refusals are told: the world of the tenures."""

    @property
    def clock(self) -> Clock:
        """Dates them."""

    @property
    def fold_refusal(self) -> Fold:
        """Counts those that are known."""

    @property
    def observe(self) -> Callable[[Observation], None]:
        """Is told of the others."""


def tell_refusal(group: Group, event: Event, reply: Reply, ear: Ear) -> None:
    """Count a refusal that is known, or tell the observers of a new one."""
    refuse = reply.result
    assert isinstance(refuse, Refuse), "only refusals are told"
    if refuse.rule in _STEPS_OF_JOINING:
        return
    asked, wall = reply.asked, ear.clock.wall_ms()
    api = _APIS.get(type(event), type(event).__name__) if asked is None else asked.api
    member_id = getattr(event, "member_id", "") if asked is None else asked.member.member_id
    of_all = refuse.rule in _OF_ALL_MEMBERS
    detail = _detail(refuse)
    place = (api, refuse.rule, "" if of_all else member_id, detail)
    if ear.fold_refusal(group.group_id, place, wall):
        return
    member = _who(group.classic, event) if asked is None else asked.member
    error = refuse.error.name
    ear.observe(Refused(wall, group.group_id, api, error, refuse.rule, detail, member, of_all))


def _detail(refuse: Refuse) -> str:
    if refuse.since_ms < 0:
        return refuse.detail
    since = datetime.fromtimestamp(refuse.since_ms / 1000, UTC)
    return f"{refuse.detail} since {since.isoformat(timespec='milliseconds')}"


def _who(group: ClassicGroup | None, event: Event) -> Culprit:
    """What is known of who sent a request."""
    member_id = getattr(event, "member_id", "")
    member = None if group is None else group.members.get(member_id)
    if member is not None:
        return member.culprit
    return Culprit(
        member_id,
        getattr(event, "group_instance_id", None),
        getattr(event, "client_id", ""),
        getattr(event, "client_host", ""),
    )

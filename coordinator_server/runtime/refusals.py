"""Tells why a request, or a part of one, was refused; off the way of requests that succeed.

All refusals come by here: those of a group, those inside answers that succeeded, those of the API
before a group is asked, and those of partitions that cannot serve.

Equal refusals are folded before anything is made of them, so that a flood of them costs little.
"""

from collections.abc import Callable
from typing import Final, Protocol

from coordinator_server.clock import Clock, utc
from coordinator_server.group.effects import (
    Committed,
    Deleted,
    Left,
    Refuse,
    Reply,
    Result,
    Rule,
)
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
from coordinator_server.group.group import Group
from coordinator_server.group.kind import GroupKind
from coordinator_server.group.rebalance_events import Culprit, Observation, Refused, brief
from coordinator_server.observe.counters import Counters

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

_NOT_EXPLAINED: Final = frozenset({Rule.MEMBER_ID_REQUIRED, Rule.SHUTTING_DOWN})
"""Errors in name only, which every client gets on its way in; and what nobody can ask for again."""

_OF_ALL_MEMBERS: Final = frozenset(
    {
        Rule.REBALANCE_UNDER_WAY,
        Rule.LOADING,
        Rule.NOT_OWNED,
        Rule.NOT_AVAILABLE,
        Rule.TENURE_ENDED,
        Rule.TIMED_OUT,
    }
)
"""Told to every member alike: folded into one, which names the first."""

_MAX_DETAIL_CHARS: Final = 1_000
"""A detail names what was sent, up to three texts of a client."""


class RefusalSink(Protocol):
    """Receives refused requests for metrics, the log and the timeline."""

    @property
    def counters(self) -> Counters:
        """Counts them by rule."""

    @property
    def clock(self) -> Clock:
        """Dates them."""

    @property
    def fold_refusal(self) -> Fold:
        """Counts a refusal if an equal one is known."""

    @property
    def observe(self) -> Callable[[Observation], None]:
        """Publishes those that are not folded."""


def tell_refused(
    sink: RefusalSink, group_id: str, api: str, refuse: Refuse, member: Culprit
) -> None:
    """Count a refusal and publish it unless an equal one is known."""
    if _is_explained(refuse, sink):
        _explain(sink, group_id, api, refuse, member)


def _is_explained(refuse: Refuse, sink: RefusalSink) -> bool:
    """Count a refusal; whether it is published to the observers."""
    sink.counters.refusals[refuse.rule] += 1
    return refuse.rule not in _NOT_EXPLAINED


def _explain(sink: RefusalSink, group_id: str, api: str, refuse: Refuse, member: Culprit) -> None:
    wall, member = sink.clock.wall_ms(), member.brief()
    of_all = refuse.rule in _OF_ALL_MEMBERS
    detail = brief(_detail(refuse), _MAX_DETAIL_CHARS)
    place = (api, refuse.rule, "" if of_all else member.member_id, detail)
    if not sink.fold_refusal(group_id, place, wall):
        error = refuse.error.name
        sink.observe(Refused(wall, group_id, api, error, refuse.rule, detail, member, of_all))


def report_reply(group: Group, event: Event, reply: Reply, sink: RefusalSink) -> None:
    """Report a request that the group refused, now or while it was parked."""
    refuse, asked = reply.result, reply.asked
    assert isinstance(refuse, Refuse), "only refusals are reported"
    if not _is_explained(refuse, sink):
        return
    if asked is not None:
        _explain(sink, group.group_id, asked.api, refuse, asked.member)
    else:
        _explain(sink, group.group_id, _api(event), refuse, _who(group.kind, event))


def report_partial(
    group: Group, event: Event, result: Left | Committed | Deleted, sink: RefusalSink
) -> None:
    """Report the refused members or partitions of a request that otherwise succeeded."""
    if isinstance(result, Left):
        failed = [each for each in result.members if each.error]
        for each, refuse in zip(failed, result.refused, strict=True):
            member = _known(group.kind, each.member_id, each.group_instance_id)
            tell_refused(sink, group.group_id, _api(event), refuse, member)
        return
    for refuse in result.refused:
        tell_refused(sink, group.group_id, _api(event), refuse, _who(group.kind, event))


def report_unserved(group_id: str, event: Event, result: Result, sink: RefusalSink) -> None:
    """Report a request that its partition refused before the group saw it."""
    if isinstance(result, Refuse) and type(event) in _APIS:
        tell_refused(sink, group_id, _api(event), result, _who(None, event))


def report_parked(group: Group, result: Result, sink: RefusalSink) -> None:
    """Report the end of a tenure to waiting members: the first stands for all of them."""
    parked = None if group.kind is None else group.kind.first_parked()
    if parked is not None and isinstance(result, Refuse):
        tell_refused(sink, group.group_id, parked.api, result, parked.member)


def _api(event: Event) -> str:
    return _APIS.get(type(event), type(event).__name__)


def _detail(refuse: Refuse) -> str:
    if refuse.since_ms < 0:
        return refuse.detail
    since = utc(refuse.since_ms).isoformat(timespec="milliseconds")
    return f"{refuse.detail} since {since}"


def _who(kind: GroupKind | None, event: Event) -> Culprit:
    """The sender of a request, as far as known; for LeaveGroup the first member named."""
    asks = event.members[0] if isinstance(event, Leave) and event.members else event
    return _known(
        kind,
        getattr(asks, "member_id", ""),
        getattr(asks, "group_instance_id", None),
        getattr(asks, "client_id", ""),
        getattr(asks, "client_host", ""),
    )


def _known(
    kind: GroupKind | None, member_id: str, instance_id: str | None, *client: str
) -> Culprit:
    """A member as the group knows it, else as it was named."""
    member = None if kind is None else kind.find_member(member_id)
    if member is not None:
        return member
    client_id, client_host = client or ("", "")
    return Culprit(member_id, instance_id, client_id, client_host)

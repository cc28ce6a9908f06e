"""SyncGroup, Heartbeat and LeaveGroup in every situation."""

from dataclasses import replace
from typing import Final

from coordinator_protocol.errors import ErrorCode
from coordinator_server.group.events import Heartbeat, Leave, Sync
from coordinator_server.group.rebalance_events import RebalanceReason, RemovalReason
from tests.specification.model import (
    NO_JOIN_PHASE,
    NOBODY,
    Answer,
    Row,
    Situation,
    Written,
    alike,
    answered,
    never,
    row,
    same,
)

_E, _R, _S = ErrorCode, RebalanceReason, Situation

_STORY = (Written.GROUP, Written.REBALANCE)
_TOLD = answered(_E.NONE)
_RENEWED = answered(_E.NONE, renews=True)
_UNKNOWN = answered(_E.UNKNOWN_MEMBER_ID)
_FENCED = answered(_E.FENCED_INSTANCE_ID)
_ILLEGAL = answered(_E.ILLEGAL_GENERATION)
_REJOIN = answered(_E.REBALANCE_IN_PROGRESS)
_INCONSISTENT = answered(_E.INCONSISTENT_GROUP_PROTOCOL)
_NO_IDS = never("only a group hands out member ids")

_FENCED_EVERYWHERE = {
    "absent": _UNKNOWN,
    "empty": _UNKNOWN,
    "delayed": _FENCED,
    "preparing": _FENCED,
    "completing": _FENCED,
    "stable": _FENCED,
}
_UNKNOWN_TO_A_GROUP = {
    "absent": _NO_IDS,
    "empty": _UNKNOWN,
    "delayed": _UNKNOWN,
    "preparing": _UNKNOWN,
    "completing": _UNKNOWN,
    "stable": _UNKNOWN,
}

SYNCING: Final[tuple[Row, ...]] = (
    row(
        "sync_leader",
        Sync,
        "the leader, with assignments",
        absent=NOBODY,
        empty=NOBODY,
        delayed=_ILLEGAL,
        preparing=_REJOIN,
        completing=answered(_E.NONE, *_STORY, then=_S.STABLE, releases=_E.NONE, renews=True),
        stable=_TOLD,
    ),
    row(
        "sync_too_large",
        Sync,
        "the leader, with more than the log takes",
        absent=NOBODY,
        empty=NOBODY,
        delayed=_ILLEGAL,
        preparing=_REJOIN,
        completing=answered(
            _E.UNKNOWN_SERVER_ERROR,
            then=_S.PREPARING,
            reason=_R.ASSIGNMENT_APPEND_FAILED,
            releases=_E.UNKNOWN_SERVER_ERROR,
            renews=True,
        ),
        stable=_TOLD,
    ),
    row(
        "sync_follower",
        Sync,
        "a follower",
        absent=NOBODY,
        empty=NOBODY,
        delayed=_ILLEGAL,
        preparing=_REJOIN,
        completing=answered(Answer.PARKED),
        stable=_TOLD,
    ),
    row(
        "sync_waiting",
        Sync,
        "a member that has a request parked",
        absent=NOBODY,
        empty=NOBODY,
        delayed=_ILLEGAL,
        preparing=_ILLEGAL,
        completing=answered(Answer.PARKED, releases=_E.REBALANCE_IN_PROGRESS),
        stable=never("nothing is parked"),
    ),
    alike(
        "sync_other_generation",
        Sync,
        "a follower of another generation",
        absent=NOBODY,
        empty=NOBODY,
        occupied=_ILLEGAL,
    ),
    row(
        "sync_other_protocol",
        Sync,
        "a follower that names another protocol",
        absent=NOBODY,
        empty=NOBODY,
        delayed=_ILLEGAL,
        preparing=_INCONSISTENT,
        completing=_INCONSISTENT,
        stable=_INCONSISTENT,
    ),
    row("sync_pending", Sync, "a member id that was handed out", **_UNKNOWN_TO_A_GROUP),
    same("sync_unknown", Sync, "a member id nobody has", _UNKNOWN),
    row(
        "sync_fenced",
        Sync,
        "a group instance id with a member id that is not its own",
        **_FENCED_EVERYWHERE,
    ),
)

HEARTBEATS: Final[tuple[Row, ...]] = (
    row(
        "heartbeat",
        Heartbeat,
        "a member",
        absent=NOBODY,
        empty=NOBODY,
        delayed=_ILLEGAL,
        preparing=answered(_E.REBALANCE_IN_PROGRESS, renews=True),
        completing=_RENEWED,
        stable=_RENEWED,
    ),
    alike(
        "heartbeat_other_generation",
        Heartbeat,
        "a member of another generation",
        absent=NOBODY,
        empty=NOBODY,
        occupied=_ILLEGAL,
    ),
    row("heartbeat_pending", Heartbeat, "a member id that was handed out", **_UNKNOWN_TO_A_GROUP),
    same("heartbeat_unknown", Heartbeat, "a member id nobody has", _UNKNOWN),
    row(
        "heartbeat_fenced",
        Heartbeat,
        "a group instance id with a member id that is not its own",
        **_FENCED_EVERYWHERE,
    ),
)


_LEFT, _ADMIN = RemovalReason.LEFT, RemovalReason.ADMIN_REMOVED
_GONE = _E.UNKNOWN_MEMBER_ID
"""What requests of a member that is removed are answered."""
_LEAVES = answered(_E.NONE, then=_S.PREPARING, reason=_R.MEMBER_LEFT, removes=_LEFT)
_LEAVES_COMPLETING = replace(_LEAVES, releases=frozenset({_E.REBALANCE_IN_PROGRESS}))

LEAVING: Final[tuple[Row, ...]] = (
    row(
        "leave_follower",
        Leave,
        "a follower",
        absent=NOBODY,
        empty=NOBODY,
        delayed=answered(_E.NONE, reason=_R.MEMBER_LEFT, removes=_LEFT, releases=_GONE),
        preparing=answered(_E.NONE, reason=_R.MEMBER_LEFT, removes=_LEFT),
        completing=_LEAVES_COMPLETING,
        stable=_LEAVES,
    ),
    row(
        "leave_last",
        Leave,
        "the last member that was waited for",
        absent=NOBODY,
        empty=NOBODY,
        delayed=never("the delay waits for nobody"),
        preparing=answered(
            _E.NONE,
            then=_S.COMPLETING,
            reason=_R.MEMBER_LEFT,
            removes=_LEFT,
            releases=_E.NONE,
        ),
        completing=NO_JOIN_PHASE,
        stable=NO_JOIN_PHASE,
    ),
    row(
        "leave_all",
        Leave,
        "all members in one request",
        absent=NOBODY,
        empty=NOBODY,
        delayed=answered(_E.NONE, reason=_R.MEMBER_LEFT, removes=_LEFT, releases=_GONE),
        preparing=answered(
            _E.NONE,
            *_STORY,
            then=_S.EMPTY,
            reason=_R.MEMBER_LEFT,
            removes=_LEFT,
            releases=_GONE,
        ),
        completing=answered(
            _E.NONE,
            *_STORY,
            then=_S.EMPTY,
            reason=_R.MEMBER_LEFT,
            removes=_LEFT,
            releases=_GONE,
        ),
        stable=answered(_E.NONE, *_STORY, then=_S.EMPTY, reason=_R.MEMBER_LEFT, removes=_LEFT),
    ),
    row(
        "leave_by_instance",
        Leave,
        "an administrator removes a static member by its instance id",
        absent=NOBODY,
        empty=NOBODY,
        delayed=answered(_E.NONE, reason=_R.ADMIN_REMOVED, removes=_ADMIN, releases=_GONE),
        preparing=answered(_E.NONE, reason=_R.ADMIN_REMOVED, removes=_ADMIN),
        completing=answered(
            _E.NONE,
            then=_S.PREPARING,
            reason=_R.ADMIN_REMOVED,
            removes=_ADMIN,
            releases=_E.REBALANCE_IN_PROGRESS,
        ),
        stable=answered(_E.NONE, then=_S.PREPARING, reason=_R.ADMIN_REMOVED, removes=_ADMIN),
    ),
    row(
        "leave_pending",
        Leave,
        "a member id that was handed out",
        absent=_NO_IDS,
        empty=answered(_E.NONE, removes=_LEFT),
        delayed=answered(_E.NONE, reason=_R.MEMBER_LEFT, removes=_LEFT),
        preparing=answered(_E.NONE, reason=_R.MEMBER_LEFT, removes=_LEFT),
        completing=_LEAVES_COMPLETING,
        stable=_LEAVES,
    ),
    same("leave_unknown", Leave, "a member id nobody has", _UNKNOWN),
    row(
        "leave_fenced",
        Leave,
        "a group instance id with a member id that is not its own",
        **_FENCED_EVERYWHERE,
    ),
)

"""JoinGroup in every situation."""

from typing import Final

from coordinator_protocol.errors import ErrorCode
from coordinator_server.group.events import Join
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
_PARKED = Answer.PARKED

_PARKED_STILL = answered(_PARKED)
_TOLD = answered(_E.NONE)
_REPEATED = answered(_PARKED, releases=_E.REBALANCE_IN_PROGRESS)
_NEWCOMER = answered(_PARKED, reason=_R.MEMBER_JOINED)
_FIRST = answered(_PARKED, then=_S.DELAYED, reason=_R.MEMBER_JOINED)
_UNKNOWN = answered(_E.UNKNOWN_MEMBER_ID)
_FENCED = answered(_E.FENCED_INSTANCE_ID)
_INCONSISTENT = answered(_E.INCONSISTENT_GROUP_PROTOCOL)
_FULL = answered(_E.GROUP_MAX_SIZE_REACHED)
_ID_REQUIRED = answered(_E.MEMBER_ID_REQUIRED)

_NEWCOMER_COMPLETING = answered(
    _PARKED, then=_S.PREPARING, reason=_R.MEMBER_JOINED, releases=_E.REBALANCE_IN_PROGRESS
)
_NEWCOMER_STABLE = answered(_PARKED, then=_S.PREPARING, reason=_R.MEMBER_JOINED)

JOINING: Final[tuple[Row, ...]] = (
    alike(
        "join_new",
        Join,
        "a new dynamic member, to be given its id first (version 4 and later)",
        absent=answered(_E.MEMBER_ID_REQUIRED, then=_S.EMPTY),
        empty=_ID_REQUIRED,
        occupied=_ID_REQUIRED,
    ),
    row(
        "join_new_old",
        Join,
        "a new dynamic member of before version 4",
        absent=_FIRST,
        empty=_FIRST,
        delayed=_NEWCOMER,
        preparing=_NEWCOMER,
        completing=_NEWCOMER_COMPLETING,
        stable=_NEWCOMER_STABLE,
    ),
    row(
        "join_pending",
        Join,
        "a member id that was handed out",
        absent=never("only a group hands out member ids"),
        empty=_FIRST,
        delayed=_NEWCOMER,
        preparing=_NEWCOMER,
        completing=_NEWCOMER_COMPLETING,
        stable=_NEWCOMER_STABLE,
    ),
    row(
        "join_new_static",
        Join,
        "a new static member",
        absent=_FIRST,
        empty=_FIRST,
        delayed=_NEWCOMER,
        preparing=_NEWCOMER,
        completing=_NEWCOMER_COMPLETING,
        stable=_NEWCOMER_STABLE,
    ),
    alike(
        "join_full",
        Join,
        "a new member, `group.max.size` is reached",
        absent=_FIRST,
        empty=_FIRST,
        occupied=_FULL,
    ),
    row(
        "join_member_full",
        Join,
        "an unchanged follower, as many as `group.max.size` have joined",
        absent=NOBODY,
        empty=NOBODY,
        delayed=_REPEATED,
        preparing=answered(_E.GROUP_MAX_SIZE_REACHED, removes=RemovalReason.OVER_CAPACITY),
        completing=_TOLD,
        stable=_TOLD,
    ),
    alike(
        "join_without_protocols",
        Join,
        "a new member without any protocol",
        absent=answered(_E.INCONSISTENT_GROUP_PROTOCOL, then=_S.EMPTY),
        empty=_INCONSISTENT,
        occupied=_INCONSISTENT,
    ),
    alike(
        "join_inconsistent",
        Join,
        "a new member with protocols that are not the group's",
        absent=_FIRST,
        empty=_FIRST,
        occupied=_INCONSISTENT,
    ),
    same(
        "join_text_too_long",
        Join,
        "a client id that cannot be written down",
        answered(_E.INVALID_REQUEST),
    ),
    same("join_unknown", Join, "a member id nobody has", _UNKNOWN),
    alike(
        "join_pending_static",
        Join,
        "a member id that was handed out, with a group instance id",
        absent=never("only a group hands out member ids"),
        empty=_UNKNOWN,
        occupied=_UNKNOWN,
    ),
    alike(
        "join_fenced",
        Join,
        "a group instance id with a member id that is not its own",
        absent=_UNKNOWN,
        empty=_UNKNOWN,
        occupied=_FENCED,
    ),
    row(
        "join_unchanged",
        Join,
        "a follower, unchanged",
        absent=NOBODY,
        empty=NOBODY,
        delayed=_REPEATED,
        preparing=_PARKED_STILL,
        completing=_TOLD,
        stable=_TOLD,
    ),
    row(
        "join_changed",
        Join,
        "a follower with other metadata",
        absent=NOBODY,
        empty=NOBODY,
        delayed=_REPEATED,
        preparing=_PARKED_STILL,
        completing=answered(
            _PARKED,
            then=_S.PREPARING,
            reason=_R.METADATA_CHANGED,
            releases=_E.REBALANCE_IN_PROGRESS,
        ),
        stable=answered(_PARKED, then=_S.PREPARING, reason=_R.METADATA_CHANGED),
    ),
    row(
        "join_again",
        Join,
        "a follower that subscribes to the same, and owns other partitions",
        absent=NOBODY,
        empty=NOBODY,
        delayed=_REPEATED,
        preparing=_PARKED_STILL,
        completing=answered(
            _PARKED,
            then=_S.PREPARING,
            reason=_R.FOLLOWER_REJOINED,
            releases=_E.REBALANCE_IN_PROGRESS,
        ),
        stable=answered(_PARKED, then=_S.PREPARING, reason=_R.FOLLOWER_REJOINED),
    ),
    row(
        "join_leader",
        Join,
        "the leader, unchanged",
        absent=NOBODY,
        empty=NOBODY,
        delayed=_REPEATED,
        preparing=_PARKED_STILL,
        completing=_TOLD,
        stable=answered(_PARKED, then=_S.PREPARING, reason=_R.LEADER_REJOINED),
    ),
    row(
        "join_leader_again",
        Join,
        "the leader that subscribes to the same, and owns other partitions",
        absent=NOBODY,
        empty=NOBODY,
        delayed=_REPEATED,
        preparing=_PARKED_STILL,
        completing=answered(
            _PARKED,
            then=_S.PREPARING,
            reason=_R.LEADER_REJOINED,
            releases=_E.REBALANCE_IN_PROGRESS,
        ),
        stable=answered(_PARKED, then=_S.PREPARING, reason=_R.LEADER_REJOINED),
    ),
    row(
        "join_leader_changed",
        Join,
        "the leader with other metadata",
        absent=NOBODY,
        empty=NOBODY,
        delayed=_REPEATED,
        preparing=_PARKED_STILL,
        completing=answered(
            _PARKED,
            then=_S.PREPARING,
            reason=_R.METADATA_CHANGED,
            releases=_E.REBALANCE_IN_PROGRESS,
        ),
        stable=answered(_PARKED, then=_S.PREPARING, reason=_R.METADATA_CHANGED),
    ),
    row(
        "join_waiting",
        Join,
        "a member that has a request parked, unchanged",
        absent=NOBODY,
        empty=NOBODY,
        delayed=_REPEATED,
        preparing=_REPEATED,
        completing=_TOLD,
        stable=never("nothing is parked"),
    ),
    row(
        "join_last",
        Join,
        "the last member that was waited for",
        absent=NOBODY,
        empty=NOBODY,
        delayed=never("the delay waits for nobody"),
        preparing=answered(_E.NONE, then=_S.COMPLETING, releases=_E.NONE, renews=True),
        completing=NO_JOIN_PHASE,
        stable=NO_JOIN_PHASE,
    ),
    row(
        "join_returning",
        Join,
        "a static member that was restarted, its vote changes nothing",
        absent=NOBODY,
        empty=NOBODY,
        delayed=answered(
            _PARKED, reason=_R.STATIC_REPLACED, releases=_E.FENCED_INSTANCE_ID, renews=True
        ),
        preparing=answered(_PARKED, reason=_R.STATIC_REPLACED, renews=True),
        completing=answered(
            _PARKED,
            then=_S.PREPARING,
            reason=_R.STATIC_REPLACED,
            releases=_E.REBALANCE_IN_PROGRESS,
            renews=True,
        ),
        stable=answered(_E.NONE, Written.GROUP, renews=True),
    ),
    row(
        "join_returning_changed",
        Join,
        "a static member that was restarted, with it another protocol is elected",
        absent=NOBODY,
        empty=NOBODY,
        delayed=answered(
            _PARKED, reason=_R.STATIC_REPLACED, releases=_E.FENCED_INSTANCE_ID, renews=True
        ),
        preparing=answered(_PARKED, reason=_R.STATIC_REPLACED, renews=True),
        completing=answered(
            _PARKED,
            then=_S.PREPARING,
            reason=_R.STATIC_REPLACED,
            releases=_E.REBALANCE_IN_PROGRESS,
            renews=True,
        ),
        stable=answered(_PARKED, then=_S.PREPARING, reason=_R.STATIC_REPLACED, renews=True),
    ),
)

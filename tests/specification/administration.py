"""KickMember, ForceRebalance and ResetOffsets in every situation."""

from typing import Final

from coordinator_protocol.errors import ErrorCode
from coordinator_server.group.events import ForceRebalance, KickMember, ResetOffsets
from coordinator_server.group.rebalance_events import RebalanceReason, RemovalReason
from tests.specification.model import (
    NOBODY,
    Row,
    Situation,
    Written,
    alike,
    answered,
    never,
    row,
)

_E, _R, _S = ErrorCode, RebalanceReason, Situation

_KICKED, _ADMIN = _R.ADMIN_REMOVED, RemovalReason.ADMIN_REMOVED
_NOT_FOUND = answered(_E.GROUP_ID_NOT_FOUND)
_NOT_EMPTY = answered(_E.NON_EMPTY_GROUP)
_UNKNOWN = answered(_E.UNKNOWN_MEMBER_ID)
_UNDER_WAY = answered(_E.REBALANCE_IN_PROGRESS)
_ANOTHER_ROUND = answered(_E.NONE, reason=_KICKED, removes=_ADMIN)
_WAITED_FOR = answered(_E.NONE, reason=_KICKED, removes=_ADMIN, releases=_E.UNKNOWN_MEMBER_ID)
_REBALANCES = answered(_E.NONE, then=_S.PREPARING, reason=_KICKED, removes=_ADMIN)
_GIVES_UP = answered(
    _E.NONE,
    then=_S.PREPARING,
    reason=_KICKED,
    removes=_ADMIN,
    releases=_E.REBALANCE_IN_PROGRESS,
)

ADMINISTRATION: Final[tuple[Row, ...]] = (
    row(
        "kick_member",
        KickMember,
        "a member",
        absent=NOBODY,
        empty=NOBODY,
        delayed=_WAITED_FOR,
        preparing=_ANOTHER_ROUND,
        completing=_GIVES_UP,
        stable=_REBALANCES,
    ),
    row(
        "kick_instance",
        KickMember,
        "a static member, by its instance id",
        absent=NOBODY,
        empty=NOBODY,
        delayed=_WAITED_FOR,
        preparing=_ANOTHER_ROUND,
        completing=_GIVES_UP,
        stable=_REBALANCES,
    ),
    row(
        "kick_pending",
        KickMember,
        "a member id that was handed out",
        absent=never("only a group hands out member ids"),
        empty=answered(_E.NONE, removes=_ADMIN),
        delayed=_ANOTHER_ROUND,
        preparing=_ANOTHER_ROUND,
        completing=_GIVES_UP,
        stable=_REBALANCES,
    ),
    alike(
        "kick_unknown",
        KickMember,
        "a member id nobody has",
        absent=_NOT_FOUND,
        empty=_UNKNOWN,
        occupied=_UNKNOWN,
    ),
    row(
        "force_rebalance",
        ForceRebalance,
        "of whoever is a member",
        absent=_NOT_FOUND,
        empty=answered(_E.INVALID_REQUEST),
        delayed=_UNDER_WAY,
        preparing=_UNDER_WAY,
        completing=answered(
            _E.NONE,
            then=_S.PREPARING,
            reason=_R.ADMIN_REBALANCE,
            releases=_E.REBALANCE_IN_PROGRESS,
        ),
        stable=answered(_E.NONE, then=_S.PREPARING, reason=_R.ADMIN_REBALANCE),
    ),
    alike(
        "reset_offsets",
        ResetOffsets,
        "of a group without members",
        absent=_NOT_FOUND,
        empty=answered(_E.NONE, Written.OFFSET),
        occupied=_NOT_EMPTY,
    ),
)

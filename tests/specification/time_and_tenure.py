"""Tick, Released and Loaded in every situation."""

from typing import Final

from coordinator_protocol.errors import ErrorCode
from coordinator_server.group.events import Loaded, Released, Tick
from coordinator_server.group.rebalance_events import RebalanceReason, RemovalReason
from tests.specification.model import (
    NO_JOIN_PHASE,
    NOBODY,
    Row,
    Situation,
    alike,
    never,
    row,
    silent,
)

_E, _R, _S, _X = ErrorCode, RebalanceReason, Situation, RemovalReason

_NOTHING = silent()
_RENEWED = silent(renews=True)
_NO_IDS = never("only a group hands out member ids")
_NOBODY_WAITS = never("nothing is parked")
_NOBODY_NEW = never("every member has had an answer")
_NO_ASSIGNMENT = never("no SyncGroup is waited for")

TIME: Final[tuple[Row, ...]] = (
    alike(
        "tick_early",
        Tick,
        "nothing is due",
        absent=_NOTHING,
        empty=_NOTHING,
        occupied=_NOTHING,
    ),
    row(
        "tick_join",
        Tick,
        "the join deadline; only some have joined",
        absent=NOBODY,
        empty=NOBODY,
        delayed=never("all who are members have joined"),
        preparing=silent(then=_S.COMPLETING, removes=_X.JOIN_TIMEOUT, releases=_E.NONE),
        completing=NO_JOIN_PHASE,
        stable=NO_JOIN_PHASE,
    ),
    row(
        "tick_join_nobody",
        Tick,
        "the join deadline; only static members are left, none has joined",
        absent=NOBODY,
        empty=NOBODY,
        delayed=never("all who are members have joined"),
        preparing=silent(removes=_X.JOIN_TIMEOUT),
        completing=NO_JOIN_PHASE,
        stable=NO_JOIN_PHASE,
    ),
    row(
        "tick_delay",
        Tick,
        "the end of the initial delay",
        absent=NOBODY,
        empty=NOBODY,
        delayed=silent(then=_S.COMPLETING, releases=_E.NONE, renews=True),
        preparing=never("this is no initial delay"),
        completing=NO_JOIN_PHASE,
        stable=NO_JOIN_PHASE,
    ),
    row(
        "tick_delay_extended",
        Tick,
        "the end of the initial delay; somebody has come meanwhile",
        absent=NOBODY,
        empty=NOBODY,
        delayed=_NOTHING,
        preparing=never("this is no initial delay"),
        completing=NO_JOIN_PHASE,
        stable=NO_JOIN_PHASE,
    ),
    row(
        "tick_sync",
        Tick,
        "the sync deadline; not all have sent SyncGroup",
        absent=NOBODY,
        empty=NOBODY,
        delayed=_NO_ASSIGNMENT,
        preparing=_NO_ASSIGNMENT,
        completing=silent(
            then=_S.PREPARING,
            reason=_R.SYNC_TIMEOUT,
            removes=_X.SYNC_TIMEOUT,
            releases=_E.REBALANCE_IN_PROGRESS,
        ),
        stable=silent(then=_S.PREPARING, reason=_R.SYNC_TIMEOUT, removes=_X.SYNC_TIMEOUT),
    ),
    row(
        "tick_session",
        Tick,
        "the end of a member's session, nothing of it is parked",
        absent=NOBODY,
        empty=NOBODY,
        delayed=never("something of every member is parked"),
        preparing=silent(reason=_R.SESSION_EXPIRED, removes=_X.SESSION_EXPIRED),
        completing=silent(
            then=_S.PREPARING,
            reason=_R.SESSION_EXPIRED,
            removes=_X.SESSION_EXPIRED,
            releases=_E.REBALANCE_IN_PROGRESS,
        ),
        stable=silent(then=_S.PREPARING, reason=_R.SESSION_EXPIRED, removes=_X.SESSION_EXPIRED),
    ),
    row(
        "tick_session_waiting",
        Tick,
        "the end of the session of a member that has a request parked",
        absent=NOBODY,
        empty=NOBODY,
        delayed=_NOTHING,
        preparing=_NOTHING,
        completing=_NOTHING,
        stable=_NOBODY_WAITS,
    ),
    row(
        "tick_session_last",
        Tick,
        "the end of the session of the last member that was waited for",
        absent=NOBODY,
        empty=NOBODY,
        delayed=never("the delay waits for nobody"),
        preparing=silent(
            then=_S.COMPLETING,
            reason=_R.SESSION_EXPIRED,
            removes=_X.SESSION_EXPIRED,
            releases=_E.NONE,
        ),
        completing=NO_JOIN_PHASE,
        stable=NO_JOIN_PHASE,
    ),
    row(
        "tick_new_member",
        Tick,
        "five minutes without an answer to a member's first JoinGroup",
        absent=NOBODY,
        empty=NOBODY,
        # As in Kafka this ends the delay for those who are left.
        delayed=silent(
            then=_S.COMPLETING,
            reason=_R.SESSION_EXPIRED,
            removes=_X.SESSION_EXPIRED,
            releases=frozenset({_E.UNKNOWN_MEMBER_ID, _E.NONE}),
            renews=True,
        ),
        preparing=silent(
            reason=_R.SESSION_EXPIRED,
            removes=_X.SESSION_EXPIRED,
            releases=_E.UNKNOWN_MEMBER_ID,
        ),
        completing=_NOBODY_NEW,
        stable=_NOBODY_NEW,
    ),
    row(
        "tick_pending",
        Tick,
        "a member id that was handed out is not used",
        absent=_NO_IDS,
        empty=silent(removes=_X.PENDING_EXPIRED),
        # As in Kafka this alone ends the delay before its time.
        delayed=silent(
            then=_S.COMPLETING,
            reason=_R.PENDING_EXPIRED,
            removes=_X.PENDING_EXPIRED,
            releases=_E.NONE,
            renews=True,
        ),
        preparing=silent(reason=_R.PENDING_EXPIRED, removes=_X.PENDING_EXPIRED),
        completing=silent(removes=_X.PENDING_EXPIRED),
        stable=silent(removes=_X.PENDING_EXPIRED),
    ),
    row(
        "tick_pending_last",
        Tick,
        "the same; nobody else was waited for",
        absent=_NO_IDS,
        empty=NO_JOIN_PHASE,
        delayed=never("the delay waits for nobody"),
        preparing=silent(
            then=_S.COMPLETING,
            reason=_R.PENDING_EXPIRED,
            removes=_X.PENDING_EXPIRED,
            releases=_E.NONE,
            renews=True,
        ),
        completing=NO_JOIN_PHASE,
        stable=NO_JOIN_PHASE,
    ),
)

TENURE: Final[tuple[Row, ...]] = (
    row(
        "released",
        Released,
        "a member's answer was held until records were durable",
        absent=_NOTHING,
        empty=_NOTHING,
        delayed=never("nobody has been answered"),
        preparing=_RENEWED,
        completing=_RENEWED,
        stable=_RENEWED,
    ),
    row(
        "loaded",
        Loaded,
        "the log was replayed: the group is what its last record says",
        absent=_NOTHING,
        empty=_NOTHING,
        delayed=silent(then=_S.EMPTY),
        preparing=silent(then=_S.STABLE, renews=True),
        completing=silent(then=_S.STABLE, renews=True),
        stable=_RENEWED,
    ),
    row(
        "loaded_over_capacity",
        Loaded,
        "the same, and the group is larger than `group.max.size`",
        absent=NOBODY,
        empty=NOBODY,
        delayed=never("no record names members"),
        preparing=silent(reason=_R.OVER_CAPACITY, renews=True),
        completing=silent(then=_S.PREPARING, reason=_R.OVER_CAPACITY, renews=True),
        stable=silent(then=_S.PREPARING, reason=_R.OVER_CAPACITY, renews=True),
    ),
)

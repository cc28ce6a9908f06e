"""The trigger of each row of the state table: requests and events sent to a group."""

from collections.abc import Callable
from typing import Final

from coordinator_server.group.events import (
    Describe,
    ExpireOffsets,
    FetchOffsets,
    LeavingMember,
    Released,
    TopicsDeleted,
)
from tests.specification.table import Situation
from tests.support.group_harness import Request, offset
from tests.support.state_table_groups import (
    CHANGED,
    OWNING,
    SUBSCRIBED,
    UNSUBSCRIBED,
    MemberOptions,
    SituationHarness,
)

Trigger = Callable[[SituationHarness], Request | None]

EIGHT_DAYS_MS = 8 * 24 * 60 * 60 * 1000
NEW_MEMBER_MS = 300_000

MEMBER_OPTIONS: Final[dict[str, MemberOptions]] = {
    "delete_other_type": MemberOptions(protocol_type="connect"),
    "tick_session": MemberOptions(follower_session=10_000),
    "tick_session_last": MemberOptions(follower_session=10_000),
    "tick_session_waiting": MemberOptions(follower_session=10_000, waiting_session=10_000),
    "tick_new_member": MemberOptions(waiting_rebalance=900_000, delay=400_000),
    "tick_sync": MemberOptions(follower_syncs=False),
}


# --- JoinGroup ---


def _join_full(harness: SituationHarness) -> Request:
    harness.limit(group_max_size=1)
    return harness.newcomer(known=False).join()


def _join_member_full(harness: SituationHarness) -> Request:
    harness.limit(group_max_size=1)
    return harness.follower.join()


def _join_text_too_long(harness: SituationHarness) -> Request:
    return harness.newcomer().join(client_id="x" * 40_000)


def _join_last(harness: SituationHarness) -> Request:
    harness.others_join()
    return harness.follower.join()


def _join_returning(harness: SituationHarness) -> Request:
    harness.watch(harness.static)
    return harness.static.restarted().join()


def _join_returning_changed(harness: SituationHarness) -> Request:
    harness.watch(harness.static)
    restarted = harness.static.restarted()
    restarted.protocols = [("sticky", b"")]
    return restarted.join()


# --- SyncGroup and Heartbeat ---


def _sync_leader(harness: SituationHarness) -> Request:
    harness.watch(harness.leader)
    return harness.leader.sync({harness.leader: b"l"})


def _sync_too_large(harness: SituationHarness) -> Request:
    harness.limit(max_append_bytes=5_000)
    harness.watch(harness.leader)
    return harness.leader.sync({harness.leader: bytes(5_000)})


# --- LeaveGroup ---


def _leave_last(harness: SituationHarness) -> Request:
    harness.others_join()
    return harness.follower.leave()


def _leave_all(harness: SituationHarness) -> Request:
    members = harness.classic.members.values()
    return harness.driver.leave(*(LeavingMember(m.member_id, m.group_instance_id) for m in members))


# --- offsets ---


def _commit_long_metadata(harness: SituationHarness) -> Request:
    long = offset(9, topic=SUBSCRIBED, metadata="x" * 5_000)
    return harness.follower.commit(long) if harness.has_members else harness.driver.commit(long)


def _commit_too_large(harness: SituationHarness) -> Request:
    harness.limit(max_append_bytes=100)
    return harness.follower.commit() if harness.has_members else harness.driver.commit()


def _fetch_unstable(harness: SituationHarness) -> Request:
    harness.begin_transaction()
    return _fetch(harness, UNSUBSCRIBED, stable=True)


def _fetch(harness: SituationHarness, topic: str, *, stable: bool = False) -> Request:
    request = Request("OffsetFetch")
    harness.driver.send(FetchOffsets(request, [(topic, [0])], stable), request)
    return request


def _describe(harness: SituationHarness) -> Request:
    request = Request("DescribeGroups")
    harness.driver.send(Describe(request), request)
    return request


def _topic_deleted(harness: SituationHarness) -> None:
    harness.driver.handle(TopicsDeleted(frozenset({SUBSCRIBED})))


def _expire_young(harness: SituationHarness) -> None:
    harness.driver.handle(ExpireOffsets())


def _expire_aged(harness: SituationHarness) -> None:
    harness.driver.wall += EIGHT_DAYS_MS
    harness.driver.handle(ExpireOffsets())


def _expire_in_transaction(harness: SituationHarness) -> None:
    harness.begin_transaction()
    _expire_aged(harness)


def _expire_rebalances(harness: SituationHarness) -> None:
    harness.limit(history_retention_ms=1)
    harness.driver.advance(10)
    harness.watch()
    harness.driver.handle(ExpireOffsets())


# --- time ---


def _tick_early(harness: SituationHarness) -> None:
    harness.driver.advance(1)


def _tick_join(harness: SituationHarness) -> None:
    join = harness.classic.purgatory.join
    harness.until(None if join is None else join.deadline)


def _tick_join_nobody(harness: SituationHarness) -> None:
    harness.waiting.leave()
    harness.watch()
    _tick_join(harness)


def _tick_delay(harness: SituationHarness) -> None:
    _tick_join(harness)
    harness.watch()
    _tick_join(harness)


def _tick_sync(harness: SituationHarness) -> None:
    sync = harness.classic.purgatory.sync
    harness.until(None if sync is None else sync.deadline)


def _tick_session(harness: SituationHarness) -> None:
    harness.until(harness.classic.members[harness.follower.member_id].session_deadline)


def _tick_session_last(harness: SituationHarness) -> None:
    harness.others_join()
    _tick_session(harness)


def _tick_session_waiting(harness: SituationHarness) -> None:
    if harness.situation is Situation.PREPARING:
        harness.follower.join()
    elif harness.situation is Situation.COMPLETING:
        harness.follower.sync()
    harness.watch()
    harness.driver.advance(20_000)


def _tick_new_member(harness: SituationHarness) -> None:
    new = harness.leader if harness.situation is Situation.DELAYED else harness.waiting
    harness.until(harness.classic.members[new.member_id].session_deadline)


def _tick_pending(harness: SituationHarness) -> None:
    pending = harness.pending()
    harness.until(harness.classic.pending[pending.member_id].session_deadline)


def _tick_pending_last(harness: SituationHarness) -> None:
    pending = harness.pending()
    harness.follower.join()
    harness.others_join()
    harness.until(harness.classic.pending[pending.member_id].session_deadline)


# --- tenure ---


def _released(harness: SituationHarness) -> None:
    harness.driver.handle(Released([harness.follower.member_id]))


def _loaded_over_capacity(harness: SituationHarness) -> None:
    harness.limit(group_max_size=1)
    harness.driver.restart()


TRIGGERS: Final[dict[str, Trigger]] = {
    "join_new": lambda harness: harness.newcomer().join(),
    "join_new_old": lambda harness: harness.newcomer(known=False).join(),
    "join_pending": lambda harness: harness.pending().join(),
    "join_new_static": lambda harness: harness.newcomer("new").join(),
    "join_full": _join_full,
    "join_member_full": _join_member_full,
    "join_without_protocols": lambda harness: harness.newcomer(known=False, protocols=()).join(),
    "join_inconsistent": lambda harness: harness.newcomer(
        known=False, protocols=(("different", b""),)
    ).join(),
    "join_text_too_long": _join_text_too_long,
    "join_unknown": lambda harness: harness.stranger().join(),
    "join_pending_static": lambda harness: harness.pending().join(group_instance_id="new"),
    "join_fenced": lambda harness: harness.impostor().join(),
    "join_unchanged": lambda harness: harness.follower.join(),
    "join_changed": lambda harness: harness.follower.join(protocols=CHANGED),
    "join_again": lambda harness: harness.follower.join(protocols=OWNING),
    "join_leader": lambda harness: harness.leader.join(),
    "join_leader_again": lambda harness: harness.leader.join(protocols=OWNING),
    "join_leader_changed": lambda harness: harness.leader.join(protocols=CHANGED),
    "join_waiting": lambda harness: harness.waiting.join(),
    "join_last": _join_last,
    "join_returning": _join_returning,
    "join_returning_changed": _join_returning_changed,
    "sync_leader": _sync_leader,
    "sync_too_large": _sync_too_large,
    "sync_follower": lambda harness: harness.follower.sync(),
    "sync_waiting": lambda harness: harness.waiting.sync(),
    "sync_other_generation": lambda harness: harness.follower.sync(generation=99),
    "sync_other_protocol": lambda harness: harness.follower.sync(protocol_name="different"),
    "sync_pending": lambda harness: harness.pending().sync(),
    "sync_unknown": lambda harness: harness.stranger().sync(),
    "sync_fenced": lambda harness: harness.impostor().sync(),
    "heartbeat": lambda harness: harness.follower.heartbeat(),
    "heartbeat_other_generation": lambda harness: harness.follower.heartbeat(99),
    "heartbeat_pending": lambda harness: harness.pending().heartbeat(),
    "heartbeat_unknown": lambda harness: harness.stranger().heartbeat(),
    "heartbeat_fenced": lambda harness: harness.impostor().heartbeat(),
    "leave_follower": lambda harness: harness.follower.leave(),
    "leave_last": _leave_last,
    "leave_all": _leave_all,
    "leave_by_instance": lambda harness: harness.driver.leave(LeavingMember("", "static")),
    "leave_pending": lambda harness: harness.pending().leave(),
    "leave_unknown": lambda harness: harness.stranger().leave(),
    "leave_fenced": lambda harness: harness.impostor().leave(),
    "commit_member": lambda harness: harness.follower.commit(),
    "commit_other_generation": lambda harness: harness.follower.commit(generation=99),
    "commit_unknown": lambda harness: harness.stranger().commit(),
    "commit_unknown_old": lambda harness: harness.stranger().commit(knows_group_id_not_found=False),
    "commit_fenced": lambda harness: harness.impostor().commit(),
    "commit_simple": lambda harness: harness.driver.commit(),
    "commit_long_metadata": _commit_long_metadata,
    "commit_too_large": _commit_too_large,
    "fetch": lambda harness: _fetch(harness, SUBSCRIBED),
    "fetch_unstable": _fetch_unstable,
    "delete_subscribed": lambda harness: harness.driver.delete_offsets((SUBSCRIBED, (0,))),
    "delete_unsubscribed": lambda harness: harness.driver.delete_offsets((UNSUBSCRIBED, (0,))),
    "delete_other_type": lambda harness: harness.driver.delete_offsets((UNSUBSCRIBED, (0,))),
    "topic_deleted": _topic_deleted,
    "expire_young": _expire_young,
    "expire_aged": _expire_aged,
    "expire_in_transaction": _expire_in_transaction,
    "expire_rebalances": _expire_rebalances,
    "describe": _describe,
    "delete_group": lambda harness: harness.driver.delete(),
    "kick_member": lambda harness: harness.driver.kick(harness.follower.member_id),
    "kick_instance": lambda harness: harness.driver.kick("", harness.static.instance),
    "kick_pending": lambda harness: harness.driver.kick(harness.pending().member_id),
    "kick_unknown": lambda harness: harness.driver.kick("nobody"),
    "force_rebalance": lambda harness: harness.driver.force_rebalance(),
    "reset_offsets": lambda harness: harness.driver.reset(offset(3, topic=SUBSCRIBED)),
    "tick_early": _tick_early,
    "tick_join": _tick_join,
    "tick_join_nobody": _tick_join_nobody,
    "tick_delay": _tick_delay,
    "tick_delay_extended": _tick_join,
    "tick_sync": _tick_sync,
    "tick_session": _tick_session,
    "tick_session_waiting": _tick_session_waiting,
    "tick_session_last": _tick_session_last,
    "tick_new_member": _tick_new_member,
    "tick_pending": _tick_pending,
    "tick_pending_last": _tick_pending_last,
    "released": _released,
    "loaded": lambda harness: harness.driver.restart(),
    "loaded_over_capacity": _loaded_over_capacity,
}
"""By the keys of the table's rows."""

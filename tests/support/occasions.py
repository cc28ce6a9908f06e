"""How each row of the state table comes about: what is done to a group, whatever its situation."""

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
from tests.support.situations import CHANGED, OWNING, SUBSCRIBED, UNSUBSCRIBED, Casting, Stage
from tests.support.story import Request, offset

Occasion = Callable[[Stage], Request | None]

EIGHT_DAYS_MS = 8 * 24 * 60 * 60 * 1000
NEW_MEMBER_MS = 300_000

CASTINGS: Final[dict[str, Casting]] = {
    "delete_other_type": Casting(protocol_type="connect"),
    "tick_session": Casting(follower_session=10_000),
    "tick_session_last": Casting(follower_session=10_000),
    "tick_session_waiting": Casting(follower_session=10_000, waiting_session=10_000),
    "tick_new_member": Casting(waiting_rebalance=900_000, delay=400_000),
    "tick_sync": Casting(follower_syncs=False),
}


# --- JoinGroup ---


def _join_full(stage: Stage) -> Request:
    stage.limit(group_max_size=1)
    return stage.newcomer(known=False).join()


def _join_member_full(stage: Stage) -> Request:
    stage.limit(group_max_size=1)
    return stage.follower.join()


def _join_text_too_long(stage: Stage) -> Request:
    return stage.newcomer().join(client_id="x" * 40_000)


def _join_last(stage: Stage) -> Request:
    stage.others_join()
    return stage.follower.join()


def _join_returning(stage: Stage) -> Request:
    stage.watch(stage.static)
    return stage.static.restarted().join()


def _join_returning_changed(stage: Stage) -> Request:
    stage.watch(stage.static)
    restarted = stage.static.restarted()
    restarted.protocols = [("sticky", b"")]
    return restarted.join()


# --- SyncGroup and Heartbeat ---


def _sync_leader(stage: Stage) -> Request:
    stage.watch(stage.leader)
    return stage.leader.sync({stage.leader: b"l"})


def _sync_too_large(stage: Stage) -> Request:
    stage.limit(max_append_bytes=5_000)
    stage.watch(stage.leader)
    return stage.leader.sync({stage.leader: bytes(5_000)})


# --- LeaveGroup ---


def _leave_last(stage: Stage) -> Request:
    stage.others_join()
    return stage.follower.leave()


def _leave_all(stage: Stage) -> Request:
    members = stage.classic.members.values()
    return stage.story.leave(*(LeavingMember(m.member_id, m.group_instance_id) for m in members))


# --- offsets ---


def _commit_long_metadata(stage: Stage) -> Request:
    long = offset(9, topic=SUBSCRIBED, metadata="x" * 5_000)
    return stage.follower.commit(long) if stage.has_members else stage.story.commit(long)


def _commit_too_large(stage: Stage) -> Request:
    stage.limit(max_append_bytes=100)
    return stage.follower.commit() if stage.has_members else stage.story.commit()


def _fetch_unstable(stage: Stage) -> Request:
    stage.begin_transaction()
    return _fetch(stage, UNSUBSCRIBED, stable=True)


def _fetch(stage: Stage, topic: str, *, stable: bool = False) -> Request:
    request = Request("OffsetFetch")
    stage.story.send(FetchOffsets(request, [(topic, [0])], stable), request)
    return request


def _describe(stage: Stage) -> Request:
    request = Request("DescribeGroups")
    stage.story.send(Describe(request), request)
    return request


def _topic_deleted(stage: Stage) -> None:
    stage.story.handle(TopicsDeleted(frozenset({SUBSCRIBED})))


def _expire_young(stage: Stage) -> None:
    stage.story.handle(ExpireOffsets())


def _expire_aged(stage: Stage) -> None:
    stage.story.wall += EIGHT_DAYS_MS
    stage.story.handle(ExpireOffsets())


def _expire_in_transaction(stage: Stage) -> None:
    stage.begin_transaction()
    _expire_aged(stage)


def _expire_rebalances(stage: Stage) -> None:
    stage.limit(history_retention_ms=1)
    stage.story.advance(10)
    stage.watch()
    stage.story.handle(ExpireOffsets())


# --- time ---


def _tick_early(stage: Stage) -> None:
    stage.story.advance(1)


def _tick_join(stage: Stage) -> None:
    join = stage.classic.purgatory.join
    stage.until(None if join is None else join.deadline)


def _tick_join_nobody(stage: Stage) -> None:
    stage.waiting.leave()
    stage.watch()
    _tick_join(stage)


def _tick_delay(stage: Stage) -> None:
    _tick_join(stage)
    stage.watch()
    _tick_join(stage)


def _tick_sync(stage: Stage) -> None:
    sync = stage.classic.purgatory.sync
    stage.until(None if sync is None else sync.deadline)


def _tick_session(stage: Stage) -> None:
    stage.until(stage.classic.members[stage.follower.member_id].session_deadline)


def _tick_session_last(stage: Stage) -> None:
    stage.others_join()
    _tick_session(stage)


def _tick_session_waiting(stage: Stage) -> None:
    if stage.situation is Situation.PREPARING:
        stage.follower.join()
    elif stage.situation is Situation.COMPLETING:
        stage.follower.sync()
    stage.watch()
    stage.story.advance(20_000)


def _tick_new_member(stage: Stage) -> None:
    new = stage.leader if stage.situation is Situation.DELAYED else stage.waiting
    stage.until(stage.classic.members[new.member_id].session_deadline)


def _tick_pending(stage: Stage) -> None:
    pending = stage.pending()
    stage.until(stage.classic.pending[pending.member_id].session_deadline)


def _tick_pending_last(stage: Stage) -> None:
    pending = stage.pending()
    stage.follower.join()
    stage.others_join()
    stage.until(stage.classic.pending[pending.member_id].session_deadline)


# --- tenure ---


def _released(stage: Stage) -> None:
    stage.story.handle(Released([stage.follower.member_id]))


def _loaded_over_capacity(stage: Stage) -> None:
    stage.limit(group_max_size=1)
    stage.story.restart()


OCCASIONS: Final[dict[str, Occasion]] = {
    "join_new": lambda stage: stage.newcomer().join(),
    "join_new_old": lambda stage: stage.newcomer(known=False).join(),
    "join_pending": lambda stage: stage.pending().join(),
    "join_new_static": lambda stage: stage.newcomer("new").join(),
    "join_full": _join_full,
    "join_member_full": _join_member_full,
    "join_without_protocols": lambda stage: stage.newcomer(known=False, protocols=()).join(),
    "join_inconsistent": lambda stage: stage.newcomer(
        known=False, protocols=(("different", b""),)
    ).join(),
    "join_text_too_long": _join_text_too_long,
    "join_unknown": lambda stage: stage.stranger().join(),
    "join_pending_static": lambda stage: stage.pending().join(group_instance_id="new"),
    "join_fenced": lambda stage: stage.impostor().join(),
    "join_unchanged": lambda stage: stage.follower.join(),
    "join_changed": lambda stage: stage.follower.join(protocols=CHANGED),
    "join_again": lambda stage: stage.follower.join(protocols=OWNING),
    "join_leader": lambda stage: stage.leader.join(),
    "join_leader_again": lambda stage: stage.leader.join(protocols=OWNING),
    "join_leader_changed": lambda stage: stage.leader.join(protocols=CHANGED),
    "join_waiting": lambda stage: stage.waiting.join(),
    "join_last": _join_last,
    "join_returning": _join_returning,
    "join_returning_changed": _join_returning_changed,
    "sync_leader": _sync_leader,
    "sync_too_large": _sync_too_large,
    "sync_follower": lambda stage: stage.follower.sync(),
    "sync_waiting": lambda stage: stage.waiting.sync(),
    "sync_other_generation": lambda stage: stage.follower.sync(generation=99),
    "sync_other_protocol": lambda stage: stage.follower.sync(protocol_name="different"),
    "sync_pending": lambda stage: stage.pending().sync(),
    "sync_unknown": lambda stage: stage.stranger().sync(),
    "sync_fenced": lambda stage: stage.impostor().sync(),
    "heartbeat": lambda stage: stage.follower.heartbeat(),
    "heartbeat_other_generation": lambda stage: stage.follower.heartbeat(99),
    "heartbeat_pending": lambda stage: stage.pending().heartbeat(),
    "heartbeat_unknown": lambda stage: stage.stranger().heartbeat(),
    "heartbeat_fenced": lambda stage: stage.impostor().heartbeat(),
    "leave_follower": lambda stage: stage.follower.leave(),
    "leave_last": _leave_last,
    "leave_all": _leave_all,
    "leave_by_instance": lambda stage: stage.story.leave(LeavingMember("", "static")),
    "leave_pending": lambda stage: stage.pending().leave(),
    "leave_unknown": lambda stage: stage.stranger().leave(),
    "leave_fenced": lambda stage: stage.impostor().leave(),
    "commit_member": lambda stage: stage.follower.commit(),
    "commit_other_generation": lambda stage: stage.follower.commit(generation=99),
    "commit_unknown": lambda stage: stage.stranger().commit(),
    "commit_unknown_old": lambda stage: stage.stranger().commit(knows_group_id_not_found=False),
    "commit_fenced": lambda stage: stage.impostor().commit(),
    "commit_simple": lambda stage: stage.story.commit(),
    "commit_long_metadata": _commit_long_metadata,
    "commit_too_large": _commit_too_large,
    "fetch": lambda stage: _fetch(stage, SUBSCRIBED),
    "fetch_unstable": _fetch_unstable,
    "delete_subscribed": lambda stage: stage.story.delete_offsets((SUBSCRIBED, (0,))),
    "delete_unsubscribed": lambda stage: stage.story.delete_offsets((UNSUBSCRIBED, (0,))),
    "delete_other_type": lambda stage: stage.story.delete_offsets((UNSUBSCRIBED, (0,))),
    "topic_deleted": _topic_deleted,
    "expire_young": _expire_young,
    "expire_aged": _expire_aged,
    "expire_in_transaction": _expire_in_transaction,
    "expire_rebalances": _expire_rebalances,
    "describe": _describe,
    "delete_group": lambda stage: stage.story.delete(),
    "kick_member": lambda stage: stage.story.kick(stage.follower.member_id),
    "kick_instance": lambda stage: stage.story.kick("", stage.static.instance),
    "kick_pending": lambda stage: stage.story.kick(stage.pending().member_id),
    "kick_unknown": lambda stage: stage.story.kick("nobody"),
    "force_rebalance": lambda stage: stage.story.force_rebalance(),
    "reset_offsets": lambda stage: stage.story.reset(offset(3, topic=SUBSCRIBED)),
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
    "loaded": lambda stage: stage.story.restart(),
    "loaded_over_capacity": _loaded_over_capacity,
}
"""By the keys of the table's rows."""

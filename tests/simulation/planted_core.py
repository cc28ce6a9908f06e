"""Bugs of the core: groups, members, offsets."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from coordinator_server.group import group as machine
from coordinator_server.group.classic import (
    expiration,
    join,
    kind,
    members,
    rebalance,
    sync,
    validation,
)
from coordinator_server.group.classic.kind import ClassicKind
from coordinator_server.group.classic.state import ClassicGroup, ClassicMember
from coordinator_server.group.effects import DONE, Refuse, Rule
from coordinator_server.group.events import ExpireOffsets, Heartbeat, Join, Loaded, TopicsDeleted
from coordinator_server.group.group import Group
from coordinator_server.group.purgatory import DelayedJoin, DelayedSync, Purgatory
from tests.simulation.mutant_registry import mutant
from tests.support.classic import classic_of

# --- members ---


@mutant
def joined_count_is_off_by_one() -> AbstractContextManager[Any]:
    real = ClassicGroup.park_join

    def park_join(self: ClassicGroup, member: ClassicMember, token: Any, now: int = 0) -> None:
        repeated = member.join_token is not None and token is not None
        real(self, member, token, now)
        self.awaiting_join += repeated

    return patch.object(ClassicGroup, "park_join", park_join)


@mutant
def pending_member_is_forgotten() -> AbstractContextManager[Any]:
    real = join._require_member_id

    def require(group: ClassicGroup, event: Join, ctx: Any, out: Any) -> None:
        real(group, event, ctx, out)
        if group.members:
            group.pending.clear()

    return patch.object(join, "_require_member_id", require)


@mutant
def pending_member_never_expires() -> AbstractContextManager[Any]:
    return patch.object(expiration, "pending_deadline_passed", lambda *_args: None)


@mutant
def members_waiting_for_sync_expire() -> AbstractContextManager[Any]:
    waits = property(lambda self: self.join_token is not None)
    return patch.object(ClassicMember, "waits", waits)


@mutant
def new_members_may_wait_for_ever() -> AbstractContextManager[Any]:
    real = members.session_deadline_passed

    def passed(group: ClassicGroup, member: ClassicMember, ctx: Any, out: Any) -> None:
        is_new, member.is_new = member.is_new, False
        real(group, member, ctx, out)
        member.is_new = is_new

    return patch.object(expiration, "session_deadline_passed", passed)


@mutant
def session_does_not_start_anew_when_a_held_reply_leaves() -> AbstractContextManager[Any]:
    return patch.object(ClassicKind, "released", lambda *_args: None)


@mutant
def static_map_is_not_cleared() -> AbstractContextManager[Any]:
    real = ClassicGroup.remove

    def remove(self: ClassicGroup, member_id: str) -> ClassicMember | None:
        member = real(self, member_id)
        if member is not None and member.group_instance_id is not None:
            self.static_members = {**self.static_members, member.group_instance_id: member_id}
        return member

    return patch.object(ClassicGroup, "remove", remove)


@mutant
def replaced_static_member_is_not_written_down() -> AbstractContextManager[Any]:
    real = join._return_static

    def return_static(*args: Any) -> None:
        out = args[-1]
        real(*args)
        out.writes.clear()

    return patch.object(join, "_return_static", return_static)


@mutant
def reply_sent_twice() -> AbstractContextManager[Any]:
    real = rebalance._answer_joins

    def answer_joins(group: ClassicGroup, ctx: Any, out: Any) -> None:
        parked = {m.member_id: m.join_token for m in group.members.values()}
        real(group, ctx, out)
        for member in group.members.values():
            if group.leader != member.member_id:
                group.park_join(member, parked[member.member_id])
                break

    return patch.object(rebalance, "_answer_joins", answer_joins)


@mutant
def loaded_members_get_no_session() -> AbstractContextManager[Any]:
    real = machine._HANDLERS[Loaded]

    def loaded(group: Group, event: Any, ctx: Any, out: Any) -> None:
        real(group, event, ctx, out)
        if group.kind is not None:
            classic = classic_of(group)
            for member in classic.members.values():
                member.session_deadline = classic.purgatory.watch(ctx.now)

    return patch.dict(machine._HANDLERS, {Loaded: loaded})


# --- generations and offsets ---


@mutant
def generation_does_not_rise() -> AbstractContextManager[Any]:
    real = rebalance.complete_join

    def complete_join(group: ClassicGroup, ctx: Any, out: Any) -> None:
        before = group.generation
        real(group, ctx, out)
        group.generation = max(before, 1)

    @contextmanager
    def plant() -> Iterator[None]:
        with ExitStack() as stack:
            for module in (rebalance, members):
                stack.enter_context(patch.object(module, "complete_join", complete_join))
            yield

    return plant()


@mutant
def commits_of_old_generations_are_accepted() -> AbstractContextManager[Any]:
    real = validation.refuse_commit

    def refuse_commit(group: ClassicGroup, event: Any) -> Refuse | None:
        refusal = real(group, event)
        stale = refusal is not None and refusal.rule is Rule.GENERATION_DIFFERS
        return None if stale and event.member_id in group.members else refusal

    return patch.object(kind, "refuse_commit", refuse_commit)


@mutant
def assignment_is_handed_out_by_position() -> AbstractContextManager[Any]:
    real = sync._assignment

    def assignment(group: ClassicGroup, _member: ClassicMember) -> Any:
        return real(group, next(iter(group.members.values())))

    return patch.object(sync, "_assignment", assignment)


@mutant
def heartbeats_do_not_renew_the_session() -> AbstractContextManager[Any]:
    real = members.heartbeat

    def heartbeat(group: ClassicGroup, event: Any, ctx: Any, out: Any) -> None:
        member = group.members.get(event.member_id)
        before = None if member is None else member.session_deadline
        real(group, event, ctx, out)
        if member is not None and before is not None:
            member.session_deadline = before

    return patch.dict(kind._HANDLERS, {Heartbeat: heartbeat})


@mutant
def expiry_does_not_see_open_transactions() -> AbstractContextManager[Any]:
    real = machine._HANDLERS[ExpireOffsets]

    def expire(group: Group, event: Any, ctx: Any, out: Any) -> None:
        pending, group.offsets.pending = group.offsets.pending, {}
        real(group, event, ctx, out)
        group.offsets.pending = pending

    return patch.dict(machine._HANDLERS, {ExpireOffsets: expire})


@mutant
def offsets_of_deleted_topics_stay() -> AbstractContextManager[Any]:
    def stay(_group: Group, event: TopicsDeleted, _ctx: Any, out: Any) -> None:
        out.reply(event.token, DONE)

    return patch.dict(machine._HANDLERS, {TopicsDeleted: stay})


@mutant
def assignment_too_large_for_the_log_is_handed_out() -> AbstractContextManager[Any]:
    return patch.object(sync, "record_bytes", lambda *_args: 0)


# --- timers and turns ---


@mutant
def join_phase_has_no_deadline() -> AbstractContextManager[Any]:
    return patch.object(expiration, "join_deadline_passed", lambda *_args: None)


@mutant
def join_phase_ends_early() -> AbstractContextManager[Any]:
    real = Purgatory.delay_join

    def delay_join(self: Purgatory, operation: DelayedJoin) -> None:
        if not operation.initial:
            operation.deadline -= 1_000
        real(self, operation)

    return patch.object(Purgatory, "delay_join", delay_join)


@mutant
def sync_phase_ends_early() -> AbstractContextManager[Any]:
    real = Purgatory.delay_sync

    def delay_sync(self: Purgatory, operation: DelayedSync) -> None:
        operation.deadline -= 1_000
        real(self, operation)

    return patch.object(Purgatory, "delay_sync", delay_sync)


@mutant
def stale_timer_of_a_replaced_member() -> AbstractContextManager[Any]:
    """The old process's session ends, and takes the new one along."""
    stale: list[tuple[int, ClassicGroup, str]] = []
    replace, tick = join._replace_static, expiration.tick

    def replace_static(group: ClassicGroup, old: ClassicMember, *args: Any) -> ClassicMember:
        new = replace(group, old, *args)
        stale.append((group.purgatory.watch(old.session_deadline), group, new.member_id))
        return new

    def tick_stale(group: ClassicGroup, ctx: Any, out: Any) -> None:
        for timer in [t for t in stale if t[0] <= ctx.now and t[1] is group]:
            stale.remove(timer)
            if timer[2] in group.members:
                members.session_deadline_passed(group, group.members[timer[2]], ctx, out)
        tick(group, ctx, out)

    @contextmanager
    def plant() -> Iterator[None]:
        with (
            patch.object(join, "_replace_static", replace_static),
            patch.object(kind, "tick", tick_stale),
        ):
            yield

    return plant()

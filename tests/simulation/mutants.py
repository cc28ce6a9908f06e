"""Bugs that are planted one at a time, to show that the simulation finds them.

A mutant replaces one function of the code under test by a wrong one, while it is active. What
the simulation does not find within a few hundred seeds, it would not find in a change either.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from coordinator_server.group import commits, machine
from coordinator_server.group.classic import join, members, rebalance, sync, ticks, validation
from coordinator_server.group.classic.state import ClassicGroup, ClassicMember
from coordinator_server.group.effects import Refuse, Rule
from coordinator_server.group.events import Join, Loaded, Released
from coordinator_server.group.machine import Group
from coordinator_server.runtime import tenure as tenure_module
from coordinator_server.runtime.actor import GroupActor
from coordinator_server.runtime.loader import Loader
from coordinator_server.runtime.partition import Partition, PartitionState
from coordinator_server.runtime.tenure import Tenure
from coordinator_server.runtime.writer import Writer
from tests.simulation.run import Outcome, play
from tests.simulation.script import script_of

SEEDS = 600
"""Within so many seeds every mutant is caught, counted from its first."""

Plant = Callable[[], AbstractContextManager[Any]]


@dataclass(frozen=True, slots=True)
class Mutant:
    """A bug and how to plant it."""

    name: str
    plant: Plant
    first_seed: int = 0
    """Where the search begins: what takes a rare world is not looked for from 0 on."""


MUTANTS: list[Mutant] = []


RARE = {
    "members waiting for sync expire": 60,
    "session does not start anew when a held reply leaves": 60,
    "stale owner goes on answering": 600,
}


def mutant(plant: Plant) -> Plant:
    """Add to the list under the function's name."""
    name = plant.__name__.replace("_", " ")
    MUTANTS.append(Mutant(name, plant, RARE.get(name, 0)))
    return plant


# --- replies and records ---


@mutant
def replies_are_not_held() -> AbstractContextManager[Any]:
    return patch.object(Writer, "holds_back", lambda _self, _actor: False)


@mutant
def reads_are_not_held() -> AbstractContextManager[Any]:
    """A turn that writes nothing answers at once, whatever is under way."""
    real = Writer.holds_back

    def holds_back(self: Writer, actor: GroupActor) -> bool:
        return real(self, actor) and actor.last_append == self._number and bool(self._open)

    return patch.object(Writer, "holds_back", holds_back)


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
def failed_append_is_acknowledged() -> AbstractContextManager[Any]:
    def refuse(_self: Tenure, replies: Any, _failure: Any) -> None:
        for reply in replies:
            tenure_module._resolve(reply.token, reply.result)

    return patch.object(Tenure, "_refuse_replies", refuse)


@mutant
def append_that_ends_after_its_tenure_still_counts() -> AbstractContextManager[Any]:
    real = Writer.stop

    def stop(self: Writer) -> Any:
        held = dict(self._held)
        refused = list(real(self))
        self._held, self._stopped = held, False
        return refused

    return patch.object(Writer, "stop", stop)


@mutant
def held_replies_are_forgotten_when_the_tenure_ends() -> AbstractContextManager[Any]:
    real = Writer.stop

    def stop(self: Writer) -> list[Any]:
        list(real(self))
        return []

    return patch.object(Writer, "stop", stop)


@mutant
def overdue_append_is_not_noticed() -> AbstractContextManager[Any]:
    return patch.object(Tenure, "_watch", lambda _self: None)


@mutant
def parked_replies_are_forgotten_when_the_tenure_ends() -> AbstractContextManager[Any]:
    return patch.object(Group, "take_parked", lambda _self: [])


@mutant
def tombstones_are_not_written() -> AbstractContextManager[Any]:
    real = Writer.append

    def append(self: Writer, actor: GroupActor, writes: Any, wall: int) -> None:
        kept = [write for write in writes if write.value is not None]
        real(self, actor, kept, wall)

    return patch.object(Writer, "append", append)


# --- load ---


@mutant
def load_keeps_the_memory_of_before() -> AbstractContextManager[Any]:
    remembered: dict[int, dict[str, Group]] = {}
    real = Loader.load

    async def load(self: Loader, log: Any) -> None:
        await real(self, log)
        self.groups |= remembered.get(log.partition, {})
        remembered[log.partition] = self.groups

    return patch.object(Loader, "load", load)


@mutant
def load_skips_tombstones() -> AbstractContextManager[Any]:
    real = Loader._replay_record

    def replay(self: Loader, record: Any) -> None:
        if record.value is not None:
            real(self, record)

    return patch.object(Loader, "_replay_record", replay)


@mutant
def load_leaves_out_the_last_piece() -> AbstractContextManager[Any]:
    async def load(self: Loader, log: Any) -> None:
        async for records in log.load():
            for record in records:
                self._replay(log.partition, record)
            break

    return patch.object(Loader, "load", load)


@mutant
def loaded_members_get_no_session() -> AbstractContextManager[Any]:
    real = machine._HANDLERS[Loaded]

    def loaded(group: Group, event: Any, ctx: Any, out: Any) -> None:
        real(group, event, ctx, out)
        if group.classic is not None:
            for member in group.classic.members.values():
                member.session_deadline = group.classic.purgatory.watch(ctx.now)

    return patch.dict(machine._HANDLERS, {Loaded: loaded})


# --- members ---


@mutant
def joined_count_is_off_by_one() -> AbstractContextManager[Any]:
    real = ClassicGroup.park_join

    def park_join(self: ClassicGroup, member: ClassicMember, token: Any) -> None:
        repeated = member.join_token is not None and token is not None
        real(self, member, token)
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
    return patch.object(ticks, "pending_deadline_passed", lambda *_args: None)


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

    return patch.object(ticks, "session_deadline_passed", passed)


@mutant
def session_does_not_start_anew_when_a_held_reply_leaves() -> AbstractContextManager[Any]:
    return patch.dict(machine._HANDLERS, {Released: lambda *_args: None})


@mutant
def static_map_is_not_cleared() -> AbstractContextManager[Any]:
    real = ClassicGroup.remove

    def remove(self: ClassicGroup, member_id: str) -> ClassicMember | None:
        member = real(self, member_id)
        if member is not None and member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member_id
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

    return patch.object(commits, "refuse_commit", refuse_commit)


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

    return patch.object(machine, "heartbeat", heartbeat)


# --- timers and turns ---


@mutant
def deadline_moved_earlier_is_not_armed_again() -> AbstractContextManager[Any]:
    real = GroupActor._arm

    def arm(self: GroupActor) -> None:
        if self._timer is None:
            real(self)

    return patch.object(GroupActor, "_arm", arm)


@mutant
def join_phase_has_no_deadline() -> AbstractContextManager[Any]:
    return patch.object(ticks, "join_deadline_passed", lambda *_args: None)


@mutant
def mailbox_forgets_what_comes_during_a_turn() -> AbstractContextManager[Any]:
    real = GroupActor._enqueue

    def enqueue(self: GroupActor, event: Any) -> None:
        if not self._busy:
            real(self, event)

    return patch.object(GroupActor, "_enqueue", enqueue)


@mutant
def stale_owner_goes_on_answering() -> AbstractContextManager[Any]:
    real = Partition.submit

    def submit(self: Partition, group_id: str, event: Any) -> None:
        if self.state is PartitionState.ACTIVE and self.tenure is not None:
            self.tenure.submit(group_id, event)
        else:
            real(self, group_id, event)

    return patch.object(Partition, "submit", submit)


def caught(bug: Mutant, seeds: int = SEEDS) -> tuple[int, Outcome] | None:
    """The first seed that finds the mutant, and what it found."""
    for seed in range(bug.first_seed, bug.first_seed + seeds):
        with bug.plant():
            outcome = play(script_of(seed))
        if outcome.broken:
            return seed, outcome
    return None


def table(seeds: int = SEEDS) -> str:
    """Every mutant with the seed that finds it and the rule it breaks, in Markdown."""
    lines = ["| planted bug | found by seed | first broken rule |", "|---|--:|---|"]
    for bug in MUTANTS:
        found = caught(bug, seeds)
        if found is None:
            lines.append(f"| {bug.name} | - | not found in {seeds} seeds |")
        else:
            lines.append(f"| {bug.name} | {found[0]} | {_short(found[1].broken)} |")
    return "\n".join(lines)


def _short(broken: str) -> str:
    return broken.replace("|", "/").replace("\n", " ")[:90]

"""Bugs of the runtime: replies, the log, loads, turns and timers."""

from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

from coordinator_server.group.context import Context
from coordinator_server.group.events import TopicsDeleted
from coordinator_server.group.group import Group
from coordinator_server.observe.timeline import Timeline
from coordinator_server.runtime import sweeper
from coordinator_server.runtime.actor import GroupActor
from coordinator_server.runtime.answering import resolve
from coordinator_server.runtime.deletions import Deletions
from coordinator_server.runtime.failures import Failure
from coordinator_server.runtime.loader import Loader
from coordinator_server.runtime.partition import Partition, PartitionState
from coordinator_server.runtime.tenure import Tenure
from coordinator_server.runtime.ticket import CallbackTicket
from coordinator_server.runtime.unlogged_generations import SpentGenerations
from coordinator_server.runtime.writer import Writer
from tests.simulation.mutant_registry import mutant

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
def failed_append_is_acknowledged() -> AbstractContextManager[Any]:
    def refuse(_self: Tenure, _group_id: Any, _event: Any, replies: Any, _failure: Any) -> None:
        for reply in replies:
            resolve(reply.token, reply.result)

    return patch.object(Tenure, "_refuse_replies", refuse)


@mutant
def append_that_ends_after_its_tenure_still_counts() -> AbstractContextManager[Any]:
    real = Writer.stop

    def stop(self: Writer) -> Any:
        appends = list(self._appends)
        refused = list(real(self))
        self._appends, self._stopped = appends, False
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

    def append(self: Writer, actor: GroupActor, writes: Any, ctx: Context) -> None:
        kept = [write for write in writes if write.value is not None]
        real(self, actor, kept, ctx)

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
def number_of_a_lost_generation_is_used_again() -> AbstractContextManager[Any]:
    return patch.object(SpentGenerations, "of", lambda _self, _group_id: 0)


@mutant
def group_that_ends_takes_its_lost_generation_with_it() -> AbstractContextManager[Any]:
    def last(self: Group) -> int:
        return 0 if self.kind is None else self.kind.last_generation

    return patch.object(Group, "last_generation", property(last))


@mutant
def lost_generation_is_remembered_over_one_tenure_only() -> AbstractContextManager[Any]:
    real = SpentGenerations.ended

    def ended(self: SpentGenerations, actors: Any) -> None:
        before, self._spent = self._spent, {}
        real(self, actors)
        for group_id in self._spent.keys() & before.keys():
            if self._spent[group_id] == before[group_id]:
                del self._spent[group_id]

    return patch.object(SpentGenerations, "ended", ended)


# --- timers and turns ---


@mutant
def deadline_moved_earlier_is_not_armed_again() -> AbstractContextManager[Any]:
    real = GroupActor._arm

    def arm(self: GroupActor) -> None:
        if self._timer is None:
            real(self)

    return patch.object(GroupActor, "_arm", arm)


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


@mutant
def inline_turn_overtakes_the_mailbox() -> AbstractContextManager[Any]:
    def post(self: GroupActor, event: Any) -> None:
        if self._busy:
            self._enqueue(event)
        else:
            self._turn(event)

    return patch.object(GroupActor, "post", post)


@mutant
def failed_append_leaves_memory_as_it_is() -> AbstractContextManager[Any]:
    """What Kafka undoes by hand, not undone: a static member's new id, an assignment, an offset."""

    def append_failed(self: Tenure, _error: BaseException) -> None:
        append = self.writer._appends.pop(0)
        self.writer.durable += 1
        for item in append.held:
            group_id = item.actor.group.group_id
            self._refuse_replies(group_id, item.event, item.replies, Failure.APPEND_FAILED)

    return patch.object(Tenure, "_append_failed", append_failed)


@mutant
def deletion_is_settled_by_what_is_not_durable() -> AbstractContextManager[Any]:
    def carry_out(self: Deletions, tenure: Tenure) -> None:
        topics = self.open
        for actor in tenure.actors.values():
            if not actor.is_idle or actor.group.offsets.has_any_of(topics):
                actor.post(TopicsDeleted(topics, CallbackTicket(lambda _result: None)))
        self.drop()

    return patch.object(Deletions, "carry_out", carry_out)


@mutant
def sweep_believes_any_clock() -> AbstractContextManager[Any]:
    return patch.object(sweeper, "LONGEST_CLOCK_JUMP_MS", 2**62)


@mutant
def end_of_a_rebalance_ends_the_next_one_too() -> AbstractContextManager[Any]:
    def end(self: Timeline, event: Any) -> None:
        self._current.pop(event.group_id, None)

    return patch.object(Timeline, "_end", end)

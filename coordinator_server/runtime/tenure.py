"""One tenure of a partition: its groups' actors and its writer, from load to the one final step."""

from asyncio import CancelledError
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from coordinator_protocol.errors import ErrorCode
from coordinator_server.group.commits import RepeatedCommit
from coordinator_server.group.context import Context
from coordinator_server.group.effects import Effects, Refuse, Reply, Result, Rule
from coordinator_server.group.events import CommitOffsets, Event, Join, Loaded, Token
from coordinator_server.group.group import Group, TurnFailed
from coordinator_server.group.rebalance_events import (
    Observation,
    Outcome,
    RebalanceEvent,
    RebalanceStarted,
)
from coordinator_server.runtime.actor import GroupActor
from coordinator_server.runtime.answering import refuse
from coordinator_server.runtime.dependencies import RuntimeDependencies
from coordinator_server.runtime.failures import Failure, answer_to
from coordinator_server.runtime.refusals import report_parked, report_unserved
from coordinator_server.runtime.sender import ReplySender
from coordinator_server.runtime.unlogged_generations import SpentGenerations
from coordinator_server.runtime.writer import OutgoingReplies, Writer
from coordinator_server.storage.base import Fenced, PartitionLog

if TYPE_CHECKING:
    from coordinator_server.runtime.timers import Cancellable

_MAKE_GROUPS: Final = frozenset({Join, CommitOffsets})
"""Others find that there is no such group, and leave nothing behind."""


class Tenure:
    """Groups in memory, in step with one log.

    After `end` nothing of it is used again: a tenure is never repaired, the partition begins
    another one from the log.
    """

    def __init__(
        self,
        log: PartitionLog,
        groups: Iterable[Group],
        dependencies: RuntimeDependencies,
        on_end: Callable[[BaseException], None],
        generations: SpentGenerations,
    ) -> None:
        self.log = log
        self.ended = False
        self.timers = dependencies.timers
        self.actors = {group.group_id: GroupActor(group, self) for group in groups}
        dependencies.count.groups += len(self.actors)
        self._sender = ReplySender(dependencies, self._released, self._renew_sessions)
        self.writer = Writer(
            log,
            dependencies.limits.max_append_bytes,
            dependencies.clock,
            dependencies.counters.log_append_seconds,
            dependencies.soon,
            self._sender.send,
            self._append_failed,
        )
        self._dependencies = dependencies
        self._on_end = on_end
        self._generations = generations
        self._context = Context(0, 0, dependencies.ids, dependencies.limits)
        self.attempt = dependencies.attempt
        self.waiting: set[GroupActor] = set()
        """Actors that have events in their mailboxes."""
        self._watchdog: Cancellable | None = None

    def begin(self) -> None:
        """Let the loaded groups go on, every member with a full session from now."""
        for group_id, actor in list(self.actors.items()):
            actor.post(Loaded(self._generations.of(group_id)))

    def submit(self, group_id: str, event: Event) -> None:
        """Take an event for a group, which need not exist."""
        actor = self.actors.get(group_id)
        if actor is None:
            count = self._dependencies.count
            if count.groups >= self._dependencies.limits.max_groups and type(event) in _MAKE_GROUPS:
                self._refuse_group(group_id, event)
                return
            actor = self.actors[group_id] = GroupActor(Group(group_id), self)
            count.groups += 1
        actor.post(event)

    def _refuse_group(self, group_id: str, event: Event) -> None:
        """Answer a request that would make one group too many."""
        most = self._dependencies.limits.max_groups
        detail = f"the server has as many groups as group.max.groups={most} allows"
        answer = Refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE, Rule.TOO_MANY_GROUPS, detail)
        refuse(getattr(event, "token", None), answer)
        self._report_unserved(group_id, event, answer)

    def forget(self, actor: GroupActor) -> None:
        """Drop the actor of a group that has ceased to exist; the id may come back."""
        if actor.is_idle and not self.writer.holds_back(actor):
            actor.stop()
            # It may have been forgotten before, and another one have taken its place.
            if self.actors.get(actor.group.group_id) is actor:
                del self.actors[actor.group.group_id]
                self._dependencies.count.groups -= 1

    def end(self, failure: Failure, error: BaseException | None = None) -> None:
        """The one final step: every held, parked or waiting request is answered, once.

        With an `error` the partition is told, so that it can begin another tenure.
        """
        if self.ended:
            return
        self.ended = True
        self._dependencies.count.groups -= len(self.actors)
        attempt, actors = self.attempt, self.actors
        if failure is not Failure.SHUTTING_DOWN:
            attempt("note generations", "", lambda: self._generations.ended(actors))
        if error is not None:
            attempt("end a tenure", "", lambda: self._on_end(error))
        if self._watchdog is not None:
            attempt("stop a timer", "", self._watchdog.cancel)
        self._sender.send_rest()
        for held in self.writer.stop():
            group_id = held.actor.group.group_id
            self._refuse_replies(group_id, held.event, held.replies, failure)
            attempt("report a rebalance", group_id, partial(self._report_aborted, held.observed))
        for group_id, actor in list(actors.items()):
            if actor.is_quiet:
                continue
            attempt("answer who waits", group_id, partial(self._send_away, actor, failure))
            attempt("end a rebalance", group_id, partial(self._abort, actor))
        self.actors = {}

    def _abort(self, actor: GroupActor) -> None:
        for observation in actor.group.abort(self.context()).observed:
            self._dependencies.publish(observation)

    def waits(self) -> Iterator[tuple[object, object]]:
        """The waiting work as pairs: its place, and an object that changes with progress.

        Requests that are parked wait for others, not for this tenure: they are not among them.
        """
        head = self._sender.head
        if head is not None:
            yield "reply", head[1]
        if self.writer.waiting_since is not None:
            yield "append", self.writer.durable
        for actor in self.waiting:
            event = actor.next_event
            if event is not None:
                yield actor, event

    async def drain(self) -> None:
        """Planned end: parked members are sent away, what is held leaves when it is durable."""
        try:
            for actor in list(self.actors.values()):
                if not actor.is_quiet:
                    self._send_away(actor, Failure.SHUTTING_DOWN)
            await self.writer.drain()
        finally:
            self.end(Failure.SHUTTING_DOWN)

    # --- for actors ---

    def context(self, now: int | None = None) -> Context:
        """The context of the next turn; `now` if the caller has read the clock already."""
        context = self._context
        context.now = self._dependencies.clock.monotonic_ms() if now is None else now
        context.wall = self._dependencies.clock.wall_ms()
        return context

    def carry_out(self, actor: GroupActor, event: Event, effects: Effects) -> None:
        """Append the records of a turn; send its replies when they may leave.

        The start of a rebalance is announced at once, it is provisional anyway.
        Raises TurnFailed if the records cannot be written down, which is a bug.
        """
        for observation in effects.observed:
            if type(observation) is RebalanceStarted:
                self._dependencies.publish(observation)
        if effects.writes:
            try:
                self.writer.append(actor, effects.writes, self._context)
            except Exception as bug:
                raise TurnFailed(event, effects) from bug
            self._watch()
        self._settle(actor, event, effects.replies, effects.observed)

    def commit_again(
        self, actor: GroupActor, repeat: RepeatedCommit, offsets: Sequence[bytes], token: Token
    ) -> None:
        """As `carry_out`, for a repeated commit that its group has accepted."""
        try:
            encoded = self.writer.append_again(actor, repeat.template, offsets, self._context)
            actor.group.commit_again(repeat, encoded)
        except Exception as bug:
            effects = Effects()
            effects.reply(token, repeat.accepted)
            raise TurnFailed(repeat.asked, effects) from bug
        self._watch()
        self._settle(actor, repeat.asked, [Reply(token, repeat.accepted)], ())

    def _settle(
        self,
        actor: GroupActor,
        event: Event,
        replies: Sequence[Reply],
        observed: Sequence[Observation],
    ) -> None:
        """Send, hold or refuse what a turn has to say."""
        if self.ended:
            self._refuse_replies(actor.group.group_id, event, replies, Failure.APPEND_FAILED)
            self._report_aborted(observed)
        elif self.writer.holds_back(actor):
            # A group that has just ended is forgotten when that is durable.
            if replies or observed or actor.group.is_vacant:
                self.writer.hold(OutgoingReplies(actor, event, replies, observed, was_held=True))
        elif replies or observed:
            self._sender.send([OutgoingReplies(actor, event, replies, observed, was_held=False)])

    def report_bug(self, group_id: str, bug: TurnFailed) -> None:
        """A turn has raised: the memory of the partition is suspect, so the log decides."""
        self.attempt("log a bug", group_id, lambda: self._dependencies.log_bug(group_id, bug))
        self._refuse_replies(group_id, bug.event, bug.effects.replies, Failure.NOT_AVAILABLE)
        self._report_aborted(bug.effects.observed)
        self.end(Failure.NOT_AVAILABLE, bug)
        refuse(getattr(bug.event, "token", None), answer_to(Failure.NOT_AVAILABLE, bug.event))

    def turn_failed(
        self, group_id: str, event: Event, effects: Effects | None, error: BaseException
    ) -> None:
        """A turn, or what it brought about, has raised what nobody expected."""
        bug = TurnFailed(event, effects or Effects())
        bug.__context__ = error
        self.report_bug(group_id, bug)

    def repeat_failed(
        self, group_id: str, repeat: RepeatedCommit, token: Token | None, error: BaseException
    ) -> None:
        """The same for a repeated commit; its token has its answer afterwards, if there is one."""
        self.turn_failed(group_id, repeat.asked, None, error)
        refuse(token, answer_to(Failure.NOT_AVAILABLE, repeat.asked))

    # --- replies ---

    def _report_aborted(self, observed: Iterable[Observation]) -> None:
        """Rebalances whose last record is not durable have not ended well, whatever was meant."""
        for observation in observed:
            if type(observation) is RebalanceEvent:
                self._dependencies.publish(replace(observation, outcome=Outcome.ABORTED))

    def _released(self, actor: GroupActor, replies: Sequence[Reply]) -> None:
        """Remember which members had to wait; a group that has ended is forgotten."""
        members = [reply.member_id for reply in replies if reply.member_id is not None]
        if members:
            self._sender.have_waited.setdefault(actor, []).extend(members)
        elif actor.group.is_vacant and not self.ended:
            self.forget(actor)

    def _renew_sessions(self) -> None:
        """Members that had to wait have their sessions start anew: all of a group at once."""
        have_waited, self._sender.have_waited = self._sender.have_waited, {}
        now = self._dependencies.clock.monotonic_ms()
        for actor, members in have_waited.items():
            if not self.ended:
                actor.released(members, now)

    def _send_away(self, actor: GroupActor, failure: Failure) -> None:
        """Stop an actor and answer whoever waits for it."""
        group = actor.group
        left: list[Event] = []
        try:
            left = actor.stop()
        except (Exception, CancelledError) as error:  # noqa: BLE001 - the parked must be answered
            self._dependencies.failed("stop an actor", group.group_id, error)
        for event in left:
            answer = answer_to(failure, event)
            refuse(getattr(event, "token", None), answer)
            self._report_unserved(group.group_id, event, answer)
        answer = answer_to(failure, None)
        self.attempt(
            "report a refusal",
            group.group_id,
            lambda: report_parked(group, answer, self._dependencies),
        )
        for token in group.take_parked():
            refuse(token, answer)

    def _refuse_replies(
        self, group_id: str, event: Event, replies: Iterable[Reply], failure: Failure
    ) -> None:
        try:
            for reply in replies:
                answer = answer_to(failure, reply.result)
                refuse(reply.token, answer)
                self._report_unserved(group_id, event, answer)
        except (Exception, CancelledError) as error:  # noqa: BLE001 - others wait, too
            self._dependencies.failed("refuse", group_id, error)

    def _report_unserved(self, group_id: str, event: Event, answer: Result) -> None:
        self.attempt(
            "report a refusal",
            group_id,
            lambda: report_unserved(group_id, event, answer, self._dependencies),
        )

    # --- the log's answer ---

    def _append_failed(self, error: BaseException) -> None:
        fenced = isinstance(error, Fenced)
        self.end(Failure.TENURE_ENDED if fenced else Failure.APPEND_FAILED, error)

    def _watch(self) -> None:
        """Look again when the append just begun is overdue."""
        if self._watchdog is None and not self.ended:
            deadline = self._dependencies.clock.monotonic_ms() + self._dependencies.write_timeout_ms
            self._watchdog = self.timers.call_at(deadline, self._look)

    def _look(self) -> None:
        self._watchdog = None
        if self.ended:
            return
        begun = self.writer.oldest_begun
        if begun is None:
            if self.writer.is_open:
                # The log is asked after this: its time begins now.
                self._watch()
            return
        if self._dependencies.clock.monotonic_ms() - begun >= self._dependencies.write_timeout_ms:
            self.end(Failure.TIMED_OUT, TimeoutError("the log does not answer"))
        else:
            deadline = begun + self._dependencies.write_timeout_ms
            self._watchdog = self.timers.call_at(deadline, self._look)

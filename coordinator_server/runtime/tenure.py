"""One tenure of a partition: its groups' actors and its writer, from load to the one final step."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from coordinator_server.clock import Clock
from coordinator_server.group.commits import RepeatedCommit
from coordinator_server.group.context import Context, Limits
from coordinator_server.group.effects import (
    Committed,
    Deleted,
    Effects,
    Left,
    Refuse,
    Reply,
    Result,
)
from coordinator_server.group.events import Event, Loaded, Token
from coordinator_server.group.machine import Group, TurnFailed
from coordinator_server.group.reasons import (
    Observation,
    Outcome,
    RebalanceEvent,
    RebalanceStarted,
    brief,
)
from coordinator_server.observe.counters import Counters
from coordinator_server.ports import Ids
from coordinator_server.runtime.actor import GroupActor
from coordinator_server.runtime.failures import Failure, answer_to
from coordinator_server.runtime.generations import SpentGenerations
from coordinator_server.runtime.refusals import (
    Fold,
    tell_parked,
    tell_parts,
    tell_refusal,
    tell_unserved,
)
from coordinator_server.runtime.ticket import Ticket
from coordinator_server.runtime.timers import Cancellable, Timers
from coordinator_server.runtime.writer import Leaving, Writer
from coordinator_server.soon import Soon, SoonInLoop
from coordinator_server.storage.base import Fenced, PartitionLog
from protocol.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class World:
    """What all tenures share."""

    clock: Clock
    ids: Ids
    timers: Timers
    limits: Limits
    observe: Callable[[Observation], None]
    log_bug: Callable[[str, TurnFailed], None]
    """Told the group id and what happened, before the tenure ends."""
    write_timeout_ms: int = 5_000
    """offsets.commit.timeout.ms: no reply is held longer."""
    counters: Counters = field(default_factory=Counters)
    soon: Soon = field(default_factory=SoonInLoop)
    fold_refusal: Fold = lambda _group_id, _place, _at_ms: False
    """Counts a refusal if an equal one has been told to `observe`."""
    jitter: Callable[[], float] = lambda: 1.0
    """By what a wait before another try is stretched, so that not all try at once."""


class Tenure:
    """Groups in memory, in step with one log.

    After `end` nothing of it is used again: a tenure is never repaired, the partition begins
    another one from the log.
    """

    def __init__(
        self,
        log: PartitionLog,
        groups: Iterable[Group],
        world: World,
        on_end: Callable[[BaseException], None],
        generations: SpentGenerations,
    ) -> None:
        self.log = log
        self.ended = False
        self.timers = world.timers
        self.actors = {group.group_id: GroupActor(group, self) for group in groups}
        self.writer = Writer(
            log,
            world.limits.max_append_bytes,
            world.clock,
            world.counters.log_append_seconds,
            world.soon,
            self._send,
            self._append_failed,
        )
        self._world = world
        self._on_end = on_end
        self._generations = generations
        self._context = Context(0, 0, world.ids, world.limits)
        self._watchdog: Cancellable | None = None
        self._outbox: list[Leaving] = []
        """What may leave and has not yet: only where there is very much of it."""
        self._is_sending = False
        self._have_waited: dict[GroupActor, list[str]] = {}
        """Members whose replies were held and have now left."""
        self._rest: asyncio.Handle | None = None
        """Sends the rest in the next turn of the event loop."""

    def begin(self) -> None:
        """Let the loaded groups go on, every member with a full session from now."""
        for group_id, actor in list(self.actors.items()):
            actor.post(Loaded(self._generations.of(group_id)))

    def submit(self, group_id: str, event: Event) -> None:
        """Take an event for a group, which need not exist."""
        actor = self.actors.get(group_id)
        if actor is None:
            actor = self.actors[group_id] = GroupActor(Group(group_id), self)
        actor.post(event)

    def forget(self, actor: GroupActor) -> None:
        """Drop the actor of a group that has ceased to exist; the id may come back."""
        if actor.is_idle and not self.writer.holds_back(actor):
            actor.stop()
            # It may have been forgotten before, and another one have taken its place.
            if self.actors.get(actor.group.group_id) is actor:
                del self.actors[actor.group.group_id]

    def end(self, failure: Failure, error: BaseException | None = None) -> None:
        """The one final step: every held, parked or waiting request is answered, once.

        With an `error` the partition is told, so that it can begin another tenure.
        """
        if self.ended:
            return
        self.ended = True
        self._generations.ended(self.actors)
        if error is not None:
            self._on_end(error)
        if self._watchdog is not None:
            self._watchdog.cancel()
        self._send_rest()
        for held in self.writer.stop():
            self._refuse_replies(held.actor.group.group_id, held.event, held.replies, failure)
            self._tell_aborted(held.observed)
        context = self.context()
        for actor in self.actors.values():
            self._send_away(actor, failure)
            for observation in actor.group.abort(context).observed:
                self._world.observe(observation)
        self.actors = {}

    async def drain(self) -> None:
        """Planned end: parked members are sent away, what is held leaves when it is durable."""
        for actor in self.actors.values():
            self._send_away(actor, Failure.SHUTTING_DOWN)
        await self.writer.drain()
        self.end(Failure.SHUTTING_DOWN)

    # --- for actors ---

    def context(self, now: int | None = None) -> Context:
        """The world as the coming turn sees it; `now` where somebody has looked already."""
        context = self._context
        context.now = self._world.clock.monotonic_ms() if now is None else now
        context.wall = self._world.clock.wall_ms()
        return context

    def carry_out(self, actor: GroupActor, event: Event, effects: Effects) -> None:
        """Append the records of a turn; send its replies when they may leave.

        The start of a rebalance is announced at once, it is provisional anyway.
        Raises TurnFailed if the records cannot be written down, which is a bug.
        """
        for observation in effects.observed:
            if type(observation) is RebalanceStarted:
                self._world.observe(observation)
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
        """What `carry_out` does for a repeated commit, which its group has accepted."""
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
            self._tell_aborted(observed)
        elif self.writer.holds_back(actor):
            # A group that has just ended is forgotten when that is durable.
            if replies or observed or actor.group.is_vacant:
                self.writer.hold(Leaving(actor, event, replies, observed, was_held=True))
        elif replies or observed:
            self._send([Leaving(actor, event, replies, observed, was_held=False)])

    def report_bug(self, group_id: str, bug: TurnFailed) -> None:
        """A turn has raised: the memory of the partition is suspect, so the log decides."""
        self._world.log_bug(group_id, bug)
        self._refuse_replies(group_id, bug.event, bug.effects.replies, Failure.NOT_AVAILABLE)
        self._tell_aborted(bug.effects.observed)
        self.end(Failure.NOT_AVAILABLE, bug)
        _refuse(getattr(bug.event, "token", None), answer_to(Failure.NOT_AVAILABLE, bug.event))

    # --- replies ---

    def _send(self, leaving: list[Leaving]) -> None:
        """Send replies and publish what happened, behind what is still on its way.

        Very many replies follow in the next turns of the event loop: this one made them.
        """
        if self._is_sending:
            self._outbox += leaving
            return
        self._outbox = leaving
        self._is_sending = True
        if len(leaving[0].replies) > _REPLIES_PER_TURN:
            self._rest = asyncio.get_running_loop().call_soon(self._send_some)
        else:
            self._send_some()

    def _send_some(self) -> None:
        """What this brings about, such as a next request, gets in line."""
        self._rest = None
        left = _REPLIES_PER_TURN
        while self._outbox and left > 0:
            left -= self._send_first(left)
        if self._have_waited:
            self._renew_sessions()
        if self._outbox:
            self._rest = asyncio.get_running_loop().call_soon(self._send_some)
        else:
            self._is_sending = False

    def _send_rest(self) -> None:
        """Send all that is on its way: it was decided, and is durable."""
        if self._rest is not None:
            self._rest.cancel()
            self._rest = None
        self._is_sending = True
        while self._outbox:
            self._send_first(len(self._outbox[0].replies))
        self._is_sending = False

    def _send_first(self, most: int) -> int:
        """Send up to `most` replies of what comes first; how much work that was."""
        leaving = self._outbox[0]
        actor, replies = leaving.actor, leaving.replies
        is_whole = len(replies) <= most
        if is_whole:
            del self._outbox[0]
        else:
            leaving.replies = replies[most:]
            replies = replies[:most]
        # Those to all members of a large group are made only now.
        made = replies if isinstance(replies, list) else list(replies)
        for reply in made:
            self._send_reply(actor, leaving.event, reply)
        if is_whole and leaving.observed:
            self._publish(leaving.observed)
        if leaving.was_held:
            self._released(actor, made)
        return len(made) or 1

    def _send_reply(self, actor: GroupActor, event: Event, reply: Reply) -> None:
        result = reply.result
        if type(result) is Committed:
            self._world.counters.offset_commits += result.errors.count(_NONE)
            if result.refused:
                tell_parts(actor.group, event, result, self._world)
        elif type(result) is Refuse:
            tell_refusal(actor.group, event, reply, self._world)
        elif (type(result) is Left or type(result) is Deleted) and result.refused:
            tell_parts(actor.group, event, result, self._world)
        _resolve(reply.token, result)

    def _publish(self, observed: Iterable[Observation]) -> None:
        for observation in observed:
            if type(observation) is not RebalanceStarted:
                self._world.observe(observation)

    def _tell_aborted(self, observed: Iterable[Observation]) -> None:
        """Rebalances whose last record is not durable have not ended well, whatever was meant."""
        for observation in observed:
            if type(observation) is RebalanceEvent:
                self._world.observe(replace(observation, outcome=Outcome.ABORTED))

    def _released(self, actor: GroupActor, replies: list[Reply]) -> None:
        """Remember which members had to wait; a group that has ended is forgotten."""
        members = [reply.member_id for reply in replies if reply.member_id is not None]
        if members:
            self._have_waited.setdefault(actor, []).extend(members)
        elif actor.group.is_vacant and not self.ended:
            self.forget(actor)

    def _renew_sessions(self) -> None:
        """Members that had to wait have their sessions start anew: all of a group at once."""
        have_waited, self._have_waited = self._have_waited, {}
        now = self._world.clock.monotonic_ms()
        for actor, members in have_waited.items():
            if not self.ended:
                actor.released(members, now)

    def _send_away(self, actor: GroupActor, failure: Failure) -> None:
        """Stop an actor and answer whoever waits for it."""
        for event in actor.stop():
            _refuse(getattr(event, "token", None), answer_to(failure, event))
            tell_unserved(actor.group.group_id, event, answer_to(failure, event), self._world)
        answer = answer_to(failure, None)
        tell_parked(actor.group, answer, self._world)
        for token in actor.group.take_parked():
            _refuse(token, answer)

    def _refuse_replies(
        self, group_id: str, event: Event, replies: Iterable[Reply], failure: Failure
    ) -> None:
        for reply in replies:
            answer = answer_to(failure, reply.result)
            tell_unserved(group_id, event, answer, self._world)
            _refuse(reply.token, answer)

    # --- the log's answer ---

    def _append_failed(self, error: BaseException) -> None:
        fenced = isinstance(error, Fenced)
        self.end(Failure.TENURE_ENDED if fenced else Failure.APPEND_FAILED, error)

    def _watch(self) -> None:
        """Look again when the append just begun is overdue."""
        if self._watchdog is None and not self.ended:
            deadline = self._world.clock.monotonic_ms() + self._world.write_timeout_ms
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
        if self._world.clock.monotonic_ms() - begun >= self._world.write_timeout_ms:
            self.end(Failure.TIMED_OUT, TimeoutError("the log does not answer"))
        else:
            deadline = begun + self._world.write_timeout_ms
            self._watchdog = self.timers.call_at(deadline, self._look)


_NONE: Final = ErrorCode.NONE
_REPLIES_PER_TURN: Final = 256
"""A turn of thousands of replies would hold up all other groups: these take some milliseconds."""


def _resolve(token: object, result: Result) -> None:
    """Answer a token. What goes wrong at its end must not keep others from their answers."""
    if isinstance(token, Ticket):
        try:
            token.resolve(result)
        except Exception as error:  # noqa: BLE001 - whoever deals with what nobody caught
            if not token.failed(error):
                message = f"an answer was not delivered: {brief(str(result))}"
                asyncio.get_running_loop().call_exception_handler(
                    {"message": message, "exception": error}
                )


def _refuse(token: object, result: Result) -> None:
    """Answer a token that may have been answered; events such as Tick have none."""
    if isinstance(token, Ticket) and token.is_pending:
        _resolve(token, result)

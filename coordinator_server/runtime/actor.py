"""The owner of a group id within a tenure: one mailbox, one turn at a time, one timer."""

import asyncio
from asyncio import CancelledError
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from coordinator_server.group.commits import RepeatedCommit
from coordinator_server.group.effects import Effects, FetchedTopic
from coordinator_server.group.events import Event, FetchOffsets, Heartbeat, Released, Tick, Token
from coordinator_server.group.group import Group, TurnFailed
from coordinator_server.group.purgatory import NEVER
from coordinator_server.loop.task_keeper import is_cancelled

if TYPE_CHECKING:
    from coordinator_server.runtime.tenure import Tenure
    from coordinator_server.runtime.timers import Cancellable

_TURNS_PER_BREATH: Final = 64
"""How many events a backlog is worked off by before other work gets a chance."""


class GroupActor:
    """Runs a group's turns in order.

    A turn runs inline when nothing is ahead of it. An event that arrives during a turn, or
    behind others, goes to the mailbox, which a task works off; mailbox and task exist only then.
    """

    __slots__ = (
        "_armed_at",
        "_busy",
        "_mailbox",
        "_task",
        "_tenure",
        "_timer",
        "group",
        "last_append",
    )

    def __init__(self, group: Group, tenure: "Tenure") -> None:
        self.group = group
        self.last_append = 0
        """Number of the last append that has records of this group; see Writer."""
        self._tenure = tenure
        self._busy = False
        self._mailbox: deque[Event] | None = None
        self._task: asyncio.Task[None] | None = None
        self._timer: Cancellable | None = None
        self._armed_at: int = NEVER

    @property
    def is_idle(self) -> bool:
        """Whether no event is being handled or waits."""
        return not self._busy and self._mailbox is None

    @property
    def is_quiet(self) -> bool:
        """Whether there is nothing to end: nobody waits, no timer runs and nobody is a member.

        Most of many groups only have offsets.
        """
        return (
            self.group.has_nothing_to_end
            and not self._busy
            and self._mailbox is None
            and self._task is None
            and self._timer is None
        )

    @property
    def queued(self) -> int:
        """How many events wait in the mailbox."""
        return 0 if self._mailbox is None else len(self._mailbox)

    @property
    def next_event(self) -> Event | None:
        """The event that is handled next, if one waits."""
        return self._mailbox[0] if self._mailbox else None

    def post(self, event: Event) -> None:
        """Take an event: now if nothing is ahead of it, in its turn otherwise."""
        if self._busy or self._mailbox is not None:
            self._enqueue(event)
        else:
            self._turn(event)

    @property
    def is_settled(self) -> bool:
        """Whether nothing is ahead of an event, and all that it could see is durable."""
        return (
            not self._busy
            and self._mailbox is None
            and self.last_append <= self._tenure.writer.durable
        )

    def fetched(self, event: FetchOffsets) -> Sequence[FetchedTopic] | None:
        """The offsets of the group, if no event is ahead of this one."""
        if not self.is_settled:
            return None
        try:
            return self.group.fetched(event)
        except (Exception, CancelledError) as error:  # noqa: BLE001 - the log decides
            self._tenure.turn_failed(self.group.group_id, event, None, error)
            return None

    def renew(self, member_id: str, instance_id: str | None, generation: int, now: int) -> bool:
        """Take a heartbeat at once, if nothing is ahead of it and it is simply accepted."""
        group = self.group
        # As `is_settled`, without a call.
        if (
            self._busy
            or self._mailbox is not None
            or self.last_append > self._tenure.writer.durable
        ):
            return False
        try:
            if not group.renew(member_id, instance_id, generation, now):
                return False
            if group.next_deadline() < self._armed_at:
                self._arm()
        except (Exception, CancelledError) as error:  # noqa: BLE001 - the log decides
            heartbeat = Heartbeat(None, member_id, instance_id, generation)
            self._tenure.turn_failed(group.group_id, heartbeat, None, error)
            return False
        return True

    def commit_again(
        self, repeat: RepeatedCommit, offsets: Sequence[bytes], token: Token, now: int
    ) -> bool:
        """Take a repeated commit at once, if nothing is ahead of it and the group accepts it."""
        if self._busy or self._mailbox is not None:
            return False
        tenure, group = self._tenure, self.group
        accepted = False
        try:
            accepted = group.takes_again(repeat, tenure.context(now))
            if not accepted:
                return False
            self._busy = True
            tenure.commit_again(self, repeat, offsets, token)
            self._busy = False
            if group.next_deadline() < self._armed_at and not tenure.ended:
                self._arm()
        except TurnFailed as bug:
            self._busy = False
            tenure.report_bug(group.group_id, bug)
        except (Exception, CancelledError) as error:  # noqa: BLE001 - the log decides
            self._busy = False
            tenure.repeat_failed(group.group_id, repeat, token if accepted else None, error)
        return accepted

    def released(self, member_ids: Sequence[str], now: int) -> None:
        """Replies that were held have left: at once if nothing is ahead of that."""
        if self._busy or self._mailbox is not None:
            self.post(Released(member_ids))
            return
        try:
            self.group.released(member_ids, now)
            if self.group.next_deadline() < self._armed_at:
                self._arm()
            if self.group.is_vacant:
                self._tenure.forget(self)
        except (Exception, CancelledError) as error:  # noqa: BLE001 - the log decides
            self._tenure.turn_failed(self.group.group_id, Released(member_ids), None, error)

    def stop(self) -> list[Event]:
        """Be of no more use: no timer rings, no turn runs; returns the events not handled."""
        timer, self._timer = self._timer, None
        task, self._task = self._task, None
        left = list(self._mailbox or ())
        self._mailbox = None
        self._tenure.waiting.discard(self)
        attempt, group_id = self._tenure.attempt, self.group.group_id
        if timer is not None:
            attempt("stop a timer", group_id, timer.cancel)
        if task is not None:
            attempt("stop a task", group_id, task.cancel)
        return left

    def _enqueue(self, event: Event) -> None:
        if self._mailbox is None:
            self._mailbox = deque()
        self._mailbox.append(event)
        self._tenure.waiting.add(self)
        if self._task is None:
            draining = self._drain()
            try:
                self._task = asyncio.get_running_loop().create_task(draining)
            except (Exception, CancelledError) as error:  # noqa: BLE001 - the log decides
                draining.close()
                self._tenure.turn_failed(self.group.group_id, event, None, error)

    async def _drain(self) -> None:
        """Work off the mailbox; whatever ends this too early ends the tenure, which answers all."""
        try:
            while self._mailbox:
                for _ in range(min(len(self._mailbox), _TURNS_PER_BREATH)):
                    self._turn(self._mailbox.popleft())
                    if self._tenure.ended:
                        return
                await asyncio.sleep(0)
            self._mailbox = self._task = None
            self._tenure.waiting.discard(self)
            if self.group.is_vacant:
                self._tenure.forget(self)
        except (Exception, CancelledError) as error:
            if is_cancelled():
                # By `stop`, or because the loop ends; if it goes on, the next event begins anew.
                self._task = None
                raise
            if not self._tenure.ended:
                self._tenure.turn_failed(self.group.group_id, Tick(), None, error)

    def _turn(self, event: Event) -> None:
        tenure = self._tenure
        effects: Effects | None = None
        self._busy = True
        try:
            effects = self.group.handle(event, tenure.context())
            tenure.carry_out(self, event, effects)
            effects = None
            self._busy = False
            if not tenure.ended:
                self._arm()
                if self.group.is_vacant:
                    tenure.forget(self)
        except TurnFailed as bug:
            self._busy = False
            tenure.report_bug(self.group.group_id, bug)
        except (Exception, CancelledError) as error:  # noqa: BLE001 - the log decides
            self._busy = False
            tenure.turn_failed(self.group.group_id, event, effects, error)
        finally:
            self._busy = False

    def _arm(self) -> None:
        """Make sure that the timer rings no later than the group's next deadline."""
        deadline = self.group.next_deadline()
        if deadline >= self._armed_at:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer, self._armed_at = None, NEVER
        self._timer = self._tenure.timers.call_at(deadline, self)
        self._armed_at = deadline

    def __call__(self) -> None:
        """The timer rings; it has the actor itself, a bound method would be 64 bytes more."""
        self._timer = None
        self._armed_at = NEVER
        if not self._tenure.ended:
            self.post(Tick())

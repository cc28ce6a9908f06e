"""Actors that report the order and the effects of their turns.

The checker is called after a turn and before any of its effects leave, so it knows the changes
and the state on which the turn decided.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from unittest.mock import patch

from coordinator_server.group.commits import RepeatedCommit
from coordinator_server.group.effects import Effects
from coordinator_server.group.events import Event, Released, Token
from coordinator_server.group.group import Group
from coordinator_server.runtime import tenure as tenure_module
from coordinator_server.runtime.actor import GroupActor
from coordinator_server.runtime.tenure import Tenure
from tests.simulation.log import VirtualLog

Turned = Callable[["WatchedActor", Event, Effects], None]
"""Called with an actor, the event that it has taken, and the effects."""


class WatchedActor(GroupActor):
    """Records the given events, and checks the order in which it takes them."""

    __slots__ = ("_given", "is_over")

    def __init__(self, group: Group, tenure: Tenure) -> None:
        super().__init__(group, tenure)
        self._given: deque[Event] = deque()
        self.is_over = False
        """Whether it was stopped and its parked requests were answered."""

    def stop(self) -> list[Event]:
        self.is_over = True
        # It takes none of them any more; while its tenure is drained others may still come.
        self._given.clear()
        return super().stop()

    @property
    def node(self) -> int:
        """The index of its node."""
        log = self._tenure.log
        assert isinstance(log, VirtualLog)
        return log.node

    def post(self, event: Event) -> None:
        self._given.append(event)
        super().post(event)

    @property
    def is_up_to_date(self) -> bool:
        """Whether it has taken all given events."""
        return not self._given

    def takes(self, event: Event) -> bool:
        """Whether this event is the next one."""
        return bool(self._given) and self._given.popleft() is event


class MailboxActor(WatchedActor):
    """An actor that never runs a turn inline."""

    __slots__ = ()

    def post(self, event: Event) -> None:
        self._given.append(event)
        self._enqueue(event)

    def commit_again(
        self, repeat: RepeatedCommit, offsets: Sequence[bytes], token: Token, now: int
    ) -> bool:
        return False

    def released(self, member_ids: Sequence[str], now: int) -> None:
        self.post(Released(member_ids))


@contextmanager
def watched_runtime(
    turned: Turned, failed: Callable[[str], None], *, mailbox: bool
) -> Iterator[None]:
    """Patch the runtime to use watched actors, inline or with a mailbox."""
    actor = MailboxActor if mailbox else WatchedActor
    carry_out, commit_again = Tenure.carry_out, Tenure.commit_again

    def watch(self: Tenure, actor: GroupActor, event: Event, effects: Effects) -> None:
        assert isinstance(actor, WatchedActor)
        if not actor.takes(event):
            failed(f"{actor.group.group_id}: {type(event).__name__} overtook what came before it")
        turned(actor, event, effects)
        carry_out(self, actor, event, effects)

    def watch_again(
        self: Tenure,
        actor: GroupActor,
        repeat: RepeatedCommit,
        offsets: Sequence[bytes],
        token: Token,
    ) -> None:
        assert isinstance(actor, WatchedActor)
        if not actor.is_up_to_date:
            failed(f"{actor.group.group_id}: a repeated commit overtook what came before it")
        effects = Effects()
        effects.reply(token, repeat.accepted)
        turned(actor, repeat.asked, effects)
        commit_again(self, actor, repeat, offsets, token)

    with (
        patch.object(tenure_module, "GroupActor", actor),
        patch.object(Tenure, "carry_out", watch),
        patch.object(Tenure, "commit_again", watch_again),
    ):
        yield

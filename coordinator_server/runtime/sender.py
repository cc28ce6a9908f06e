"""Sends the replies of a tenure: in order, a bounded number per turn of the event loop.

A failure with one reply does not stop the others: the sender delivers a reply before it reports it,
and counts and logs every exception.
"""

import asyncio
from asyncio import CancelledError
from collections.abc import Callable, Sequence
from typing import Final

from coordinator_protocol.errors import ErrorCode
from coordinator_server.group.effects import Committed, Deleted, Left, Refuse, Reply
from coordinator_server.group.events import Event
from coordinator_server.group.rebalance_events import Observation, RebalanceStarted
from coordinator_server.runtime.actor import GroupActor
from coordinator_server.runtime.answering import refuse, resolve
from coordinator_server.runtime.dependencies import RuntimeDependencies
from coordinator_server.runtime.failures import Failure, answer_to
from coordinator_server.runtime.refusals import report_partial, report_reply
from coordinator_server.runtime.writer import OutgoingReplies

REPLIES_PER_TURN: Final = 256
"""A turn of thousands of replies would hold up all other groups: these take some milliseconds."""

_NONE: Final = ErrorCode.NONE


class ReplySender:
    """Queues replies that may leave; only very many of them last beyond a turn of the loop."""

    def __init__(
        self,
        dependencies: RuntimeDependencies,
        released: Callable[[GroupActor, Sequence[Reply]], None],
        renew: Callable[[], None],
    ) -> None:
        """`released` is told of replies that had been held until an append was durable.

        `renew` is called when their members, in `have_waited`, have them.
        """
        self.have_waited: dict[GroupActor, list[str]] = {}
        """Members whose replies were held and have now left."""
        self.sent = 0
        """How many entries have left."""
        self._dependencies = dependencies
        self._released = released
        self._renew = renew
        self._queue: list[OutgoingReplies] = []
        self._is_sending = False
        self._rest: asyncio.Handle | None = None
        """Sends the rest in the next turn of the event loop."""

    @property
    def head(self) -> tuple[OutgoingReplies, Sequence[Reply]] | None:
        """The first entry of the queue and its remaining replies; None if the queue is empty."""
        return (self._queue[0], self._queue[0].replies) if self._queue else None

    def send(self, outgoing: list[OutgoingReplies]) -> None:
        """Send replies and publish what happened, behind what is still on its way.

        Very many replies follow in the next turns of the event loop: this one made them.
        """
        if self._is_sending:
            self._queue += outgoing
            return
        self._queue = outgoing
        if len(outgoing[0].replies) > REPLIES_PER_TURN and self._send_later():
            return
        self._send_some()

    def _send_later(self) -> bool:
        """Have the rest sent in the next turn of the loop; False if the loop does not take it."""
        try:
            self._rest = asyncio.get_running_loop().call_soon(self._send_some)
        except (Exception, CancelledError) as error:  # noqa: BLE001 - sent at once instead
            self._dependencies.failed("send later", "", error)
            return False
        self._is_sending = True
        return True

    def _send_some(self) -> None:
        """Send a bounded number of replies; those that sending causes join the end of the queue."""
        self._rest = None
        self._is_sending = True
        # Not read from `_rest` at the end: mypyc takes that for None still, and raises.
        has_rest = False
        try:
            while True:
                left = REPLIES_PER_TURN
                while self._queue and left > 0:
                    left -= self._send_first(left)
                if self.have_waited:
                    self._renew()
                has_rest = bool(self._queue) and self._send_later()
                if has_rest or not self._queue:
                    break
        finally:
            self._is_sending = has_rest

    def send_rest(self) -> None:
        """Send all that is on its way: it was decided, and is durable."""
        rest, self._rest = self._rest, None
        if rest is not None:
            rest.cancel()
        self._is_sending = True
        try:
            while self._queue:
                self._send_first(len(self._queue[0].replies))
        finally:
            self._is_sending = False

    def _send_first(self, most: int) -> int:
        """Send up to `most` replies of what comes first; how much work that was."""
        outgoing = self._queue[0]
        try:
            actor, replies = outgoing.actor, outgoing.replies
            is_whole = len(replies) <= most
            if not is_whole:
                replies = replies[:most]
            # Those to all members of a large group are made only now.
            made = replies if isinstance(replies, list) else list(replies)
            if is_whole:
                del self._queue[0]
            else:
                outgoing.replies = outgoing.replies[most:]
            self.sent += 1
            for reply in made:
                self._send_reply(actor, outgoing.event, reply)
            if is_whole and outgoing.observed:
                self._publish(outgoing.observed)
            if outgoing.was_held:
                self._released(actor, made)
            return len(made) or 1
        except (Exception, CancelledError) as error:  # noqa: BLE001 - the others must leave
            if self._queue and self._queue[0] is outgoing:
                del self._queue[0]
            self._dependencies.failed("send replies", outgoing.actor.group.group_id, error)
            self._refuse_rest(outgoing)
            return 1

    def _publish(self, observed: Sequence[Observation]) -> None:
        for observation in observed:
            if type(observation) is not RebalanceStarted:
                self._dependencies.publish(observation)

    def _send_reply(self, actor: GroupActor, event: Event, reply: Reply) -> None:
        """Answer first: a report that fails must not keep the answer back."""
        result = reply.result
        resolve(reply.token, result)
        if type(result) is Committed:
            self._dependencies.counters.offset_commits += result.errors.count(_NONE)
            if result.refused:
                self._report(actor, event, reply)
        elif type(result) is Refuse or (
            (type(result) is Left or type(result) is Deleted) and result.refused
        ):
            self._report(actor, event, reply)

    def _report(self, actor: GroupActor, event: Event, reply: Reply) -> None:
        """Report a refused request, or the refused parts of one."""
        result = reply.result
        try:
            if isinstance(result, Refuse):
                report_reply(actor.group, event, reply, self._dependencies)
            elif isinstance(result, Left | Committed | Deleted):
                report_partial(actor.group, event, result, self._dependencies)
        except (Exception, CancelledError) as error:  # noqa: BLE001 - it has been answered
            self._dependencies.failed("report a refusal", actor.group.group_id, error)

    def _refuse_rest(self, outgoing: OutgoingReplies) -> None:
        """Refuse the requests whose replies could not be made."""
        number, count = 0, len(outgoing.replies)
        while number < count:
            try:
                reply = outgoing.replies[number]
                refuse(reply.token, answer_to(Failure.NOT_AVAILABLE, reply.result))
            except (Exception, CancelledError) as error:  # noqa: BLE001 - others wait, too
                self._dependencies.failed("refuse", outgoing.actor.group.group_id, error)
            number += 1

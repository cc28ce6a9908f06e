"""Server-sent events: what happens to the groups, for clients that may be slow.

Every client has a bounded queue. One that does not read is dropped with an `overrun`, which tells
it to ask for the state of things when it is back.
"""

import asyncio
import json

from coordinator_server.group.rebalance_events import (
    GroupRemoved,
    MemberRemoved,
    Observation,
    OffsetsRemoved,
    RebalanceEvent,
    RebalanceStarted,
    Refused,
)
from coordinator_server.observe.forms import (
    Form,
    offsets_removed_form,
    rebalance_form,
    refused_form,
    removal_form,
    started_form,
)

QUEUE = 256
"""Events kept for a client that is slower than the groups."""

QUEUE_BYTES = 1 << 20
"""Size of these events at most; a large one is kept in any case if it is the only one."""

MAX_CLIENTS = 256


class Subscriber:
    """A client and the events it has yet to get."""

    def __init__(self, group: str | None) -> None:
        self._group = group
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue(QUEUE + 1)
        self._bytes = 0
        self.overrun = False

    def wants(self, group: str) -> bool:
        """Whether events of a group concern it."""
        return self._group is None or self._group == group

    def put(self, event: bytes) -> bool:
        """Keep an event for it; False if there are too many and it is to be dropped."""
        waiting = self._queue.qsize()
        if waiting >= QUEUE or (waiting and self._bytes + len(event) > QUEUE_BYTES):
            self.overrun = True
            self._forget()
            return False
        self._bytes += len(event)
        self._queue.put_nowait(event)
        return True

    def end(self) -> None:
        """Say that nothing more comes."""
        self._queue.put_nowait(None)

    async def next(self, patience: float) -> bytes | None:
        """The next event, None at the end; a comment if nothing happens for `patience` seconds."""
        if self.overrun:
            return None
        try:
            async with asyncio.timeout(patience):
                event = await self._queue.get()
        except TimeoutError:
            return b": still here\n\n"
        if event is not None:
            self._bytes -= len(event)
        return event

    def _forget(self) -> None:
        """Free what it will not get any more: it may not read for long."""
        while not self._queue.empty():
            self._queue.get_nowait()
        self._bytes = 0


class EventStream:
    """Hands observations to all subscribers; `observe` costs next to nothing without any."""

    def __init__(self) -> None:
        self._subscribers: set[Subscriber] = set()

    def __len__(self) -> int:
        return len(self._subscribers)

    def observe(self, observation: Observation) -> None:
        """Tell who listens; a consumer of the fan-out."""
        if not self._subscribers:
            return
        listed = [each for each in self._subscribers if each.wants(observation.group_id)]
        if not listed:
            return
        name, form = event_of(observation)
        event = f"event: {name}\ndata: {json.dumps(form)}\n\n".encode()
        for subscriber in listed:
            if not subscriber.put(event):
                self.leave(subscriber)

    def join(self, group: str | None) -> Subscriber | None:
        """A new subscriber, to all groups or to one; None if there are too many."""
        if len(self._subscribers) >= MAX_CLIENTS:
            return None
        subscriber = Subscriber(group)
        self._subscribers.add(subscriber)
        return subscriber

    def leave(self, subscriber: Subscriber) -> None:
        """Forget a subscriber, which finds the end of its events."""
        # One that has overrun was forgotten before its connection ends.
        if subscriber in self._subscribers:
            self._subscribers.discard(subscriber)
            subscriber.end()

    def close(self) -> None:
        """End all."""
        for subscriber in tuple(self._subscribers):
            self.leave(subscriber)


def event_of(observation: Observation) -> tuple[str, Form]:
    """The name of an event and its form."""
    match observation:
        case RebalanceStarted():
            return "rebalance_started", started_form(observation)
        case RebalanceEvent():
            return "rebalance", rebalance_form(observation)
        case MemberRemoved():
            return "member_removed", removal_form(observation)
        case OffsetsRemoved():
            return "offsets_removed", offsets_removed_form(observation)
        case Refused():
            return "refusal", refused_form(observation)
        case GroupRemoved():
            return "group_removed", {"group": observation.group_id}

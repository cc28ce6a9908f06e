"""Serves the last requests of a client that has disconnected, as far as they have an effect.

A producer with acks=0 closes its connection as soon as its last records are sent, and a consumer
may commit and leave without awaiting the responses: such requests are served as in Kafka. All
others are dropped at once, since nobody reads their responses. Connected clients come first.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from coordinator_protocol.api_keys import ApiKey
from coordinator_server.clock import Clock
from coordinator_server.net.fair_scheduler import FairScheduler, Schedulable, SlicedWork
from coordinator_server.net.memory import ConnectionMemory
from coordinator_server.net.session import Session
from coordinator_server.net.session_call import LateCall

LONGEST_SECONDS: Final = 30.0
"""The longest time for the remaining requests of a disconnected client."""

_LASTING_KEYS: Final = (
    ApiKey.PRODUCE,
    ApiKey.OFFSET_COMMIT,
    ApiKey.LEAVE_GROUP,
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_TOPICS,
    ApiKey.DELETE_GROUPS,
    ApiKey.OFFSET_DELETE,
)
LASTING: Final = frozenset(int(key).to_bytes(2, "big") for key in _LASTING_KEYS)
"""API keys, as in a frame, of requests that change something for others than their client."""

_LASTING: Final = frozenset(int(key) for key in _LASTING_KEYS)


class DisconnectedSession(Schedulable):
    """Implements net.context.SessionTransport for a session without a connection."""

    __slots__ = (
        "_clock",
        "_decoding",
        "_done",
        "_memory",
        "_session",
        "_task",
        "_timer",
        "_turns",
    )

    def __init__(
        self,
        session: Session,
        task: "asyncio.Task[None] | None",
        memory: ConnectionMemory | None,
        turns: FairScheduler,
        decoding: SlicedWork,
        clock: Clock,
        done: "Callable[[DisconnectedSession], None]",
    ) -> None:
        """`task` handles the request in progress, if there is one; `done` is called at the end.

        `memory` counts what is held: who goes leaves a large request behind until it is served.
        """
        self._session = session
        self._task = task
        self._memory = memory
        self._turns = turns
        self._decoding = decoding
        self._clock = clock
        self._done: Callable[[DisconnectedSession], None] | None = done
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Serve what there is in turns; the session has been told that its client has gone."""
        if self._is_in_vain():
            self._session.drop_current()
            if self._task is not None:
                self._task.cancel()
        self._go_on()
        if self._done is not None:
            self._timer = asyncio.get_running_loop().call_later(LONGEST_SECONDS, self.end)

    # --- what the session calls ---

    def wake(self) -> None:
        """A request has been answered late."""
        self._turns.add_last(self)

    def run(self, handling: Coroutine[Any, Any, None]) -> None:
        """Run the handling of a request as a task."""
        self._task = asyncio.get_running_loop().create_task(handling)

    async def in_slices(self, step: Callable[[], bool]) -> None:
        """See net.context.SessionTransport."""
        await self._decoding.run(step)

    def may_build(self, _size: int, _go_on: Callable[[], None]) -> bool:
        """Go on: what is served of clients that have gone has no large responses."""
        return True

    async def aside(self, work: Callable[[], Any]) -> Any:
        """Do work in a thread; the loop gets its turns meanwhile."""
        return await asyncio.to_thread(work)

    # --- what its turns call ---

    def flush(self) -> bool:
        """Go on with what waits; nobody is going to send more."""
        session = self._session
        if session.is_ready:
            session.proceed(self._clock.monotonic_ms(), self._turns.share)
            session.take()
        self._go_on()
        return False

    def failed(self, error: BaseException) -> None:
        """Serving what is left has raised: give it up."""
        try:
            self._session.report_failure(error)
        finally:
            self.end()

    def rest(self) -> int:
        """See Parkable."""
        return -1

    def wake_up(self) -> None:
        """See Parkable."""

    # --- what the server calls ---

    def drain(self) -> None:
        """Begin no further request."""
        self._session.drain()
        self._go_on()

    def end(self) -> None:
        """Give up what is left."""
        done, self._done = self._done, None
        if done is None:
            return
        try:
            self._session.abandon()
            self._count()
            if self._task is not None:
                self._task.cancel()
            if self._timer is not None:
                self._timer.cancel()
        finally:
            done(self)

    # --- the rest ---

    def _go_on(self) -> None:
        """Have the next requests served when the others have had their turn."""
        session = self._session
        self._count()
        if session.ended is not None or session.is_idle:
            self.end()
        elif session.is_ready:
            self._turns.add_last(self)

    def _count(self) -> None:
        """Tell the memory budget what is still held."""
        if self._memory is not None:
            self._memory.keep(self._session.held, self._clock.monotonic_ms())

    def _is_in_vain(self) -> bool:
        """Whether nobody needs what is in progress."""
        current = self._session.current
        if current is None:
            return False
        return current.api_key not in _LASTING or isinstance(current, LateCall)

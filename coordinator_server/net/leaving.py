"""What a client has sent before it went: it is served as in Kafka, and answered to nobody.

A producer with acks=0 closes its connection as soon as its last records are sent. What waits for
other clients or for time to pass is given up, and what takes long to answer and changes nothing.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from coordinator_server.clock import Clock
from coordinator_server.net.call import LateCall
from coordinator_server.net.session import Session
from coordinator_server.net.turns import Flushed, Turns
from protocol.api_keys import ApiKey

LONGEST_SECONDS: Final = 30.0
"""How long the requests of a client that has gone may take."""

_READS: Final = (int(ApiKey.FETCH), int(ApiKey.LIST_OFFSETS), int(ApiKey.LIST_GROUPS))
_IN_VAIN: Final = (*_READS, int(ApiKey.JOIN_GROUP), int(ApiKey.SYNC_GROUP))


class Leaving(Flushed):
    """Implements net.context.Shell for a session without a connection."""

    __slots__ = ("_clock", "_done", "_session", "_task", "_timer", "_turns")

    def __init__(
        self,
        session: Session,
        task: "asyncio.Task[None] | None",
        turns: Turns,
        clock: Clock,
        done: "Callable[[Leaving], None]",
    ) -> None:
        """`task` handles the request in progress, if there is one; `done` is called at the end."""
        self._session = session
        self._task = task
        self._turns = turns
        self._clock = clock
        self._done: Callable[[Leaving], None] | None = done
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Serve what can be served at once."""
        self._session.leave(self)
        self._go_on()
        if self._done is not None:
            self._timer = asyncio.get_running_loop().call_later(LONGEST_SECONDS, self.end)

    # --- what the session calls ---

    def wake(self) -> None:
        """A request has been answered late."""
        self._turns.add(self)

    def run(self, handling: Coroutine[Any, Any, None]) -> None:
        """Run the handling of a request, unless only its answer matters."""
        current = self._session.current
        if current is not None and current.api_key in _READS:
            handling.close()
        else:
            self._task = asyncio.get_running_loop().create_task(handling)

    async def aside(self, work: Callable[[], Any]) -> Any:
        """Do work in a thread; the loop gets its turns meanwhile."""
        return await asyncio.to_thread(work)

    # --- what its turns call ---

    def flush(self) -> bool:
        """Go on with what waits; nobody is going to send more."""
        self._go_on()
        return False

    def rest(self) -> int:
        """See Resting."""
        return -1

    def wake_up(self) -> None:
        """See Resting."""

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
        self._session.abandon()
        if self._task is not None:
            self._task.cancel()
        if self._timer is not None:
            self._timer.cancel()
        done(self)

    # --- the rest ---

    def _go_on(self) -> None:
        """Serve some of what waits: others have their turns, too."""
        session = self._session
        if self._is_in_vain():
            session.current = None
            if self._task is not None:
                self._task.cancel()
        if session.is_ready:
            session.proceed(self._clock.monotonic_ms())
            session.take()
        if session.ended is not None or session.is_idle:
            self.end()
        elif session.is_ready or self._is_in_vain():
            self._turns.add(self)

    def _is_in_vain(self) -> bool:
        """Whether nobody needs what is in progress."""
        current = self._session.current
        if current is None:
            return False
        return current.api_key in _IN_VAIN or isinstance(current, LateCall)

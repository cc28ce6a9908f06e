"""Shares each turn of the event loop among the connections that have requests.

Thousands of members that join at once are thousands of sockets that are ready at once. Their
requests are served a few milliseconds long, then everybody is looked at again: somebody's heartbeat
among them must not wait for all joins.
"""

import asyncio
from abc import abstractmethod
from asyncio import CancelledError
from collections.abc import Callable
from itertools import islice
from typing import Final

from coordinator_server.clock import Clock
from coordinator_server.loop.batching import Soon
from coordinator_server.net.connection_parking import Parkable, ParkedConnections

LONGEST_MS: Final = 3
"""Of a turn, for requests that came in it and for those that were put off."""

MOST_PER_TURN: Final = 256
"""Connections that go on in one turn: so many writes take two or three milliseconds."""

LOOKS_EVERY: Final = 4
"""Connections between two looks at the clock: one may have a request that takes long."""

CROWDED: Final = 128
"""Connections that wait for a turn from which on they are a crowd."""

SHARED: Final = 256
"""Requests that those connections may serve together before each of them has had its turn."""

LEAST_SHARE: Final = 4
MOST_SHARE: Final = 64
"""Bounds of a connection's part of these."""


class Schedulable(Parkable):
    """A connection."""

    __slots__ = ()

    @abstractmethod
    def flush(self) -> bool:
        """Go on with what waits, and send what there is; whether nothing is in progress then."""


class SlicedWork:
    """Work of many slices, done one after the other with turns of the event loop in between."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def run(self, step: Callable[[], bool]) -> None:
        """Call `step` until it returns True, once all work that was begun before is done."""
        async with self._lock:
            while not step():  # noqa: ASYNC110 - the other work needs the turns in between
                await asyncio.sleep(0)


class FairScheduler:
    """The connections that go on in the next turn of the loop, in the order in which they asked."""

    __slots__ = ("_began_ms", "_clock", "_crowd", "_is_due", "_last", "_soon", "_waiting", "share")

    def __init__(self, soon: Soon, clock: Clock) -> None:
        self._soon = soon
        self._clock = clock
        self._began_ms: int | None = None
        """When the first request came that was served in this turn."""
        self._is_due = False
        """Whether those who wait are going to be looked at."""
        self._waiting: dict[Schedulable, None] = {}
        self._last: dict[Schedulable, None] = {}
        """Those whose clients have gone: they have the time that the others leave."""
        self.share = MOST_SHARE
        """Requests that a connection may serve in its turn: the fewer, the more wait."""
        self._crowd = ParkedConnections()

    def has_time(self, connection: Schedulable, now_ms: int) -> bool:
        """Whether a request that has just come may be served before the next turn.

        Its client is silent no more.
        """
        silent = self._crowd.silent
        if silent:
            silent.discard(connection)
        if self._began_ms is None:
            self._began_ms = now_ms
            asyncio.get_running_loop().call_soon(self._end)
        return now_ms - self._began_ms < LONGEST_MS

    def forget(self, connection: Schedulable) -> None:
        """A connection is closed."""
        self._crowd.remove(connection)

    def _end(self) -> None:
        self._began_ms = None

    def add(self, connection: Schedulable) -> None:
        """Have `connection.flush` called once, soon."""
        self._waiting[connection] = None
        if not self._is_due:
            self._soon(self._run)
            self._is_due = True

    def add_last(self, connection: Schedulable) -> None:
        """Have `connection.flush` called once, when nobody else waits or time is left."""
        self._last[connection] = None
        if not self._is_due:
            self._soon(self._run)
            self._is_due = True

    def _run(self) -> None:
        """Let some go on; a group of thousands that is answered must not hold up all others.

        A connection that raises ends, and the others have their turn.
        """
        self._is_due = False
        try:
            self._run_some()
        finally:
            # The rest is in front of those who have asked meanwhile.
            if (self._waiting or self._last) and not self._is_due:
                asyncio.get_running_loop().call_soon(self._run)
                self._is_due = True

    def _run_some(self) -> None:
        waiting, clock, served = self._waiting, self._clock, 0
        is_crowd = len(waiting) >= CROWDED
        self.share = max(min(SHARED // (len(waiting) + 1), MOST_SHARE), LEAST_SHARE)
        until_ms = clock.monotonic_ms() + LONGEST_MS
        for connection in [*islice(waiting, MOST_PER_TURN)]:
            served += 1  # noqa: SIM113 - compiled, enumerate is slower
            del waiting[connection]
            try:
                if connection.flush() and is_crowd:
                    self._crowd.add(connection)
            except (Exception, CancelledError) as error:  # noqa: BLE001 - of whatever kind
                connection.failed(error)
            if served % LOOKS_EVERY == 0 and clock.monotonic_ms() >= until_ms:
                break
        if self._last:
            self._run_last(until_ms)

    def _run_last(self, until_ms: int) -> None:
        """Serve one of those whose clients have gone, and more if there is time."""
        self.share = LEAST_SHARE
        for connection in [*islice(self._last, MOST_PER_TURN)]:
            del self._last[connection]
            try:
                connection.flush()
            except (Exception, CancelledError) as error:  # noqa: BLE001 - of whatever kind
                connection.failed(error)
            if self._clock.monotonic_ms() >= until_ms:
                break

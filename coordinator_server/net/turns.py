"""How much of a turn of the event loop requests may take, and whose turn it is.

Thousands of members that join at once are thousands of sockets that are ready at once. Their
requests are served a few milliseconds long, then everybody is looked at again: somebody's heartbeat
among them must not wait for all joins. The event loop reads all sockets that are ready before it
does anything else; so of thousands that are answered most rest then, and few by few are read again.
"""

import asyncio
from collections import OrderedDict, deque
from typing import Final, Protocol

from coordinator_server.ports import Clock
from coordinator_server.soon import Soon

LONGEST_MS: Final = 5
"""Of a turn, for requests that came in it and for those that were put off."""

MOST_PER_TURN: Final = 256
"""Connections that go on in one turn: so many writes take two or three milliseconds."""

LOOKS_EVERY: Final = 4
"""Connections between two looks at the clock: one may have a request that takes long."""

CROWD: Final = 128
"""Connections that wait for a turn from which on they are a crowd."""

READ_AT_ONCE: Final = 1_024
"""Connections of crowds that may all go on at once: to read so many takes some milliseconds."""

READ_AGAIN: Final = 64
"""Connections that have rested and are read again, together."""

REST_SECONDS: Final = 0.001
"""From some that are read again to the next."""


class Flushed(Protocol):
    """A connection."""

    def flush(self) -> bool:
        """Go on with what waits, and send what there is; whether nothing is in progress then."""
        ...

    def rest(self) -> None:
        """Read nothing until `read_again`."""
        ...

    def read_again(self) -> None:
        """The rest is over."""
        ...


class Turns:
    """The connections that go on in the next turn of the loop, in the order in which they asked."""

    __slots__ = ("_began_ms", "_clock", "_is_due", "_resting", "_silent", "_soon", "_waiting")

    def __init__(self, soon: Soon, clock: Clock) -> None:
        self._soon = soon
        self._clock = clock
        self._began_ms: int | None = None
        """When the first request came that was served in this turn."""
        self._is_due = False
        """Whether those who wait are going to be looked at."""
        self._waiting: OrderedDict[Flushed, None] = OrderedDict()
        self._silent: set[Flushed] = set()
        """Those of a crowd that have been answered and not been heard of since."""
        self._resting: deque[Flushed] = deque()

    def has_time(self, connection: Flushed, now_ms: int) -> bool:
        """Whether a request that has just come may be served before the next turn."""
        self._silent.discard(connection)
        if self._began_ms is None:
            self._began_ms = now_ms
            asyncio.get_running_loop().call_soon(self._end)
        return now_ms - self._began_ms < LONGEST_MS

    def forget(self, connection: Flushed) -> None:
        """A connection is gone."""
        self._silent.discard(connection)

    def _end(self) -> None:
        self._began_ms = None

    def add(self, connection: Flushed) -> None:
        """Have `connection.flush` called once, soon."""
        self._waiting[connection] = None
        if not self._is_due:
            self._is_due = True
            self._soon(self._run)

    def _run(self) -> None:
        """Let some go on; a group of thousands that is answered must not hold up all others."""
        self._is_due = False
        waiting, clock = self._waiting, self._clock
        is_crowd = len(waiting) >= CROWD
        until_ms = clock.monotonic_ms() + LONGEST_MS
        for number in range(1, min(len(waiting), MOST_PER_TURN) + 1):
            connection, _ = waiting.popitem(last=False)
            if connection.flush() and is_crowd:
                self._silent.add(connection)
                if len(self._silent) > READ_AT_ONCE:
                    self._rest(connection)
            if number % LOOKS_EVERY == 0 and clock.monotonic_ms() >= until_ms:
                break
        if waiting and not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._run)

    def _rest(self, connection: Flushed) -> None:
        connection.rest()
        if not self._resting:
            asyncio.get_running_loop().call_later(REST_SECONDS, self._read_again)
        self._resting.append(connection)

    def _read_again(self) -> None:
        resting = self._resting
        for _ in range(min(len(resting), READ_AGAIN)):
            resting.popleft().read_again()
        if resting:
            asyncio.get_running_loop().call_later(REST_SECONDS, self._read_again)

"""One memory budget for the data of all clients: `queued.max.request.bytes`.

The budget covers requests that are being received, requests in progress and responses that clients
have not read. A connection that holds little is not looked at, so heartbeats and plain commits go
on while the budget is used up:

- A frame of more than `RESERVED_FROM` bytes is read on once the budget has room for it. The more
  is free, the larger the frames that are let in at once; of those that wait, the one that waited
  for `AGED_MS` comes next. The room is reserved before the frame is read, so frames that are read
  can always be completed and never wait for each other.
- While the budget is full, connections that hold more than `UNCOUNTED` bytes are not read, and no
  request is begun whose response may be large.
- A response counts while it is encoded. One of more than `SMALL_RESPONSE` bytes is encoded on
  while a quarter of the budget is free, and no other one is: those that have begun are completed
  and counted before the next takes memory.
- Who keeps room that others wait for is closed in time: a client that sends a reserved frame too
  slowly, and one that does not read its responses.
"""

import math
from collections.abc import Callable
from itertools import islice
from typing import Final

from coordinator_server.net.heap import MAPPED_FROM, map_large_blocks
from coordinator_server.observe.counters import ClientMemory

UNLIMITED: Final = 1 << 62

UNCOUNTED: Final = 1 << 12
"""Bytes that a connection may hold without being counted."""

RESERVED_FROM: Final = 1 << 16
"""Size of a frame above which its memory is reserved before it is read on."""

AGED_MS: Final = 5_000
"""After which no smaller frame is let in before one that waits."""

SENDING_GRACE_MS: Final = 5_000
SENDING_BYTES_PER_MS: Final = 4_096
"""The least speed of a reserved frame while others wait: a grace period, and 4 MiB/s."""

READING_GRACE_MS: Final = 60_000
READING_BYTES_PER_MS: Final = 64
"""The least speed at which responses are read: a grace period, and 64 KB/s."""

FULL_GRACE_MS: Final = 10_000
FULL_BYTES_PER_MS: Final = 1_024
"""The same while the budget is full or somebody waits: a grace period, and 1 MiB/s."""

WAITING_GRACE_MS: Final = 30_000
"""The longest wait of connections that hold the memory they wait for themselves."""

SMALL_RESPONSE: Final = 1 << 18
"""Size of a response up to which it is encoded whatever others do."""

_LOOKED_AT: Final = 64
"""Waiting connections that are looked at when memory is free again."""


class MemoryBudget:
    """Counts the bytes that connections hold, and says who may go on."""

    __slots__ = (
        "_builder",
        "_builders",
        "_paused",
        "_reserved",
        "_waiting",
        "holders",
        "is_full",
        "limit",
        "peak",
        "used",
    )

    def __init__(self, limit: int = UNLIMITED) -> None:
        self.limit = limit
        self.used = 0
        self.peak = 0
        """The most since somebody has set it back."""
        self.is_full = False
        self.holders: set[ConnectionMemory] = set()
        """The connections that hold anything that counts."""
        self._reserved = 0
        """The number of those with room reserved for a frame."""
        self._waiting: dict[ConnectionMemory, int] = {}
        """Connections with a large frame that is not read on, and since when (monotonic ms)."""
        self._paused: dict[ConnectionMemory, int] = {}
        """The same of those without: they go on as soon as the budget is not full."""
        self._builder: ConnectionMemory | None = None
        """The connection whose large response is being encoded."""
        self._builders: dict[ConnectionMemory, Callable[[], None]] = {}
        """Those with responses that are not encoded on, and what goes on with them."""

    @property
    def waiting(self) -> int:
        """The number of connections that wait for memory."""
        return len(self._waiting) + len(self._paused) + len(self._builders)

    def figures(self) -> ClientMemory:
        """The values of the metrics."""
        limit = math.inf if self.limit == UNLIMITED else self.limit
        return ClientMemory(self.used, limit, self.waiting)

    def add(self, memory: "ConnectionMemory", now_ms: int) -> None:
        """Have a connection wait until there is room for what it wants."""
        place, other = self._waiting, self._paused
        if not memory.wanted:
            place, other = other, place
        since_ms = other.pop(memory, now_ms)
        place.setdefault(memory, since_ms)

    def remove(self, memory: "ConnectionMemory") -> None:
        """A connection does not wait any more."""
        self._waiting.pop(memory, None)
        self._paused.pop(memory, None)

    def waits_since(self, memory: "ConnectionMemory") -> int | None:
        """When a connection began to wait."""
        return self._waiting.get(memory, self._paused.get(memory))

    def change(self, by: int) -> None:
        """Count bytes that are held from now on, or not any more."""
        self.used += by
        self.peak = max(self.peak, self.used)
        self.is_full = self.used >= self.limit

    def count_reservation(self, by: int) -> None:
        """Count frames that have room reserved."""
        self._reserved += by

    def lets_in(self, frame: int, now_ms: int) -> bool:
        """Whether a frame that is announced now may be read on."""
        for since_ms in self._waiting.values():
            return now_ms - since_ms < AGED_MS and self._fits(frame, is_aged=False)
        return self._fits(frame, is_aged=False)

    def admit(self, now_ms: int) -> None:
        """Let go on who waits and has room, in order; an aged one is not overtaken."""
        # However many large frames wait: none of these wants more room than it has.
        for memory in [*islice(self._paused, _LOOKED_AT)]:
            if self.is_full:
                break
            self._paused.pop(memory, None)
            memory.go_on(now_ms)
        for memory, since_ms in [*islice(self._waiting.items(), _LOOKED_AT)]:
            is_aged = now_ms - since_ms >= AGED_MS
            if self._fits(memory.wanted, is_aged=is_aged):
                self._waiting.pop(memory, None)
                memory.go_on(now_ms)
            elif is_aged:
                break
        self._let_build()

    def may_build(self, memory: "ConnectionMemory", size: int, go_on: Callable[[], None]) -> bool:
        """Whether a response of `size` bytes so far may be encoded on; else `go_on` is called."""
        if memory is self._builder:
            return True
        if size <= SMALL_RESPONSE and not self.is_full:
            return True
        if self._builder is None and not self._builders and self._has_room_to_build():
            self._builder = memory
            return True
        self._builders[memory] = go_on
        return False

    def end_building(self, memory: "ConnectionMemory") -> None:
        """A response is complete and counted, or given up."""
        self._builders.pop(memory, None)
        if memory is self._builder:
            self._builder = None
            self._let_build()

    def _let_build(self, *, is_sole_way: bool = False) -> None:
        """Have the next large response encoded on if there is memory for it."""
        if self._builder is not None or not self._builders:
            return
        if is_sole_way or self._has_room_to_build():
            memory = next(iter(self._builders))
            self._builder = memory
            self._builders.pop(memory)()

    def _has_room_to_build(self) -> bool:
        return 4 * self.used <= 3 * self.limit

    def _fits(self, frame: int, *, is_aged: bool) -> bool:
        """Whether there is room for a frame and, at the end, what is decoded from it."""
        free, room = self.limit - self.used, 2 * frame
        # The only one: frames may be nearly as large as the budget, and those that wait hold a bit.
        if not self._reserved and (frame <= free or 2 * self.used <= self.limit):
            return True
        return room <= free - self.limit // 8 if is_aged else 2 * room <= free

    def sweep(self, now_ms: int) -> None:
        """Close who has kept memory for too long, and let go on who has waited long enough.

        Connections that wait hold memory, too. Where they wait for nobody else, the largest are
        closed until an eighth of the budget is free again.
        """
        is_short = self.is_full or self.waiting > 0
        stuck, is_awaited = [], False
        for memory in [*self.holders]:
            is_awaited |= memory.is_awaited
            why = memory.why_overdue(now_ms, is_short=is_short)
            if why is not None:
                memory.close(why)
            elif is_short and memory.has_waited_long(now_ms):
                stuck.append(memory)
        if is_awaited:
            stuck = []
        freed = 0
        for memory in sorted(stuck, key=_held, reverse=True):
            if freed * 8 > self.limit:
                break
            freed += memory.held
            memory.close("memory")
        if self.waiting:
            self.admit(now_ms)
        if not is_awaited:
            # All memory is held by who waits for it: nothing would ever be free.
            self._let_build(is_sole_way=True)


class ConnectionMemory:
    """The bytes that one connection holds."""

    __slots__ = (
        "_budget",
        "_held",
        "_is_building",
        "_reserved",
        "_reserved_ms",
        "_resume",
        "_unread",
        "_unread_ms",
        "close",
        "is_paused",
        "wanted",
    )

    def __init__(
        self, budget: MemoryBudget, resume: Callable[[], None], close: Callable[[str], None]
    ) -> None:
        """`resume` is called when the connection may be read again, `close` to end it."""
        self._budget = budget
        self._resume = resume
        self.close = close
        self._held = 0
        self._reserved = 0
        """Size of the frame that room is reserved for."""
        self._reserved_ms = 0
        self._unread = 0
        """The most bytes of responses that the client has left unread since `_unread_ms`."""
        self._unread_ms = 0
        self._is_building = False
        """Whether a response is encoded that may be large."""
        self.is_paused = False
        """Whether the connection waits for memory, and must not be read."""
        self.wanted = 0
        """Size of the frame that it waits with; 0 of a small one, or none."""

    @property
    def held(self) -> int:
        """The counted memory of the connection, in bytes."""
        return self._held

    def update(
        self,
        held: int,
        announced: int,
        unread: int,
        now_ms: int,
        *,
        must_wait: bool = False,
        is_building: bool = False,
    ) -> None:
        """Count what the connection holds now, and find out whether it may be read on.

        Args:
            held: bytes received that belong to no request yet, and those of the one in progress.
            announced: size of the incomplete frame, if it is the next request.
            unread: bytes of responses that wait until the client reads.
            now_ms: monotonic milliseconds.
            must_wait: the connection has a request that is not begun while the budget is full.
            is_building: its response is encoded in several turns, and included in `held`.
        """
        budget = self._budget
        if unread and not self._unread:
            self._unread_ms = now_ms
        self._unread = max(self._unread, unread) if unread else 0
        wanted = announced if announced > RESERVED_FROM else 0
        if self._reserved and self._reserved != wanted:
            self._reserved = 0
            budget.count_reservation(-1)
        if wanted and not self._reserved:
            self._want(wanted, now_ms)
        elif budget.is_full and (must_wait or held > UNCOUNTED) and not self._reserved:
            self._wait(0, now_ms)
        elif self.is_paused and (not must_wait or not budget.is_full):
            self.is_paused = False
            budget.remove(self)
        self._count(max(held, 2 * self._reserved) + unread, now_ms)
        if self._is_building and not is_building:
            self._is_building = False
            budget.end_building(self)

    def may_build(self, size: int, go_on: Callable[[], None]) -> bool:
        """See MemoryBudget.may_build."""
        self._is_building = True
        return self._budget.may_build(self, size, go_on)

    def keep(self, held: int, now_ms: int) -> None:
        """The connection is closed: it waits for nothing, and has no more than so many bytes."""
        self.is_paused = False
        self._budget.remove(self)
        if self._reserved:
            self._reserved = 0
            self._budget.count_reservation(-1)
        self._unread = 0
        self._count(held, now_ms)
        if self._is_building:
            self._is_building = False
            self._budget.end_building(self)

    def go_on(self, now_ms: int) -> None:
        """There is room for what the connection has waited with."""
        self.is_paused = False
        if self.wanted:
            self._reserve(self.wanted, now_ms)
            self._count(max(self._held, 2 * self._reserved), now_ms)
        self._resume()

    def why_overdue(self, now_ms: int, *, is_short: bool) -> str | None:
        """Why the connection is to be closed, if it is: it keeps memory for too long."""
        if self._unread:
            grace_ms, rate = READING_GRACE_MS, READING_BYTES_PER_MS
            if is_short:
                grace_ms, rate = FULL_GRACE_MS, FULL_BYTES_PER_MS
            if now_ms - self._unread_ms > grace_ms + self._unread // rate:
                return "not_reading"
        if is_short and self._reserved:
            longest_ms = SENDING_GRACE_MS + self._reserved // SENDING_BYTES_PER_MS
            return "slow_request" if now_ms - self._reserved_ms > longest_ms else None
        return None

    @property
    def is_awaited(self) -> bool:
        """Whether memory will be free when this client has sent its request or read its responses.

        It does so in time, or is closed.
        """
        return self._reserved > 0 or self._unread > 0

    def has_waited_long(self, now_ms: int) -> bool:
        """Whether the connection has waited too long for memory."""
        since_ms = self._budget.waits_since(self)
        return since_ms is not None and now_ms - since_ms > WAITING_GRACE_MS

    def _want(self, frame: int, now_ms: int) -> None:
        if self._budget.waits_since(self) is None and self._budget.lets_in(frame, now_ms):
            self._reserve(frame, now_ms)
        else:
            self._wait(frame, now_ms)

    def _wait(self, frame: int, now_ms: int) -> None:
        self.is_paused = True
        self.wanted = frame
        self._budget.add(self, now_ms)

    def _reserve(self, frame: int, now_ms: int) -> None:
        if frame >= MAPPED_FROM:
            map_large_blocks()
        self._reserved, self._reserved_ms = frame, now_ms
        self._budget.count_reservation(1)

    def _count(self, held: int, now_ms: int) -> None:
        budget, by = self._budget, held - self._held
        if not by:
            return
        self._held = held
        if held:
            budget.holders.add(self)
        else:
            budget.holders.discard(self)
        budget.change(by)
        if by < 0 and budget.waiting:
            budget.admit(now_ms)


def _held(memory: ConnectionMemory) -> int:
    return memory.held

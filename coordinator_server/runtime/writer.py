"""Appends a tenure's records and holds every reply until what it could have seen is durable.

Records of one turn of the event loop go out as one append. A reply waits for the last unsynced
record of its own group, reads included, and for nothing else.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from struct import Struct
from typing import Final, NamedTuple

from coordinator_server.group.effects import Effects, Write, WriteOffsets
from coordinator_server.group.events import Event
from coordinator_server.observe.counters import Histogram
from coordinator_server.ports import Clock
from coordinator_server.runtime.actor import GroupActor
from coordinator_server.storage.base import LogRecord, PartitionLog
from protocol.records import encode_key, encode_value, offset_key_prefix


class Held(NamedTuple):
    """What leaves once an append is durable."""

    actor: GroupActor
    event: Event
    effects: Effects


class Writer:
    """The open batch, the appends in flight, and what waits for them.

    Appends are numbered from 1; number n is durable when `durable >= n`.
    """

    def __init__(
        self,
        log: PartitionLog,
        max_append_bytes: int,
        clock: Clock,
        append_seconds: Histogram,
        release: Callable[[Sequence[Held]], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self.durable = 0
        self._log = log
        self._max_bytes = max_append_bytes
        self._clock = clock
        self._append_seconds = append_seconds
        self._release = release
        self._failed = failed
        self._open: list[LogRecord] = []
        self._open_bytes = _BATCH_BYTES
        self._number = 1
        """The number the open batch will have."""
        self._in_flight: deque[tuple[int, asyncio.Future[int], int]] = deque()
        """Number, future and the monotonic time it was begun."""
        self._held: dict[int, list[Held]] = {}
        """By the number of the append they wait for."""
        self._flush_handle: asyncio.Handle | None = None
        self._drained: asyncio.Future[None] | None = None
        """What `drain` waits for."""
        self._stopped = False

    @property
    def oldest_begun(self) -> int | None:
        """When the oldest append in flight was begun (monotonic milliseconds)."""
        return self._in_flight[0][2] if self._in_flight else None

    def append(self, actor: GroupActor, writes: Sequence[Write | WriteOffsets], wall: int) -> None:
        """Put a turn's records into the open batch; it leaves at the end of this loop turn.

        They stay together, unless they alone are too many for one append.
        """
        records: list[LogRecord] = []
        size = 0
        for write in writes:
            if isinstance(write, WriteOffsets):
                size += _add_offsets(write, wall, records)
            else:
                record = _record(write, wall)
                records.append(record)
                size += _size(record)
        self._make_room(size)
        if self._open_bytes + size <= self._max_bytes:
            self._open += records
            self._open_bytes += size
        else:
            self._add_one_by_one(records)
        actor.last_append = self._number
        if self._flush_handle is None and self._open:
            self._flush_handle = asyncio.get_running_loop().call_soon(self._flush)

    def _add_one_by_one(self, records: Sequence[LogRecord]) -> None:
        for record in records:
            size = _size(record)
            self._make_room(size)
            self._open.append(record)
            self._open_bytes += size

    def _make_room(self, size: int) -> None:
        if self._open and self._open_bytes + size > self._max_bytes:
            self._flush()

    def holds_back(self, actor: GroupActor) -> bool:
        """Whether records of the group are not durable yet."""
        return actor.last_append > self.durable

    def hold(self, actor: GroupActor, event: Event, effects: Effects) -> None:
        """Keep what an event brought about until the group's last record is durable."""
        self._held.setdefault(actor.last_append, []).append(Held(actor, event, effects))

    def stop(self) -> list[Held]:
        """Be of no more use: results of appends are ignored; returns what was held."""
        self._stopped = True
        if self._flush_handle is not None:
            self._flush_handle.cancel()
        self._open.clear()
        self._wake_drain()
        held, self._held = self._held, {}
        return [item for number in sorted(held) for item in held[number]]

    async def drain(self) -> None:
        """Flush and wait until everything appended is durable or has failed."""
        self._flush()
        if self._in_flight and not self._stopped:
            self._drained = asyncio.get_running_loop().create_future()
            await self._drained

    def _wake_drain(self) -> None:
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    def _flush(self) -> None:
        """Send the open batch off."""
        if self._flush_handle is not None:
            self._flush_handle.cancel()
            self._flush_handle = None
        if self._stopped or not self._open:
            return
        records, self._open, self._open_bytes = self._open, [], _BATCH_BYTES
        number, self._number = self._number, self._number + 1
        try:
            future = self._log.append(records)
        except Exception as error:  # noqa: BLE001 - an append may fail at once, too
            self._failed(error)
            return
        self._in_flight.append((number, future, self._clock.monotonic_ms()))
        if future.done():
            self._appended(future)
        else:
            future.add_done_callback(self._appended)

    def _appended(self, future: "asyncio.Future[int]") -> None:
        if self._stopped and not future.cancelled():
            future.exception()  # nobody else will look, and asyncio would complain
        while self._in_flight and self._in_flight[0][1].done() and not self._stopped:
            number, first, begun = self._in_flight.popleft()
            self._append_seconds.observe((self._clock.monotonic_ms() - begun) / 1000)
            if first.cancelled():
                self._failed(asyncio.CancelledError())
            elif (error := first.exception()) is not None:
                self._failed(error)
            else:
                self._became_durable(number)
        if not self._in_flight:
            self._wake_drain()

    def _became_durable(self, number: int) -> None:
        self.durable = number
        held = self._held.pop(number, None)
        if held is not None:
            self._release(held)


_BATCH_BYTES: Final = 64
"""More than a batch has beside its records."""


def _record(write: Write, wall: int) -> LogRecord:
    value = write.raw
    if value is None and write.value is not None:
        value = encode_value(write.value)
    return LogRecord(encode_key(write.key), value, wall, write.headers)


def _add_offsets(write: WriteOffsets, wall: int, records: list[LogRecord]) -> int:
    """Add the records of commits; an upper bound of what they take in a batch."""
    prefix, pack, offsets = offset_key_prefix(write.group_id, write.topic), _pack_int, write.offsets
    records += [LogRecord(prefix + pack(partition), value, wall) for partition, value in offsets]
    each = len(prefix) + 4 + _RECORD_BYTES
    return each * len(offsets) + sum([len(value) for _, value in offsets])


_pack_int: Final = Struct(">i").pack
_RECORD_BYTES: Final = 64
"""More than a record has beside its key, value and headers."""


def _size(record: LogRecord) -> int:
    """An upper bound of what a record takes in a batch."""
    size = len(record.key or b"") + len(record.value or b"") + _RECORD_BYTES
    if record.headers:
        size += sum(len(name) * 4 + len(value) + 20 for name, value in record.headers)
    return size

"""Appends a tenure's records and holds every reply until what it could have seen is durable.

Records of one turn of the event loop go out as one append. A reply waits for the last unsynced
record of its own group, reads included, and for nothing else.
"""

import asyncio
from asyncio import CancelledError
from collections.abc import Callable, Sequence

from coordinator_protocol.batch_builder import NewBatch
from coordinator_protocol.commit_template import MOST_RECORDS, CommitTemplate
from coordinator_protocol.records import encode_key, encode_value, offset_key_prefix
from coordinator_server.clock import Clock
from coordinator_server.group.context import Context
from coordinator_server.group.effects import Reply, Write, WriteOffsets
from coordinator_server.group.events import Event
from coordinator_server.group.rebalance_events import Observation
from coordinator_server.loop.batching import Soon
from coordinator_server.observe.counters import Histogram
from coordinator_server.runtime.actor import GroupActor
from coordinator_server.storage.base import AppendCallback, PartitionLog


class OutgoingReplies:
    """The replies and observations of one turn on their way out."""

    __slots__ = ("actor", "event", "observed", "replies", "was_held")

    def __init__(
        self,
        actor: GroupActor,
        event: Event,
        replies: Sequence[Reply],
        observed: Sequence[Observation],
        *,
        was_held: bool,
    ) -> None:
        self.actor = actor
        self.event = event
        self.replies = replies
        self.observed = observed
        self.was_held = was_held
        """Whether they waited until an append was durable."""


class _Append:
    """An append that is open or in flight, and the replies it holds."""

    __slots__ = ("begun", "held")

    def __init__(self, begun: int) -> None:
        self.begun = begun
        """When the turn was that began it, in monotonic milliseconds."""
        self.held: list[OutgoingReplies] = []


class Writer:
    """The open batch, the appends in flight, and the replies they hold.

    Appends are numbered from 1; number n is durable when `durable >= n`.
    """

    def __init__(
        self,
        log: PartitionLog,
        max_append_bytes: int,
        clock: Clock,
        append_seconds: Histogram,
        soon: Soon,
        release: Callable[[list[OutgoingReplies]], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self.durable = 0
        self._log = log
        self._max_bytes = max_append_bytes
        self._clock = clock
        self._append_seconds = append_seconds
        self._soon = soon
        self._release = release
        self._failed = failed
        self._open: NewBatch | None = None
        """Has at least one record."""
        self._number = 1
        """The number the open batch will have."""
        self._appends: list[_Append] = []
        """Those that are not durable, in their order; the last one may be open."""
        self._is_flushed_soon = False
        # Made once: they are handed over with every append.
        self._flush_soon: Callable[[], None] = self._flush
        self._when_appended: AppendCallback = self._appended
        self._drained: asyncio.Future[None] | None = None
        """The future of `drain`."""
        self._stopped = False

    @property
    def oldest_begun(self) -> int | None:
        """When the oldest append in flight got its first record (monotonic milliseconds)."""
        return self._appends[0].begun if self._is_in_flight else None

    @property
    def is_open(self) -> bool:
        """Whether an append leaves at the end of this turn."""
        return self._open is not None

    @property
    def waiting_since(self) -> int | None:
        """When the oldest append that is not durable got its first record, sent off or not."""
        if self._appends and (self._is_in_flight or self._open is not None):
            return self._appends[0].begun
        return None

    @property
    def _is_in_flight(self) -> bool:
        return self.durable + 1 < self._number

    def append(
        self, actor: GroupActor, writes: Sequence[Write | WriteOffsets], ctx: Context
    ) -> None:
        """Put a turn's records into the open batch; it leaves at the end of this loop turn.

        They stay together, unless they alone are too many for one append.
        """
        batch = self._batch_of(ctx)
        before = batch.mark()
        for write in writes:
            _add(write, batch)
        if batch.size > self._max_bytes:
            batch.cut(before)
            self._add_to_another(writes, ctx)
        self._note(actor)

    def append_again(
        self, actor: GroupActor, template: CommitTemplate, offsets: Sequence[bytes], ctx: Context
    ) -> bytes:
        """`append` for a commit that has been laid out before; its encoded records."""
        batch = self._batch_of(ctx)
        full = batch.records + template.records > MOST_RECORDS
        if batch.records and (full or batch.size + template.size > self._max_bytes):
            self._flush()
            batch = self._batch_of(ctx)
        encoded = template.encode(batch.records, offsets, ctx.wall)
        batch.add_encoded(encoded, template.records)
        self._note(actor)
        return encoded

    def _batch_of(self, ctx: Context) -> NewBatch:
        """The open batch; all its records are of one millisecond."""
        batch = self._open
        if batch is not None:
            if batch.timestamp == ctx.wall:
                return batch
            self._flush()
        return self._begin(ctx)

    def _begin(self, ctx: Context) -> NewBatch:
        if self.durable + len(self._appends) == self._number:
            # One begun before, with which nothing went out, has left its place.
            self._appends[-1].begun = ctx.now
        else:
            self._appends.append(_Append(ctx.now))
        self._open = batch = NewBatch(ctx.wall)
        return batch

    def _note(self, actor: GroupActor) -> None:
        actor.last_append = self._number
        if not self._is_flushed_soon:
            self._soon(self._flush_soon)
            self._is_flushed_soon = True

    def _add_to_another(self, writes: Sequence[Write | WriteOffsets], ctx: Context) -> None:
        """Begin a batch for what did not fit into the open one; several if there is no way."""
        self._flush()
        batch = self._begin(ctx)
        for write in writes:
            _add(write, batch)
        if batch.size <= self._max_bytes:
            return
        batch = self._begin(ctx)
        for each in (one for write in writes for one in _singly(write)):
            before = batch.mark()
            _add(each, batch)
            if batch.size > self._max_bytes and batch.records > 1:
                batch.cut(before)
                self._flush()
                batch = self._begin(ctx)
                _add(each, batch)

    def holds_back(self, actor: GroupActor) -> bool:
        """Whether records of the group are not durable yet."""
        return actor.last_append > self.durable

    def hold(self, outgoing: OutgoingReplies) -> None:
        """Hold the replies of a turn until the group's last record is durable."""
        self._appends[outgoing.actor.last_append - self.durable - 1].held.append(outgoing)

    def stop(self) -> list[OutgoingReplies]:
        """Ignore all further results of appends; return the replies that were held."""
        self._stopped = True
        self._open = None
        self._wake_drain()
        appends, self._appends = self._appends, []
        return [outgoing for append in appends for outgoing in append.held]

    async def drain(self) -> None:
        """Flush and wait until everything appended is durable or has failed."""
        self._flush()
        if self._is_in_flight and not self._stopped:
            self._drained = asyncio.get_running_loop().create_future()
            await self._drained

    def _wake_drain(self) -> None:
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    def _flush(self) -> None:
        """Send the open batch off."""
        self._is_flushed_soon = False
        batch, self._open = self._open, None
        if self._stopped or batch is None or not batch.records:
            return
        self._number += 1
        try:
            self._log.append(batch, self._when_appended)
        except (Exception, CancelledError) as error:  # noqa: BLE001 - it may fail at once, too
            self._failed(error)

    def _appended(self, result: int | BaseException) -> None:
        """Appends become durable in their order; the first that fails ends the tenure."""
        if self._stopped:
            return
        try:
            begun = self._appends[0].begun
            self._append_seconds.observe((self._clock.monotonic_ms() - begun) / 1000)
            if not isinstance(result, int):
                self._failed(result)
                return
            self.durable += 1
            held = self._appends.pop(0).held
            if held:
                self._release(held)
            if not self._is_in_flight:
                self._wake_drain()
        except (Exception, CancelledError) as error:  # noqa: BLE001 - the log decides
            self._failed(error)


def _add(write: Write | WriteOffsets, batch: NewBatch) -> None:
    if isinstance(write, WriteOffsets):
        batch.add_offsets(offset_key_prefix(write.group_id, write.topic), write.offsets)
        return
    raw = None if write.value is None else encode_value(write.value)
    batch.add(encode_key(write.key), raw, write.headers)


def _singly(write: Write | WriteOffsets) -> Sequence[Write | WriteOffsets]:
    """The same, a record each."""
    if isinstance(write, Write):
        return (write,)
    group_id, topic, offsets = write
    return [WriteOffsets(group_id, topic, (each,)) for each in offsets]

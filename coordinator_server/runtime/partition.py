"""A log partition of the coordinator: one tenure after another, and what lies between them."""

import asyncio
from asyncio import CancelledError
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final

from coordinator_protocol.batch_builder import NewBatch
from coordinator_server.group.commits import RepeatedCommit
from coordinator_server.group.events import Event, Token
from coordinator_server.loop.task_keeper import is_cancelled
from coordinator_server.runtime.actor import GroupActor
from coordinator_server.runtime.answering import resolve
from coordinator_server.runtime.deletions import Deletions
from coordinator_server.runtime.dependencies import RuntimeDependencies
from coordinator_server.runtime.failures import Failure, answer_to
from coordinator_server.runtime.loader import Loader
from coordinator_server.runtime.refusals import report_unserved
from coordinator_server.runtime.tenure import Tenure
from coordinator_server.runtime.ticket import Ticket
from coordinator_server.runtime.unlogged_generations import SpentGenerations
from coordinator_server.storage.base import CorruptLog, Fenced, PartitionLog, Storage, append


class PartitionState(Enum):
    """Kafka's coordinator states."""

    INITIAL = "initial"
    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    CLOSED = "closed"


_P = PartitionState
_ACTIVE: Final = _P.ACTIVE
VALID_PREVIOUS_STATES: Final[dict[PartitionState, frozenset[PartitionState]]] = {
    _P.INITIAL: frozenset(),
    _P.LOADING: frozenset({_P.INITIAL, _P.FAILED, _P.CLOSED}),
    _P.ACTIVE: frozenset({_P.LOADING}),
    _P.FAILED: frozenset({_P.LOADING, _P.ACTIVE}),
    _P.CLOSED: frozenset(_P) - {_P.CLOSED},
}

_REFUSALS: Final = {
    _P.INITIAL: Failure.NOT_OWNED,
    _P.LOADING: Failure.LOADING,
    _P.FAILED: Failure.NOT_AVAILABLE,
    _P.CLOSED: Failure.NOT_OWNED,
}

FIRST_BACKOFF_MS: Final = 100
LONGEST_BACKOFF_MS: Final = 30_000

Report = Callable[..., None]
"""Called as `report(event, **fields)` for the log."""


class Partition:
    """Owns the current tenure, and begins another one when it has failed."""

    def __init__(
        self, index: int, storage: Storage, dependencies: RuntimeDependencies, report: Report
    ) -> None:
        self.index = index
        self.state = PartitionState.INITIAL
        self.tenure: Tenure | None = None
        self.failure = ""
        """Why it failed last, in words; empty while it is served."""
        self._storage = storage
        self._dependencies = dependencies
        self._report = report
        self._log: PartitionLog | None = None
        self._opening: asyncio.Task[None] | None = None
        self._closing = asyncio.Lock()
        """Held until a tenure's log is closed; the next one is not claimed before."""
        self._stopping = False
        self._backoff_ms = FIRST_BACKOFF_MS
        self._deletions = Deletions(dependencies.deleted)
        self._generations = SpentGenerations()

    def submit(self, group_id: str, event: Event) -> None:
        """Serve an event, or say why not."""
        tenure = self.tenure
        if self.state is _ACTIVE and tenure is not None and tenure.log.is_current():
            tenure.submit(group_id, event)
            return
        failure = _REFUSALS.get(self.state, Failure.TENURE_ENDED)
        token = getattr(event, "token", None)
        if isinstance(token, Ticket):
            result = answer_to(failure, event)
            resolve(token, result)
            self._dependencies.attempt(
                "report a refusal",
                group_id,
                lambda: report_unserved(group_id, event, result, self._dependencies),
            )

    def actor(self, group_id: str) -> GroupActor | None:
        """The actor of a group in memory; None unless the partition serves its groups now."""
        tenure = self.tenure
        if tenure is None or self.state is not _ACTIVE or not tenure.log.is_current():
            return None
        return tenure.actors.get(group_id)

    def commit_again(
        self,
        group_id: str,
        repeat: RepeatedCommit,
        offsets: Sequence[bytes],
        token: Token,
        now: int,
    ) -> bool:
        """Take a repeated commit at once, if that can be; see Coordinator."""
        actor = self.actor(group_id)
        return actor is not None and actor.commit_again(repeat, offsets, token, now)

    def forget_topics(self, topics: frozenset[str]) -> None:
        """These topics were deleted: no group remembers an offset of theirs from now on."""
        if self.state in (PartitionState.INITIAL, PartitionState.CLOSED):
            self._deletions.drop()
        else:
            self._deletions.add(topics)
        tenure = self.tenure
        if tenure is not None:
            self._forget_deleted(tenure)

    def _forget_deleted(self, tenure: Tenure) -> None:
        """Let the groups forget deleted topics; what fails is left to the next tenure."""
        try:
            self._deletions.carry_out(tenure)
        except (Exception, CancelledError) as error:  # noqa: BLE001 - the log decides
            tenure.end(Failure.NOT_AVAILABLE, error)

    def assigned(self) -> None:
        """The storage has made us the owner: claim, load and serve."""
        if not self._stopping and self.state in (PartitionState.INITIAL, PartitionState.CLOSED):
            # What another owner has taken for the successors of deleted topics must stay.
            self._deletions.drop()
            self._transition(PartitionState.LOADING)
            self._opening = asyncio.get_running_loop().create_task(self._open())

    async def lost(self) -> None:
        """Another one owns the partition now: forget everything at once."""
        await self._close(Failure.TENURE_ENDED)

    async def stop(self) -> None:
        """Planned end: answer the parked, flush, close the log; it is not opened again."""
        self._stopping = True
        tenure = self.tenure
        if tenure is not None and self.state is PartitionState.ACTIVE:
            self._transition(PartitionState.CLOSED)
            try:
                await tenure.drain()
            except Exception as error:  # noqa: BLE001 - everybody is answered, the log is closed
                self._tell("partition_close_failed", partition=self.index, error=in_words(error))
        await self._close(Failure.SHUTTING_DOWN)

    async def _close(self, failure: Failure) -> None:
        """End at once what there is; what `assigned` begins meanwhile is left alone."""
        if self.state is not PartitionState.CLOSED:
            self._transition(PartitionState.CLOSED)
        opening, self._opening = self._opening, None
        tenure, self.tenure = self.tenure, None
        if opening is not None:
            opening.cancel()
        if tenure is not None:
            tenure.end(failure)
        async with self._closing:
            if opening is not None:
                await asyncio.gather(opening, return_exceptions=True)
            await self._close_log()

    async def _close_log(self) -> None:
        log, self._log = self._log, None
        if log is not None:
            try:
                await log.close()
            except (Exception, CancelledError) as error:
                if is_cancelled():
                    raise
                words = str(error) if isinstance(error, OSError) else in_words(error)
                self._tell("partition_close_failed", partition=self.index, error=words)

    # --- from LOADING to ACTIVE ---

    async def _open(self) -> None:
        """Try until a tenure has begun; between tries the partition is FAILED."""
        while True:
            try:
                await self._begin_tenure()
            except Fenced:
                self._transition(PartitionState.CLOSED)
                async with self._closing:
                    await self._close_log()
                return
            except (Exception, CancelledError) as error:
                # Whatever it is, try again later; unless `_close` has cancelled this task.
                if is_cancelled():
                    raise
                await self._load_failed(error)
            else:
                return

    async def _load_failed(self, error: BaseException) -> None:
        """Wait until the log may be tried again."""
        # If the tenure had begun already, nothing was opening any more: `recover` would open, too.
        self._opening = asyncio.current_task()
        tenure, self.tenure = self.tenure, None
        if tenure is not None:
            tenure.end(Failure.NOT_AVAILABLE)
        self.failure = in_words(error)
        if self.state is not PartitionState.FAILED:
            self._transition(PartitionState.FAILED)
        self._tell(
            "partition_load_failed",
            partition=self.index,
            error=in_words(error),
            retry_ms=self._backoff_ms,
            **_way_out(self.index, error),
        )
        await self._close_log()
        await self._back_off()
        self._transition(PartitionState.LOADING)

    async def _begin_tenure(self) -> None:
        """Claim, load, and prove with a no-op append that the log takes writes."""
        begun = self._dependencies.clock.monotonic_ms()
        async with self._closing:
            log = self._log = await self._storage.claim(self.index)
        loader = Loader()
        await loader.load(log)
        await append(log, NewBatch(0))
        self._generations.loaded(loader.groups)
        groups = loader.groups.values()
        tenure = Tenure(log, groups, self._dependencies, self._tenure_ended, self._generations)
        self.tenure = tenure
        duration_ms = self._dependencies.clock.monotonic_ms() - begun
        self._dependencies.counters.partition_load_seconds.observe(duration_ms / 1000)
        self._backoff_ms = FIRST_BACKOFF_MS
        self._transition(PartitionState.ACTIVE)
        self._opening = None
        self.failure = ""
        tenure.begin()
        if not tenure.ended:
            self._forget_deleted(tenure)
        if loader.records:
            self._tell(
                "partition_loaded",
                partition=self.index,
                records=loader.records,
                groups=len(loader.groups),
                unknown_records=loader.unknown_records,
                duration_ms=duration_ms,
            )

    async def _back_off(self) -> None:
        """Sleep before the next attempt, longer each time."""
        wait_ms = int(self._backoff_ms * self._dependencies.jitter())
        deadline = self._dependencies.clock.monotonic_ms() + wait_ms
        self._backoff_ms = min(self._backoff_ms * 2, LONGEST_BACKOFF_MS)
        rung = asyncio.Event()
        timer = self._dependencies.timers.call_at(deadline, rung.set)
        try:
            await rung.wait()
        finally:
            timer.cancel()

    def _tenure_ended(self, error: BaseException) -> None:
        """The tenure is over; whoever knocks from now on is refused."""
        self.tenure = None
        if self.state is PartitionState.CLOSED:
            return
        fenced = isinstance(error, Fenced)
        self.failure = in_words(error)
        self._dependencies.counters.tenures_failed += 1
        self._transition(PartitionState.CLOSED if fenced else PartitionState.FAILED)
        self._tell(
            "tenure_ended",
            partition=self.index,
            error=self.failure,
            fenced=fenced,
        )
        self._opening = asyncio.get_running_loop().create_task(self._reopen(fenced=fenced))

    async def _reopen(self, *, fenced: bool) -> None:
        async with self._closing:
            await self._close_log()
        if not fenced:
            await self._back_off()
            self._transition(PartitionState.LOADING)
            await self._open()

    def recover(self) -> None:
        """Begin anew if nothing else is going to: the task that was to load has ended too early."""
        opening = self._opening
        is_serving = self.state is _ACTIVE and self.tenure is not None and not self.tenure.ended
        if (
            self._stopping
            or self.state in (PartitionState.INITIAL, PartitionState.CLOSED)
            or is_serving
            or (opening is not None and not opening.done())
        ):
            return
        if opening is not None and not opening.cancelled() and opening.exception() is not None:
            self.failure = in_words(opening.exception())
        self._tell("partition_task_failed", partition=self.index, error=self.failure)
        self.tenure = None
        if self.state is not PartitionState.FAILED:
            self._transition(PartitionState.FAILED)
        self._opening = asyncio.get_running_loop().create_task(self._reopen(fenced=False))

    def _tell(self, event: str, **fields: object) -> None:
        """Report to the log; that this fails must not keep the partition from going on."""
        self._dependencies.attempt("report", "", lambda: self._report(event, **fields))

    def _transition(self, state: PartitionState) -> None:
        if self.state not in VALID_PREVIOUS_STATES[state]:
            raise RuntimeError(f"partition {self.index}: {self.state} -> {state} is not legal")
        self.state = state


def in_words(error: BaseException | None) -> str:
    """The type of an error and its message."""
    return f"{type(error).__name__}: {error}"


def _way_out(partition: int, error: BaseException) -> dict[str, str]:
    """The command that shows what can be kept of a log that is damaged; nothing else needs one."""
    if not isinstance(error, CorruptLog):
        return {}
    if error.repair:
        return {"repair": error.repair}
    command = "coordinator-server log repair --dry-run"
    return {"repair": f"{command} --data <log.dirs> --partition {partition}"}

"""The dependencies of all tenures: ports, limits, counters and observers."""

from asyncio import CancelledError
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from coordinator_server.clock import Clock
from coordinator_server.group.context import Limits
from coordinator_server.group.group import TurnFailed
from coordinator_server.group.rebalance_events import Observation
from coordinator_server.loop.batching import Soon, SoonInLoop
from coordinator_server.observe.counters import Counters
from coordinator_server.ports import Ids
from coordinator_server.runtime.deleted_topics import DeletedTopics
from coordinator_server.runtime.refusals import Fold
from coordinator_server.runtime.timers import Timers

Failed = Callable[[str, str, BaseException], None]
"""Called as `failed(step, group id, error)` when a step beside the serving of requests raised."""


class GroupCount:
    """How many groups are in memory, in all partitions together."""

    __slots__ = ("groups",)

    def __init__(self) -> None:
        self.groups = 0


@dataclass(frozen=True, slots=True)
class RuntimeDependencies:
    """The ports, limits, counters and observers that all tenures share."""

    clock: Clock
    ids: Ids
    timers: Timers
    limits: Limits
    observe: Callable[[Observation], None]
    log_bug: Callable[[str, TurnFailed], None]
    """Logs a bug of a group, by group id, before the tenure ends."""
    write_timeout_ms: int = 5_000
    """offsets.commit.timeout.ms: no reply is held longer."""
    counters: Counters = field(default_factory=Counters)
    soon: Soon = field(default_factory=SoonInLoop)
    fold_refusal: Fold = lambda _group_id, _place, _at_ms: False
    """Counts a refusal if an equal one has been told to `observe`."""
    jitter: Callable[[], float] = lambda: 1.0
    """By what a wait before another try is stretched, so that not all try at once."""
    count: GroupCount = field(default_factory=GroupCount)
    """Of tenures that have not ended."""
    deleted: DeletedTopics = field(default_factory=DeletedTopics)
    """Topics that some partition has still to forget."""
    log_failure: Failed = lambda _step, _group_id, _error: None
    """Logs a step that failed; requests are served regardless."""

    def attempt(self, step: str, group_id: str, action: Callable[[], object]) -> bool:
        """Run a step whose failure must not keep anybody from an answer; whether it succeeded.

        A failure is counted and logged. CancelledError is one too: no task is cancelled inside a
        call that does not wait, so somebody has raised it by mistake.
        """
        try:
            action()
        except (Exception, CancelledError) as error:  # noqa: BLE001 - whatever it is, go on
            self.failed(step, group_id, error)
            return False
        return True

    def failed(self, step: str, group_id: str, error: BaseException) -> None:
        """Count and log the failure of a step; never raises."""
        self.counters.observer_failures += 1
        with suppress(Exception, CancelledError):
            self.log_failure(step, group_id, error)

    def publish(self, observation: Observation) -> None:
        """Hand an observation to the observers; never raises."""
        try:
            self.observe(observation)
        except (Exception, CancelledError) as error:  # noqa: BLE001 - it must not end a group
            self.failed("observe", observation.group_id, error)

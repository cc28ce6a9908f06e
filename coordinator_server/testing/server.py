"""A server in this process, on a thread of its own, for tests of clients."""

import asyncio
import contextlib
import tempfile
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Self, TypeVar

from coordinator_server.app import App
from coordinator_server.clock import Clock, ManualClock, SystemClock
from coordinator_server.config import load_exactly
from coordinator_server.group.rebalance_events import Observation, RebalanceEvent
from coordinator_server.server.substitutes import Substitutes
from coordinator_server.testing.faults import WAIT_SECONDS, Fault, Faults, Step, Which
from coordinator_server.testing.timers import MovableTimers

START_SECONDS = 10.0

Result = TypeVar("Result")

DEFAULTS: Mapping[str, str] = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "http.listener": "",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "true",
    "log.flush": "os",
}
"""Settings that differ from those of a service: any free port, no HTTP, no wait for the disk."""


ORIGIN = "coordinator settings"
"""Where a setting that is wrong is said to come from."""


class TestCoordinator:
    """A coordinator for a test; every method may be called from any thread.

    Clients connect over a real socket, so any Kafka client will do. Use it as a context manager,
    or the `coordinator` fixture.
    """

    __test__ = False
    is_external = False
    """Whether it is the broker at --coordinator-address, which has no faults and no clock."""

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        """Make a coordinator with Kafka's properties, on top of DEFAULTS."""
        self._settings = {**DEFAULTS, **(settings or {})}
        self._faults = Faults(self._after, self._call)
        self._clock = ManualClock(base=SystemClock())
        self._timers: MovableTimers | None = None
        self._events: list[RebalanceEvent] = []
        self._news = threading.Condition()
        self._waited_for = 0
        """How many of the rebalances `wait_for_rebalance` has returned or passed over."""
        self._loop = asyncio.new_event_loop()
        self._thread: threading.Thread | None = None
        self._app: App | None = None
        self._data: tempfile.TemporaryDirectory[str] | None = None

    # --- for tests ---

    @property
    def bootstrap(self) -> str:
        """`host:port` for a client's bootstrap servers."""
        return f"127.0.0.1:{self._running().port()}"

    def advance(self, seconds: float) -> None:
        """Move the coordinator's clock: sessions, rebalance and other timeouts pass at once.

        Timers ring in order, each at its own time. Clients do not notice, so nobody heartbeats
        meanwhile.
        """
        timers = self._running_timers()
        self._call(lambda: timers.advance(round(seconds * 1000)))

    def fail(
        self,
        api: str | None,
        error: str,
        times: int | None = 1,
        *,
        group: str | None = None,
        client: str | None = None,
    ) -> Fault:
        """Let requests be answered with an error, and not be served.

        This and `delay`, `hold` and `disconnect` say which requests in the same way, in Kafka's
        names: `coordinator.fail("JoinGroup", "NOT_COORDINATOR", group="billing")`. A request meets
        the first fault that concerns it, in the order they were planned.

        Args:
            api: of this API; None: any.
            error: Kafka's name of the error.
            times: the next so many; None: all until the fault is cleared.
            group: only those that name this group.
            client: only those of this client id.

        Raises:
            ValueError: for names that do not exist, and numbers that make no sense.
        """
        return self._faults.fail(Which.named(api, group, client), times, error)

    def delay(
        self,
        api: str | None,
        seconds: float,
        times: int | None = 1,
        *,
        group: str | None = None,
        client: str | None = None,
    ) -> Fault:
        """Let requests be served, but answered so many seconds later.

        They pass in real time, or at once when `advance` moves the clock. What the client sends
        behind such a request on the same connection waits, as with every Kafka broker.
        """
        return self._faults.delay(Which.named(api, group, client), times, seconds)

    def hold(
        self,
        api: str | None,
        times: int | None = 1,
        *,
        group: str | None = None,
        client: str | None = None,
    ) -> Fault:
        """Let requests be served, but answered only at `release` or `clear` of what it returns."""
        return self._faults.hold(Which.named(api, group, client), times)

    def disconnect(
        self,
        api: str | None,
        times: int | None = 1,
        *,
        group: str | None = None,
        client: str | None = None,
    ) -> Fault:
        """Let requests be served, and the connection be ended instead of an answer."""
        return self._faults.disconnect(Which.named(api, group, client), times)

    def clear_faults(self) -> None:
        """Forget all faults, and send the answers that they made late."""
        self._faults.clear()

    @property
    def pending_faults(self) -> int:
        """How many requests are still to meet a fault; those until cleared do not count."""
        return self._faults.pending

    @property
    def rebalances(self) -> list[RebalanceEvent]:
        """Every rebalance that has ended, in order: reason, culprit, duration."""
        return self._call(lambda: list(self._events))

    def wait_for_rebalance(
        self,
        reason: str | None = None,
        *,
        group: str | None = None,
        timeout: float = WAIT_SECONDS,
    ) -> RebalanceEvent:
        """The next rebalance that has ended: the first after the one this returned before.

        Blocks until there is one: where the client runs on the event loop of the test, `await
        asyncio.to_thread`. Clients heartbeat meanwhile, and time passes.

        Args:
            reason: only one that began for this reason, such as "session_expired".
            group: only one of this group.
            timeout: in seconds of the test, whatever the coordinator's clock says.

        Raises:
            TimeoutError: says what did not come, and what came instead.
        """

        def next_one() -> RebalanceEvent | None:
            for number in range(self._waited_for, len(self._events)):
                event = self._events[number]
                if reason in (None, event.reason) and group in (None, event.group_id):
                    self._waited_for = number + 1
                    return event
            return None

        with self._news:
            found = self._news.wait_for(next_one, timeout)
            came = [f"{e.reason} of {e.group_id!r}" for e in self._events[self._waited_for :]]
        if found is not None:
            return found
        words = [reason or "rebalance", *([] if group is None else [f"of group {group!r}"])]
        raise TimeoutError(
            f"no {' '.join(words)} within {timeout:g} s, but {', '.join(came) or 'nothing'}"
        )

    def create_topic(self, name: str, partitions: int = 1) -> None:
        """Make a topic. Raises TopicError if that cannot be."""
        creation = self._running().create_topic(name, partitions)
        asyncio.run_coroutine_threadsafe(creation, self._loop).result(START_SECONDS)

    # --- life ---

    def start(self) -> Self:
        """Start serving.

        Raises ConfigError for settings that are wrong or have no effect, OSError and whatever else
        keeps the server from starting.
        """
        self._data = tempfile.TemporaryDirectory(prefix="coordinator-test-")
        started: Future[None] = Future()
        self._thread = threading.Thread(
            target=self._run, args=(started,), name="coordinator", daemon=True
        )
        self._thread.start()
        try:
            started.result(START_SECONDS)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop serving and forget everything."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self.clear_faults()  # a stop awaits what is still to be answered
            # A server that could not start has closed its loop already.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._loop.stop)
            thread.join(START_SECONDS)
        data, self._data = self._data, None
        if data is not None:
            data.cleanup()

    def __enter__(self) -> Self:
        """Start."""
        return self.start()

    def __exit__(self, *_exc: object) -> None:
        """Stop."""
        self.stop()

    def _run(self, started: "Future[None]") -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._start())
        except BaseException as error:  # noqa: BLE001 - the starting thread raises it
            started.set_exception(error)
        else:
            started.set_result(None)
            self._loop.run_forever()
        finally:
            self._loop.run_until_complete(self._stop())
            self._loop.close()

    async def _start(self) -> None:
        assert self._data is not None
        settings = {**self._settings, "log.dirs": str(Path(self._data.name) / "data")}
        config = load_exactly(settings, ORIGIN)
        substitutes = Substitutes(
            clock=self._clock,
            timers=self._make_timers,
            faults=self._faults,
            observer=self._observe,
        )
        self._app = App(config, substitutes)
        await self._app.start()
        while not self._app.coordinator.is_ready:  # noqa: ASYNC110 - nobody tells, it is soon
            await asyncio.sleep(0.001)

    async def _stop(self) -> None:
        if self._app is not None:
            await self._app.stop()

    def _make_timers(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> MovableTimers:
        assert isinstance(clock, ManualClock)
        self._timers = MovableTimers(loop, clock)
        return self._timers

    def _observe(self, observation: Observation) -> None:
        if isinstance(observation, RebalanceEvent):
            with self._news:
                self._events.append(observation)
                self._news.notify_all()

    def _after(self, seconds: float, step: Step) -> None:
        timers = self._running_timers()
        timers.call_at(self._clock.monotonic_ms() + round(seconds * 1000), step)

    def _running_timers(self) -> MovableTimers:
        if self._timers is None:
            raise RuntimeError("the coordinator has not been started")
        return self._timers

    def _running(self) -> App:
        if self._app is None:
            raise RuntimeError("the coordinator has not been started")
        return self._app

    def _call(self, function: Callable[[], Result]) -> Result:
        """Run a function on the coordinator's event loop and wait for its result."""
        answer: Future[Result] = Future()

        def run() -> None:
            try:
                answer.set_result(function())
            except BaseException as error:  # noqa: BLE001 - the calling thread raises it
                answer.set_exception(error)

        self._loop.call_soon_threadsafe(run)
        return answer.result(START_SECONDS)

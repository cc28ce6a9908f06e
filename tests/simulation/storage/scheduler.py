"""A deterministic scheduler: threads are greenlets, and exactly one of them runs at a time.

Every operation on a lock, queue, event or file is a point at which the scheduler, seeded, picks the
thread that runs next; `preempt` is called between any two statements of the code under test and
picks another one now and then. Time stands still until the scheduler moves it.
"""

from asyncio import AbstractEventLoop, _get_running_loop, _set_running_loop
from collections.abc import Callable
from random import Random
from typing import Final

from greenlet import getcurrent, greenlet  # type: ignore[import-untyped]

MOST_STEPS: Final = 150_000
"""Steps of one life after which it is taken to go on for ever."""
LONGEST_MS: Final = 3_600_000
"""The same for virtual time."""


class Killed(BaseException):
    """The process is gone: unwinds a thread whose effects no longer matter."""


class Failure(Exception):
    """A rule was broken; the message says which."""


class SimThread:
    """A thread of the simulated process."""

    __slots__ = ("greenlet", "loop", "name", "speed", "waits_for", "wake_at")

    def __init__(self, name: str, target: Callable[[], None], speed: float, hub: greenlet) -> None:
        self.name = name
        self.greenlet = greenlet(target, hub)
        self.speed = speed
        """How likely the scheduler picks it, beside others."""
        self.loop: AbstractEventLoop | None = None
        """The event loop that runs in it."""
        self.waits_for = ""
        """Empty if it can run."""
        self.wake_at: int | None = None
        """Until when it waits at most, in virtual milliseconds."""


class Scheduler:
    """Runs the threads of one process until they end, or until its power is cut."""

    def __init__(self, random: Random, preemption: float) -> None:
        """`preemption` is the chance to switch threads between two statements."""
        self._random = random
        self._preemption = preemption
        self._until_preempted = self._gap()
        self._hub = getcurrent()
        self.threads: list[SimThread] = []
        self.current: SimThread | None = None
        self.now_ms = 1_000_000
        self._began_ms = self.now_ms
        self.steps = 0
        self.stop_at = 0
        """After so many steps the power is cut; 0 for never."""
        self.is_dead = False
        self.failure: str = ""
        """The first rule that was broken."""

    def _gap(self) -> int:
        """Statements until the next preemption."""
        if not self._preemption:
            return 1 << 60
        return 1 + int(self._random.expovariate(self._preemption))

    # --- what threads call ---

    def spawn(self, name: str, target: Callable[[], None]) -> SimThread:
        """Start a thread."""

        def run() -> None:
            try:
                if not self.is_dead:
                    target()
            except Killed:
                pass
            except BaseException as error:  # noqa: BLE001 - a thread must not take the hub along
                self.fail(f"{name} ended with {error!r}", error)

        speed = self._random.choice([1.0, 1.0, 0.3, 0.05])
        thread = SimThread(name, run, speed, self._hub)
        self.threads.append(thread)
        return thread

    def step(self) -> None:
        """Let the scheduler pick who runs next."""
        if self.is_dead:
            raise Killed
        if self.current is not None and getcurrent() is self.current.greenlet:
            self._hub.switch()
            if self.is_dead:
                raise Killed

    def preempt(self) -> None:
        """Called between two statements."""
        self._until_preempted -= 1
        if self._until_preempted <= 0:
            self._until_preempted = self._gap()
            current = self.current
            if not self.is_dead and current is not None and getcurrent() is current.greenlet:
                self._hub.switch()
                if self.is_dead:
                    raise Killed

    def wait(self, waits_for: str, until_ms: int | None = None) -> None:
        """Do not run the current thread before `wake`, or before a point of time."""
        if self.is_dead:
            raise Killed
        thread = self.current
        assert thread is not None, f"nobody can wait for {waits_for} here"
        thread.waits_for, thread.wake_at = waits_for, until_ms
        self._hub.switch()
        if self.is_dead:
            raise Killed

    def wake(self, thread: SimThread) -> None:
        """Let a thread run again."""
        thread.waits_for, thread.wake_at = "", None

    def sleep(self, ms: int, why: str) -> None:
        """Hold up the current thread."""
        self.wait(why, self.now_ms + ms)

    def fail(self, message: str, error: BaseException | None = None) -> None:
        """A rule is broken: the run ends with the next step."""
        if not self.failure and not self.is_dead:
            self.failure = message
            if error is not None and error.__traceback__ is not None:
                frame = error.__traceback__
                while frame.tb_next is not None:
                    frame = frame.tb_next
                code = frame.tb_frame.f_code
                self.failure += f" at {code.co_filename.rpartition('/')[2]}:{frame.tb_lineno}"

    # --- the hub ---

    def run(self, main: SimThread) -> bool:
        """Run until `main` has ended; False if the power was cut or a rule broken before."""
        assert getcurrent() is self._hub
        while not main.greenlet.dead:
            if self.failure or (self.stop_at and self.steps >= self.stop_at):
                return False
            thread = self._pick()
            if thread is None:
                return False
            self.steps += 1
            if self.steps > MOST_STEPS:
                self.fail(f"no end after {MOST_STEPS} steps: {self.waiting()}")
            self._resume(thread)
        return not self.failure

    def _resume(self, thread: SimThread) -> None:
        outside = _get_running_loop()
        self.current = thread
        _set_running_loop(thread.loop)
        try:
            thread.greenlet.switch()
        finally:
            thread.loop = _get_running_loop()
            _set_running_loop(outside)
            self.current = None
        if thread.greenlet.dead:
            self.threads.remove(thread)

    def _pick(self) -> SimThread | None:
        while True:
            ready = [thread for thread in self.threads if not thread.waits_for]
            if ready and self._random.random() > 0.002:
                return self._random.choices(ready, [thread.speed for thread in ready])[0]
            deadlines = [thread.wake_at for thread in self.threads if thread.wake_at is not None]
            if not deadlines:
                if ready:
                    return ready[0]
                self.fail(f"deadlock, nobody can run: {self.waiting()}")
                return None
            soon = self.now_ms + self._random.choice([1, 10, 300])
            self._advance_to(min(deadlines) if not ready else min(*deadlines, soon))
            if self.failure:
                return None

    def _advance_to(self, now_ms: int) -> None:
        self.now_ms = max(self.now_ms, now_ms)
        if self.now_ms - self._began_ms > LONGEST_MS:
            self.fail(f"no end after {LONGEST_MS} ms of virtual time: {self.waiting()}")
        for thread in self.threads:
            if thread.wake_at is not None and thread.wake_at <= self.now_ms:
                self.wake(thread)

    def waiting(self) -> str:
        """Which thread waits for what, and which could run."""
        return "; ".join(f"{t.name}: {t.waits_for or 'can run'}" for t in self.threads)

    def kill(self) -> None:
        """End all threads where they stand."""
        self.is_dead = True
        for _ in range(3):
            for thread in list(self.threads):
                if not thread.greenlet.dead:
                    self._throw(thread)
        self.threads.clear()

    def _throw(self, thread: SimThread) -> None:
        if not thread.greenlet:
            return  # never ran
        outside = _get_running_loop()
        _set_running_loop(thread.loop)
        try:
            thread.greenlet.throw(Killed)
        finally:
            _set_running_loop(outside)

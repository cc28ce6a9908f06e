"""Rounds of load and sudden death on one data directory."""

import signal
import threading
from pathlib import Path
from random import Random
from typing import Self

from tests.crash.crash_points import ANY, COMPACTING, JOURNAL, WRITING
from tests.crash.workers import PARTITIONS, TOPIC, Committer, Member, Refused, Worker
from tests.support.server import ServerProcess
from tests.support.wire import RawConnection

SETTINGS = {
    "topics": f"{TOPIC}:{PARTITIONS}",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.segment.bytes": "6000",
    "log.journal.bytes": "8192",
    "log.cleaner.backoff.ms": "10",
    "log.cleaner.min.cleanable.ratio": "0.1",
    "log.cleaner.delete.retention.ms": "200",
    "log.cleaner.io.max.bytes.per.second": "1000000000",
}
COMMITTERS, MEMBERS = 5, 3
FLUSH = ("commit", "interval", "os")
"""The policies, none of which may lose anything with the process alone."""
REACH_SECONDS = 30.0
"""How long a named point may take to be reached."""
RANDOM = "random"
"""In place of a point: a moment that has nothing to do with what the server does."""
POINTS = (*JOURNAL, *WRITING, *COMPACTING, RANDOM)
RARE = (*COMPACTING, "recovery-points", "begun", "begun-named")
"""Points that do not come with every request."""


class CrashRounds:
    """A server with its clients and their expected values; rounds return the problems found."""

    def __init__(
        self, directory: Path, seed: int, *, plant: str | None = None, flush: str = "commit"
    ) -> None:
        self._random = Random(seed)
        self._flush = flush
        self._orders = directory / "orders"
        program = ["tests.crash.launcher", str(self._orders)]
        program += ["--plant", plant] if plant else []
        self.server = ServerProcess(directory, {**SETTINGS, "log.flush": flush}, program)
        self.kills = 0
        self.acknowledged = 0
        self._workers: list[Worker] = [
            *(Committer(f"committer-{n}", Random(seed + n)) for n in range(COMMITTERS)),
            *(Member(f"member-{n}", Random(seed - n)) for n in range(MEMBERS)),
        ]
        self._refused: list[str] = []
        self._heard = threading.Semaphore(0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.server.close()

    def round(self, point: str, number: int = 1) -> list[str]:
        """Start, look whether everything is there, work, and die at a point."""
        problems = self._start_and_look()
        if not problems:
            problems = self._work_until(point, number)
        return [f"{point} {number}: {problem}" for problem in problems]

    def any_round(self) -> tuple[str, list[str]]:
        """A round at a point left to chance, and what that was."""
        point = self._random.choice([*POINTS, *[RANDOM] * len(POINTS)])
        most = 8 if point in RARE else 40
        if point in COMPACTING and self._flush != "commit":
            # Appends that wait for no disk leave a compaction hundreds of segments at a time.
            most = 2
        return point, self.round(point, self._random.randint(1, most))

    def die_at_start(self, number: int) -> None:
        """Start and die at the n-th thing done to a file, if so many are done."""
        self._order(ANY, number)
        try:
            self.server.start()
        except RuntimeError:
            if self.server.ended(0) != -signal.SIGKILL:
                raise
        else:
            self.server.kill()
        self.kills += 1

    def end(self) -> list[str]:
        """A last look, a stop in order, and another look."""
        problems = self._start_and_look()
        if self.server.terminate() != 0:
            problems.append("the server did not stop in order")
        problems += self._start_and_look()
        return [*problems, *self.server.bugs()]

    def _order(self, point: str, number: int) -> None:
        """Written aside first: the server must not read half of it."""
        aside = self._orders.with_suffix(".new")
        aside.parent.mkdir(parents=True, exist_ok=True)
        aside.write_text(f"{point} {number}")
        aside.rename(self._orders)

    def _start_and_look(self) -> list[str]:
        self._orders.unlink(missing_ok=True)
        self.server.start()
        try:
            with RawConnection(self.server.bootstrap) as connection:
                return [p for worker in self._workers for p in worker.problems(connection)]
        except (OSError, Refused) as error:
            return [f"{error}\n{self.server.log_tail()}"]

    def _work_until(self, point: str, number: int) -> list[str]:
        threads = [threading.Thread(target=self._run, args=[each]) for each in self._workers]
        for thread in threads:
            thread.start()
        if point == RANDOM:
            self._hear(self._random.randint(1, 300))
            self.server.kill()
        else:
            self._order(point, number)
        code = self.server.ended(REACH_SECONDS)
        self.server.close()
        for thread in threads:
            thread.join()
        self.kills += 1
        problems, self._refused = self._refused, []
        if code != -signal.SIGKILL:
            problems.append(f"not reached, exit code {code}\n{self.server.log_tail(5)}")
        return problems

    def _hear(self, answers: int) -> None:
        for _ in range(answers):
            if not self._heard.acquire(timeout=REACH_SECONDS):
                return

    def _run(self, worker: Worker) -> None:
        try:
            with RawConnection(self.server.bootstrap) as connection:
                while not self._refused:
                    if worker.work(connection):
                        self.acknowledged += 1
                        self._heard.release()
        except OSError:
            return
        except Refused as refused:
            self._refused.append(str(refused))

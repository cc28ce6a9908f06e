"""Raises exceptions in a supervisor and its workers: `python -m tests.chaos.workers`."""

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from random import Random

from tests.chaos.injector import EXCEPTIONS
from tests.chaos.server import SLACK_SECONDS, STOP_SECONDS
from tests.support.wire import RawConnection, committed, create_topic
from tests.support.workers import WorkersProcess, commit

COUNT = 2
READY_SECONDS = 40.0

Arm = tuple[str, str, str]
"""Role, point and exception."""


class ChaoticWorkers(WorkersProcess):
    """A supervisor with two workers, in one of which an exception may be raised."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, COUNT)
        self.scratch = directory / "scratch"
        self.scratch.mkdir(parents=True)
        self._program = ("tests.chaos.worker_launcher", str(self.scratch))
        self.groups = [self.group_of(index) for index in range(COUNT)]
        self.owed = dict.fromkeys(self.groups, 0)
        """The offset that was acknowledged last, by group."""
        self._topics = 0

    def arm(self, arm: Arm | None) -> None:
        """Have an exception raised from the next start on; None for no exception."""
        for name in ("arm", "struck"):
            (self.scratch / name).unlink(missing_ok=True)
        if arm is not None:
            (self.scratch / "arm").write_text(" ".join(arm))

    @property
    def struck(self) -> bool:
        """Whether the exception was raised."""
        return (self.scratch / "struck").exists()

    def hits(self) -> set[tuple[str, str]]:
        """Role and name of the points that were passed by processes that have ended in order."""
        return {
            (file.name.split("-")[1], point)
            for file in self.scratch.glob("hits-*")
            for point in json.loads(file.read_text())
        }

    def work(self) -> list[str]:
        """Commit in a group of each worker and make a topic, until all of that works."""
        until = time.monotonic() + READY_SECONDS
        problem = ""
        while time.monotonic() < until:
            try:
                self._work()
            except (OSError, AssertionError) as error:
                problem = f"{type(error).__name__}: {error}"
                time.sleep(0.05)
            else:
                return []
        return [f"the workers do not serve: {problem}{self.log_tail(8)}"]

    def _work(self) -> None:
        for group in self.groups:
            with RawConnection(self.coordinator_of(group), timeout=5) as connection:
                code = commit(connection, group, "t", self.owed[group] + 1)
            assert code == "NONE", code
            self.owed[group] += 1
        self._topics += 1
        create_topic(self.bootstraps[0], f"topic-{self._topics}", 1)
        self.get("/metrics")
        assert self.ready() is not None, "/readyz"

    def lost(self) -> list[str]:
        """Acknowledged commits that are not there; one that was sent after them may be."""
        found = []
        for group, owed in self.owed.items():
            there = committed(self.coordinator_of(group), group, "t", 1).get(0, 0)
            if not owed <= there <= owed + 1:
                found.append(f"lost: {group}: {owed} was acknowledged, {there} is there")
        return found

    def stop(self) -> list[str]:
        """SIGTERM; what went wrong, and which workers are left."""
        pids = [self.pid_of(index) for index in range(COUNT)]
        self._running().terminate()
        code = self.ended(STOP_SECONDS + SLACK_SECONDS)
        problems = [] if code is not None else [f"runs on after SIGTERM{self.log_tail(8)}"]
        self.close()
        time.sleep(0.2)
        return problems + [f"worker {pid} is left" for pid in pids if _is_there(pid)]


def _is_there(pid: int) -> bool:
    with suppress(OSError):
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state != "Z"
    return False


def trial(workers: ChaoticWorkers, arm: Arm | None) -> list[str]:
    """Start, work, kill a worker, work, and stop with one exception; then all must be there."""
    workers.arm(arm)
    problems: list[str] = []
    try:
        workers.start(READY_SECONDS)
    except RuntimeError as error:
        if workers.running or not workers.struck:
            problems.append(f"the start: {error}")
    if workers.running:
        problems += workers.work()
        with suppress(ProcessLookupError):
            os.kill(workers.pid_of(1), signal.SIGKILL)
        problems += workers.work()
        problems += workers.stop()
    workers.close()
    if arm is not None:
        workers.arm(None)
        workers.start(READY_SECONDS)
        problems += workers.lost() + workers.work() + workers.stop()
    return problems


def points(directory: Path) -> list[tuple[str, str]]:
    """Role and name of all points that workers pass. Raises AssertionError."""
    workers = ChaoticWorkers(directory)
    problems = trial(workers, None)
    assert problems == [], problems
    return sorted(workers.hits())


def run(directory: Path, trials: int, random: Random) -> tuple[int, int, list[str]]:
    """How many points there are, how many exceptions were raised, and what failed."""
    found = points(directory / "points")
    struck, failed = 0, []
    for number in range(trials):
        role, point = random.choice(found)
        arm = role, point, random.choice(list(EXCEPTIONS))
        workers = ChaoticWorkers(directory / str(number))
        workers.arm(arm)
        try:
            problems = trial(workers, arm)
        except (AssertionError, OSError, RuntimeError, TimeoutError) as error:
            problems = [f"{type(error).__name__}: {error}"]
        finally:
            workers.close()
        struck += 1
        if problems:
            failed.append(" ".join(arm) + ": " + "; ".join(problems))
    return len(found), struck, failed


def main() -> int:
    """0 if every exception was survived."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.workers", description=__doc__)
    parser.add_argument("--trials", type=int, default=20, help="how many exceptions")
    parser.add_argument("--seed", type=int, default=1, help="of everything that is left to chance")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="chaos-") as name:
        found, tried, failed = run(Path(name), options.trials, Random(options.seed))
    for each in failed:
        sys.stdout.write(f"{each}\n")
    sys.stdout.write(
        f"workers: {found} points passed, {tried} exceptions tried, "
        f"{tried - len(failed)} survived\n"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

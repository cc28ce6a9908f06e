"""A data directory through all its lives."""

import gc
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from coordinator_server.storage.base import CorruptLog
from coordinator_server.storage.segments.log import SegmentLog
from coordinator_server.storage.segments.log_identity import PARTITION_METADATA
from tests.simulation.storage.clients import read_all
from tests.simulation.storage.ledger import Ledger
from tests.simulation.storage.process import DATA, Process
from tests.simulation.storage.scheduler import Failure, Killed
from tests.simulation.storage.setup import Setup
from tests.support.simulated_disk import SimulatedDisk


class Ledgers:
    """What every log was given, by its name; of deleted topics nothing."""

    def __init__(self) -> None:
        self._ledgers: dict[str, Ledger] = {}
        self._topic_ids: dict[str, int] = {}
        self._deleted: set[str] = set()
        self._number = 0
        self.process_is_over = False

    def _is_over(self) -> bool:
        return self.process_is_over

    def next_number(self) -> int:
        """Makes values unique."""
        self._number += 1
        return self._number

    def of(self, name: str, *, compacts: bool) -> Ledger:
        """The ledger of a log."""
        return self._ledgers.setdefault(
            name, Ledger(name, compacts=compacts, is_over=self._is_over)
        )

    def of_topic(self, name: str) -> Ledger:
        """The ledger of a topic as it is now."""
        return self.of(f"{name}/{self.topic_id(name)}", compacts=False)

    def topic_id(self, name: str) -> str:
        """The id of a topic as it is now."""
        return f"id{self._topic_ids.setdefault(name, 1)}of{name}."

    def delete_topic(self, name: str) -> None:
        """The catalog deletes a topic, durably, and makes it again."""
        if self.process_is_over:
            raise Killed
        self._deleted.add(self.topic_id(name))
        self._ledgers.pop(f"{name}/{self.topic_id(name)}", None)
        self._topic_ids[name] += 1

    def expected_id(self, name: str) -> str | None:
        """The id in the catalog; None if there is no such topic."""
        return self.topic_id(name) if name in self._topic_ids else None

    def left(self, disk: SimulatedDisk) -> list[Path]:
        """The directories of deleted topics."""
        found = []
        for path, inode in disk.names_now.items():
            if path.name == PARTITION_METADATA and inode is not None:
                text = inode.current.decode()
                if any(topic_id in text for topic_id in self._deleted):
                    found.append(path.parent)
        return found

    def all(self) -> list[Ledger]:
        """Those of all logs there are."""
        return list(self._ledgers.values())


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a setup."""

    setup: Setup
    broken: str
    steps: int
    history: Sequence[str]


def play(setup: Setup, *, history: int = 0) -> Outcome:
    """Play all lives; keeps so many last lines of the history."""
    # What another run has left must not end within this one, where its threads could be.
    gc.collect()
    gc.disable()
    try:
        return _play(setup, history)
    finally:
        gc.enable()


def _play(setup: Setup, history: int) -> Outcome:
    disk = SimulatedDisk()
    disk.names_now[DATA] = disk.durable_names[DATA] = None
    lines: deque[str] = deque(maxlen=history)
    ledgers = Ledgers()
    steps, broken = 0, ""
    ended_cleanly = False
    for number, life in enumerate(setup.lives):
        process = Process(setup, life, number, disk, ledgers, lines.append)
        broken = process.run()
        steps += process.scheduler.steps
        if broken:
            break
        disk = process.disk_after()
        ended_cleanly = process.ended_cleanly and process.could_start
        if ended_cleanly and (broken := look(disk.kill(), ledgers, setup)):
            lines.append("the directory is opened without a journal")
            break
        for ledger in ledgers.all():
            ledger.loses_unsynced = (
                ledger.loses_unsynced or process.loses_unsynced
                if ledger.life != number
                else process.loses_unsynced
            )
    return Outcome(setup, broken, steps, list(lines))


def look(disk: SimulatedDisk, ledgers: Ledgers, setup: Setup) -> str:
    """After a clean stop all is in the segments; the broken rule, or empty."""
    for ledger in ledgers.all():
        name = ledger.name.partition("/")[0]
        path = DATA / (f"{name}-0" if name.startswith("t") else f"__consumer_offsets-{name[1:]}")
        if path not in disk.names_now:
            if ledger.end:
                return f"{ledger.name}: has no directory after a clean stop"
            continue
        try:
            log = SegmentLog(path, files=disk)
            found = read_all(log)
            end = log.end_offset
            log.close()
            if end != ledger.end:
                return f"{ledger.name}: ends at {end} after a clean stop, not at {ledger.end}"
            ledger.check(found, 0, end, end)
        except (CorruptLog, OSError, Failure) as error:
            return f"{ledger.name}: after a clean stop, without a journal: {error}"
    return ""

"""How long Apache Kafka takes to load a partition of the coordinator's log, and with how much CPU.

Time is what the broker says itself; CPU is the whole JVM's between its two log lines about the
load, so what else it does at that moment of its start is in it.
"""

import os
import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.servers import CannotRun, kafka, two_cores
from coordinator_server.log_tools.kafka_migration import export_log

SETTINGS = {"offsets.topic.num.partitions": "1"}
JAVA_OPTIONS = "-Xmx2g -Dorg.slf4j.simpleLogger.log.org.apache.kafka.coordinator.common=info"
BEGIN = "Scheduling loading of metadata from __consumer_offsets-0"
END = re.compile(
    r"Finished loading of metadata from __consumer_offsets-0 .* in (\d+)ms where (\d+)"
)
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(slots=True)
class Loaded:
    """One load."""

    seconds: float
    """Without the wait for a free thread."""
    cpu_seconds: float


def kafka_load(data: Path, directory: Path) -> Loaded:
    """Have a broker load the one partition of a data directory.

    Raises CannotRun.
    """
    core = two_cores().server
    directory.mkdir()
    with kafka(core, directory, SETTINGS):
        pass
    export_log(data, directory / "data")
    (directory / "kafka.log").write_bytes(b"")
    with _environment({"_JAVA_OPTIONS": JAVA_OPTIONS}), _watched(directory) as watch:
        with kafka(core, directory, SETTINGS):
            watch.join(60)
        if watch.loaded is None:
            raise CannotRun(f"no word of a load in {directory / 'kafka.log'}")
        return watch.loaded


class _Watch(threading.Thread):
    """Follows the broker's log, and looks at its CPU time when the load begins and ends."""

    def __init__(self, directory: Path) -> None:
        super().__init__(daemon=True)
        self.loaded: Loaded | None = None
        self.given_up = threading.Event()
        self._directory = directory

    def run(self) -> None:
        """Wait for the two lines."""
        begun: float | None = None
        while not self.given_up.is_set():
            text = (self._directory / "kafka.log").read_text(errors="replace")
            if begun is None and BEGIN in text:
                begun = self._cpu()
            if begun is not None and (end := END.search(text)):
                took = (int(end[1]) - int(end[2])) / 1000
                self.loaded = Loaded(took, self._cpu() - begun)
                return
            time.sleep(0.005)

    def _cpu(self) -> float:
        """Seconds of CPU the broker has used."""
        pid = (self._directory / "pid").read_text()
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS


@contextmanager
def _watched(directory: Path) -> Iterator[_Watch]:
    watch = _Watch(directory)
    watch.start()
    try:
        yield watch
    finally:
        watch.given_up.set()
        watch.join()


@contextmanager
def _environment(more: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(more)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)

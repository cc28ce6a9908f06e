"""How long heartbeats wait while a partition of the log is compacted.

`python -m benchmarks.compaction [MEGABYTES]` fills a partition with commits, half of which are out
of date, and lets a server compact it. A member on another connection sends a heartbeat every
millisecond meanwhile; what it waits is compared with a server that has nothing to compact. On a
machine with other work that says little; so last it prints how much CPU the compacting thread took
between two turns of another thread, which bounds how long it can have kept the interpreter.
"""

import argparse
import socket
import struct
import sys
import tempfile
import threading
import time
import urllib.request
from http.client import HTTPException
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.load_time import RECORDS_PER_BATCH, commit
from benchmarks.servers import CannotRun, Running, ours, two_cores
from coordinator_protocol.batch import build_batch
from coordinator_server.storage.segments.cleaner import Throttle
from coordinator_server.storage.segments.compact import compact
from coordinator_server.storage.segments.log import SegmentLog
from coordinator_server.storage.segments.storage import TOPIC

SEGMENT_BYTES: Final = 10_000_000
HEARTBEAT, JOIN_GROUP, SYNC_GROUP = 12, 11, 14
QUIET_SECONDS: Final = 5.0
LIMIT_SECONDS: Final = 600.0
PAUSE_SECONDS: Final = 0.001


class Waits(NamedTuple):
    """Of all heartbeats, or turns, of a run: how many, and milliseconds."""

    number: int
    p50: float
    p99: float
    p999: float
    longest: float


def write(directory: Path, megabytes: int) -> int:
    """Make a partition whose keys were all committed twice; how many bytes it has."""
    log = SegmentLog(directory / f"{TOPIC}-0", segment_bytes=SEGMENT_BYTES)
    number, half = 0, megabytes * 500_000
    keys = 0
    while log.size < 2 * half:
        if not keys and log.size >= half:
            keys = number
        batch = range(number, number + RECORDS_PER_BATCH)
        log.append(build_batch([commit(each % keys if keys else each) for each in batch]))
        number += RECORDS_PER_BATCH
    log.close()
    return log.size


class Member:
    """The only member of a group, over a blocking connection."""

    def __init__(self, port: int) -> None:
        """Join and sync; the group is not in the partition that is compacted."""
        self._socket = socket.create_connection(("127.0.0.1", port), 30)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        protocols = struct.pack(">i", 1) + _text("range") + struct.pack(">i", 0)
        body = _text("g") + struct.pack(">i", 300_000) + _text("") + _text("consumer") + protocols
        answer = self._call(JOIN_GROUP, body)
        error, generation = struct.unpack_from(">hi", answer)
        if error:
            raise CannotRun(f"JoinGroup was answered with error {error}")
        member_id = _leader(answer)
        self._who = _text("g") + struct.pack(">i", generation) + member_id
        self._call(SYNC_GROUP, self._who + struct.pack(">i", 1) + member_id + struct.pack(">i", 0))

    def heartbeat(self) -> float:
        """Send one; how long its answer took, in seconds. Raises CannotRun."""
        began = time.perf_counter()
        (error,) = struct.unpack(">h", self._call(HEARTBEAT, self._who))
        if error:
            raise CannotRun(f"a heartbeat was answered with error {error}")
        return time.perf_counter() - began

    def _call(self, api: int, body: bytes) -> bytes:
        request = struct.pack(">hhi", api, 0, 1) + _text("benchmark") + body
        self._socket.sendall(struct.pack(">i", len(request)) + request)
        (size,) = struct.unpack(">i", self._read(4))
        return self._read(size)[4:]

    def _read(self, size: int) -> bytes:
        received = b""
        while len(received) < size:
            if not (chunk := self._socket.recv(size - len(received))):
                raise CannotRun("the server has closed the connection")
            received += chunk
        return received

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def _leader(answer: bytes) -> bytes:
    """The leader's id in a JoinGroup v0 answer, with its length."""
    at = 2 + 4
    at += 2 + int.from_bytes(answer[at : at + 2])
    return answer[at : at + 2 + int.from_bytes(answer[at : at + 2])]


def await_load(running: Running) -> None:
    """Wait until every partition is loaded. Raises CannotRun."""
    until = time.monotonic() + LIMIT_SECONDS
    while time.monotonic() < until:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{running.port + 1}/readyz", timeout=30):
                return
        except (OSError, HTTPException):
            # Nobody listens yet; now and then a connection to such a port is one to itself.
            time.sleep(0.01)
    raise CannotRun("the log was not loaded")


def measure(directory: Path, settings: dict[str, str], *, compacts: bool) -> tuple[Waits, float]:
    """Heartbeats until the log is compacted, or for a while; and how many seconds that was."""
    given = {"offsets.topic.num.partitions": "2", **settings}
    with ours(two_cores().server, directory, given, at_rest=not compacts) as running:
        await_load(running)
        member = Member(running.port)
        waits: list[float] = []
        log, began = directory / "server.log", time.monotonic()
        while (seconds := time.monotonic() - began) < LIMIT_SECONDS:
            if compacts and b"log_compact" in log.read_bytes():
                break
            if not compacts and seconds >= QUIET_SECONDS:
                break
            for _ in range(100):
                waits.append(member.heartbeat())
                time.sleep(PAUSE_SECONDS)
        member.close()
    if compacts and b"log_compacted" not in log.read_bytes():
        raise CannotRun(f"the log was not compacted in {seconds:.0f} s, see {log}")
    return summary(waits), seconds


def measure_turns(directory: Path) -> Waits:
    """CPU of a compaction without a bound on bytes between two turns of this thread."""
    log = SegmentLog(directory / f"{TOPIC}-0", segment_bytes=SEGMENT_BYTES)
    ended = threading.Event()

    def run() -> None:
        pace = Throttle(1e12, log.closing, threading.Event())
        compact(log, throttle=pace, wall_ms=lambda: 0, delete_retention_ms=86_400_000)
        compacted.set()
        ended.wait()

    compacted = threading.Event()
    thread = threading.Thread(target=run)
    thread.start()
    assert thread.ident is not None
    clock = time.pthread_getcpuclockid(thread.ident)
    spent: list[float] = []
    last = time.clock_gettime(clock)
    while not compacted.is_set():
        time.sleep(PAUSE_SECONDS / 2)
        now = time.clock_gettime(clock)
        spent.append(now - last)
        last = now
    ended.set()
    thread.join()
    log.close()
    return summary(spent)


def summary(waits: list[float]) -> Waits:
    """Percentiles, from seconds."""
    ordered = sorted(wait * 1_000 for wait in waits)
    last = len(ordered) - 1
    at = [ordered[round(last * share)] for share in (0.5, 0.99, 0.999, 1.0)]
    return Waits(len(ordered), *at)


RUNS: Final = {
    "nothing to compact": {"log.cleaner.enable": "false"},
    "as by default": {"log.cleaner.backoff.ms": "100"},
    "without a bound on bytes": {
        "log.cleaner.backoff.ms": "100",
        "log.cleaner.io.max.bytes.per.second": "1000000000000",
    },
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("megabytes", nargs="?", type=int, default=100, help="of the partition")
    megabytes = parser.parse_args().megabytes
    print(f"a heartbeat every {PAUSE_SECONDS * 1000:g} ms, beside a partition of {megabytes} MB")
    for name, settings in RUNS.items():
        with tempfile.TemporaryDirectory() as place:
            size = write(Path(place) / "data", megabytes)
            compacts = settings.get("log.cleaner.enable") != "false"
            waits, seconds = measure(Path(place), settings, compacts=compacts)
            after = sum(path.stat().st_size for path in Path(place).rglob("*.log"))
        sizes = f", {size / 1e6:.0f} MB became {after / 1e6:.0f}" if compacts else ""
        print(
            f"{name}: {waits.number} heartbeats in {seconds:.1f} s, p50 {waits.p50:.2f} ms, "
            f"p99 {waits.p99:.2f}, p999 {waits.p999:.2f}, longest {waits.longest:.1f}{sizes}"
        )
    with tempfile.TemporaryDirectory() as place:
        write(Path(place), megabytes)
        turns = measure_turns(Path(place))
    print(
        f"CPU of the compaction between two of {turns.number} turns of another thread: "
        f"p99 {turns.p99:.2f} ms, p999 {turns.p999:.2f}, longest {turns.longest:.1f}"
    )


if __name__ == "__main__":
    try:
        main()
    except CannotRun as error:
        sys.exit(f"error: {error}")

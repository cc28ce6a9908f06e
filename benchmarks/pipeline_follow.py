"""How soon appended records are in all tables while the pipeline follows the log.

`python -m benchmarks.pipeline_follow [--commits N] [--groups N] [--records N] [--turns N]`: the
stream takes in a generated log, then so many records are appended at once, again and again. The
time is from the append until the batch counts for whoever reads the tables; waiting for the
stream's next look is part of it. What a batch costs grows with the history of its groups.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from benchmarks.pipeline_log import BEGIN_MS, DAY_MS, LOG_PARTITIONS, Size, write
from coordinator_pipeline.errors import without_extra
from coordinator_protocol.batch import LogRecord, build_batch
from coordinator_protocol.java import partition_for
from coordinator_protocol.offset_value import OffsetCommitValue
from coordinator_protocol.records import OffsetCommitKey, encode_key, encode_value

try:
    import pyarrow.parquet as pq

    from coordinator_pipeline.follow import start_following
    from coordinator_pipeline.run import LogSource, prepare
    from coordinator_pipeline.session import open_session
    from coordinator_pipeline.source.directory import DirectoryLog
    from coordinator_pipeline.source.options import parse_options
except ModuleNotFoundError as missing:
    raise SystemExit(without_extra(missing)) from None

TOUCHED_GROUPS = 5
MOST_SECONDS = 300
COLD_TURNS = 5
"""In which Java still compiles what it runs."""


def made(log: Path, records: int, turn: int) -> dict[Path, bytes]:
    """One batch for each of a few groups, and the file at whose end it is to be."""
    found = {}
    source = DirectoryLog(parse_options({"path": str(log)}))
    at = BEGIN_MS + DAY_MS + turn * 1_000
    for number in range(TOUCHED_GROUPS):
        group = f"group-{100 + number:04d}"
        partition = partition_for(group, LOG_PARTITIONS)
        _, end = source.bounds(partition)
        batch = [
            LogRecord(
                encode_key(OffsetCommitKey(group, "orders", offset % 12)),
                encode_value(OffsetCommitValue(turn * records + offset, 4, "", at)),
                at,
            )
            for offset in range(records // TOUCHED_GROUPS)
        ]
        active = max(source.directory(partition).glob("*.log"))
        found[active] = build_batch(batch, end)
    return found


class Finished:
    """How many records are in batches that count."""

    def __init__(self, out: Path) -> None:
        self._out = out
        self._rows: dict[str, int] = {}

    def wait_for(self, records: int) -> int:
        """Until there are so many; returns how many there are."""
        deadline = time.monotonic() + MOST_SECONDS
        while (found := self._count()) < records:
            if time.monotonic() > deadline:
                raise SystemExit(f"{records:,} records were not there within {MOST_SECONDS} s")
            time.sleep(0.01)
        return found

    def _count(self) -> int:
        for touched in (self._out / "touched").glob("batch=*"):
            if touched.name not in self._rows:
                files = (self._out / "records" / touched.name).glob("date=*/*.parquet")
                self._rows[touched.name] = sum(pq.read_metadata(one).num_rows for one in files)
        return sum(self._rows.values())


def follow(scratch: Path, size: Size, records: int, turns: int) -> Iterator[tuple[str, float]]:
    """Seconds of the first batch, and of each one after an append."""
    log, out = scratch / "log", scratch / "tables"
    write(log, size)
    source = LogSource(log=log)
    prepare(source, out, follow=True)
    session = open_session("local[2]")
    began = time.monotonic()
    query = start_following(session, source, out, lambda text: None)  # noqa: ARG005
    finished = Finished(out)
    before = finished.wait_for(1)
    yield "the log as it was", time.monotonic() - began
    for turn in range(turns):
        batches = made(log, records, turn)
        began = time.monotonic()
        for path, raw in batches.items():
            with path.open("ab") as file:
                file.write(raw)
        before = finished.wait_for(before + records)
        yield f"{records:,} more records", time.monotonic() - began
    query.stop()
    session.stop()


def main() -> None:
    """Print a Markdown table, row by row."""
    parser = argparse.ArgumentParser(description="Measure how soon appended records are in tables.")
    parser.add_argument("--commits", type=int, default=60_000, help="in the log before")
    parser.add_argument("--groups", type=int, default=600, help="in the log before")
    parser.add_argument("--records", type=int, default=1_000, help="appended at once")
    parser.add_argument("--turns", type=int, default=12, help="how often")
    given = parser.parse_args()
    size = Size(given.commits, given.commits // 20, given.groups)
    print("| what | seconds | load of the machine |\n|---|--:|--:|")
    with tempfile.TemporaryDirectory() as scratch:
        turns = []
        for what, seconds in follow(Path(scratch), size, given.records, given.turns):
            print(f"| {what} | {seconds:.2f} | {os.getloadavg()[0]:.1f} |", flush=True)
            turns.append(seconds)
        warm = sorted(turns[1 + COLD_TURNS :])
        if warm:
            print(f"| median after the first {COLD_TURNS} | {median(warm):.2f} | |")
            print(f"| slowest of them | {warm[-1]:.2f} | |")


if __name__ == "__main__":
    main()

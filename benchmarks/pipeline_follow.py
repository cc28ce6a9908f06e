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

from pipeline.errors import without_extra
from protocol.batch import LogRecord, build_batch
from protocol.java import partition_for
from protocol.offset_value import OffsetCommitValue
from protocol.records import OffsetCommitKey, encode_key, encode_value

try:
    from pipeline.follow import start_following
    from pipeline.run import Source, prepare
    from pipeline.session import open_session
    from pipeline.source.directory import DirectoryLog
    from pipeline.source.options import parse
except ModuleNotFoundError as missing:
    raise SystemExit(without_extra(missing)) from None

TOUCHED_GROUPS = 5
MOST_SECONDS = 300
COLD_TURNS = 5
"""In which Java still compiles what it runs."""


def append(log: Path, records: int, turn: int) -> None:
    """One batch for each of a few groups, at the end of its log partition."""
    source = DirectoryLog(parse({"path": str(log)}))
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
        with active.open("ab") as file:
            file.write(build_batch(batch, end))


def follow(scratch: Path, size: Size, records: int, turns: int) -> Iterator[tuple[str, float]]:
    """Seconds of the first batch, and of each one after an append."""
    log, out = scratch / "log", scratch / "tables"
    write(log, size)
    source = Source(log=log)
    prepare(source, out, follow=True)
    session = open_session("local[2]")
    began = time.monotonic()
    query = start_following(session, source, out, lambda text: None)  # noqa: ARG005
    _wait_for(out, 0)
    yield "the log as it was", time.monotonic() - began
    for turn in range(turns):
        began = time.monotonic()
        append(log, records, turn)
        _wait_for(out, turn + 1)
        yield f"{records:,} more records", time.monotonic() - began
    query.stop()
    session.stop()


def _wait_for(out: Path, batch: int) -> None:
    """Until a batch is written and counts."""
    deadline = time.monotonic() + MOST_SECONDS
    while not (out / "touched" / f"batch={batch}").exists():
        if time.monotonic() > deadline:
            raise SystemExit(f"batch {batch} was not written within {MOST_SECONDS} s")
        time.sleep(0.01)


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

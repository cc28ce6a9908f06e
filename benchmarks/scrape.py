"""What heartbeats wait while Prometheus scrapes a server with 10,000 groups.

`python -m benchmarks.scrape` has 50 members send a heartbeat every 50 ms each, in turns without and
with somebody who scrapes ten times a second at most: a hundred times as often as Prometheus does.
Each server is measured both ways, so that what else the machine does disturbs both alike.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks import servers, stored
from benchmarks.compaction import await_load
from benchmarks.servers import CannotRun, Running
from benchmarks.tables import table
from benchmarks.tails import Bench, page, repeating, say
from benchmarks.work import Sample

GROUPS: Final = 10_000
COMMITS_EACH: Final = 10
PAUSE_SECONDS: Final = 0.1
EVERY_MS: Final = 50

_OF_GROUPS: Final = {"metrics.groups.allow": ".*"}
_ALL: Final = {"metrics.groups.max.series": "1000000", "metrics.aliases": "kafka_exporter,jmx"}
SETTINGS: Final[dict[str, dict[str, str]]] = {
    "the process alone (default)": {},
    "groups too, up to the default limit": _OF_GROUPS,
    "every group, under all names, no limit": {**_OF_GROUPS, **_ALL},
}


def write_groups(data: Path, count: int) -> None:
    """Groups with three members and ten commits each, as a server leaves them."""
    wall = time.time_ns() // 1_000_000
    ids = [f"group-{number}" for number in range(count)]
    parts = stored.spread(
        (each, [stored.group(each, 3, wall), *stored.commits(each, COMMITS_EACH, wall)])
        for each in ids
    )
    for partition, records in parts.items():
        stored.write(data, partition, records)


class Scraper:
    """Remembers how long its scrapes took, and how long the last was."""

    def __init__(self, server: Running) -> None:
        self._server = server
        self.seconds: list[float] = []
        self.size = 0
        self.lines = 0

    def scrape(self) -> None:
        """Scrape once."""
        began = time.perf_counter()
        text = page(self._server, "/metrics")
        self.seconds.append(time.perf_counter() - began)
        self.size, self.lines = len(text), text.count("\n") - text.count("\n#")


def measure(bench: Bench, settings: dict[str, str], groups: int, rounds: int) -> tuple[str, ...]:
    """One server, in turns without and with scrapes: the cells of its row. Raises CannotRun."""
    with tempfile.TemporaryDirectory(prefix="scrape-", dir="/var/tmp") as name:
        write_groups(Path(name) / "data", groups)
        with bench.server(Path(name), settings) as server:
            await_load(server)
            scraper = Scraper(server)
            quiet, busy = [], []
            for _ in range(rounds):
                quiet.append(bench.heartbeats(server))
                with repeating(scraper.scrape, PAUSE_SECONDS):
                    busy.append(bench.heartbeats(server))
    return cells(quiet, busy, scraper)


def cells(quiet: list[Sample], busy: list[Sample], scraper: Scraper) -> tuple[str, ...]:
    """Medians over the rounds, in milliseconds; then what a scrape is."""
    return (
        _ms(quiet, lambda sample: sample.p50_us),
        _ms(busy, lambda sample: sample.p50_us),
        _ms(quiet, lambda sample: sample.p99_us),
        _ms(busy, lambda sample: sample.p99_us),
        _ms(quiet, lambda sample: sample.p999_us),
        _ms(busy, lambda sample: sample.p999_us),
        f"{scraper.lines:,}",
        f"{scraper.size / 1e6:.1f}",
        f"{median(scraper.seconds) * 1e3:.0f}",
    )


def _ms(samples: list[Sample], of: Callable[[Sample], float]) -> str:
    return f"{median(map(of, samples)) / 1e3:.2f}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=GROUPS)
    parser.add_argument("--seconds", type=float, default=3.0, help="of heartbeats in each run")
    parser.add_argument("--rounds", type=int, default=3, help="of each way, by turns")
    parser.add_argument("--only", default="", help="part of the name of what is to be measured")
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        bench = Bench(servers.built("load", Path(directory)), arguments.seconds, EVERY_MS)
        for name, settings in SETTINGS.items():
            if arguments.only in name:
                say(name)
                rows.append((name, *measure(bench, settings, arguments.groups, arguments.rounds)))
    print(f"{arguments.groups:,} groups. Load average {os.getloadavg()[0]:.1f}.\n")
    head = ("series of", "p50 ms", "scraped", "p99 ms", "scraped", "p999 ms", "scraped")
    print(table((*head, "series", "MB", "ms per scrape"), rows, texts=1))


if __name__ == "__main__":
    try:
        main()
    except CannotRun as error:
        sys.exit(f"error: {error}")

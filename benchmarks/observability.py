"""What it costs to be able to say why: everything on against everything off, in one process.

`python -m benchmarks.observability` gives a server heartbeats and commits, in turns with all that
observes (HTTP, metrics of every group under all names, a scrape per second of CPU, history of
rebalances in the log, lines of the level info) and without any of it, and compares the CPU time per
request.
Counters, and what the state machine remembers, cannot be switched off: they are in both.
"""

import argparse
import asyncio
import gc
import os
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from statistics import median
from typing import Final

import uvloop

from benchmarks.choice import chosen
from benchmarks.tables import table
from benchmarks.turn import SETTINGS, WORKS, Client, serve_all
from coordinator_server.app import App
from coordinator_server.config import load
from coordinator_server.observe import log

ON: Final = {
    **SETTINGS,
    "http.listener": "127.0.0.1:0",
    "log.level": "info",
    "metrics.groups.allow": ".*",
    "metrics.aliases": "jmx,kafka_exporter",
}
OFF: Final = {**SETTINGS, "log.level": "error", "rebalance.history.retention.ms": "0"}

CLIENTS: Final = 16
SCRAPE_SECONDS: Final = 1.0
CHUNKS_PER_TURN: Final = 16
"""How many chunks are served before the loop gets round to its other business."""
MOST_PERCENT: Final = 5.0
DEFAULT_WORKS: Final = ("heartbeat", "commit of 1 partition")


async def measure(name: str, settings: dict[str, str], seconds: float) -> float:
    """Microseconds of CPU per request, all threads and the scraper's side included."""
    level = settings.get("log.level", "info")
    log.configure(level=level, line_format="json", fd=os.open(os.devnull, os.O_WRONLY))
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
        app = App(load(environ={}, flags={**settings, "log.dirs": directory}).config)
        await app.start()
        try:
            while not app.coordinator.is_ready:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.01)
            return await _loaded(app, name, seconds)
        finally:
            await app.stop()


async def _loaded(app: App, name: str, seconds: float) -> float:
    make, requests = WORKS[name]
    clients = [Client(app, number) for number in range(CLIENTS)]
    for client in clients:
        await client.join()
    chunks = [make(client) for client in clients]
    port = app.http_port
    scraping = None if port is None else asyncio.create_task(_scrape(port))
    await _serve(clients, chunks)
    gc.collect()
    count, began = 0, time.process_time()
    while (spent := time.process_time() - began) < seconds:
        await _serve(clients, chunks)
        count += CLIENTS * requests * CHUNKS_PER_TURN
    if scraping is not None:
        scraping.cancel()
        with suppress(asyncio.CancelledError):
            await scraping
    return spent / count * 1e6


async def _serve(clients: Sequence[Client], chunks: Sequence[bytes]) -> None:
    """So many chunks of every client; then whoever else waits for the loop has a turn."""
    for _ in range(CHUNKS_PER_TURN):
        await serve_all(clients, chunks)
    await asyncio.sleep(0)


async def _scrape(port: int) -> None:
    """Ask for the metrics as Prometheus does, but fifteen times as often.

    By the CPU time of the process: on a busy machine a second of the clock is a part of one, and
    scrapes would come that much more often per request.
    """
    while True:
        due = time.process_time() + SCRAPE_SECONDS
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        if b"200 OK" not in await reader.readline() or len(await reader.read()) < 10_000:
            raise RuntimeError("the scrape was not answered")
        writer.close()
        while time.process_time() < due:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(SCRAPE_SECONDS / 50)


def compare(name: str, seconds: float, rounds: int) -> tuple[str, ...]:
    """A row: requests per CPU second off and on, and what observing takes of them.

    What else the machine does changes slowly: each run is compared with those before and after it.
    """
    off, on = [], []
    for _ in range(rounds):
        off.append(uvloop.run(measure(name, OFF, seconds)))
        on.append(uvloop.run(measure(name, ON, seconds)))
    off.append(uvloop.run(measure(name, OFF, seconds)))
    percent = percent_more(off, on)
    verdict = "met" if percent < MOST_PERCENT else "missed"
    figures = (f"{1e6 / median(each):,.0f}" for each in (off, on))
    return (name, *figures, f"{percent:+.1f} %", verdict)


def percent_more(off: Sequence[float], on: Sequence[float]) -> float:
    """The median of what each run took more than the mean of its neighbours; `off` has one more."""
    beside = [(before + after) / 2 for before, after in pairwise(off)]
    return (median(own / other for own, other in zip(on, beside, strict=True)) - 1) * 100


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("works", nargs="*", metavar="WORK", help="part of a name")
    parser.add_argument("--seconds", type=float, default=3.0, help="of CPU for each")
    parser.add_argument("--rounds", type=int, default=5, help="of each way, by turns")
    arguments = parser.parse_args()
    names = chosen(parser, WORKS, arguments.works or DEFAULT_WORKS)
    rows = [compare(name, arguments.seconds, arguments.rounds) for name in names]
    print(f"Load average {os.getloadavg()[0]:.1f}. At most {MOST_PERCENT:g} % are wanted.\n")
    head = ("work", "per CPU second, off", "on", "more CPU", "")
    print(table(head, rows, texts=1))


if __name__ == "__main__":
    main()

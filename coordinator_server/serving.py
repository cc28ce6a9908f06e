"""Runs one server in this process until it is told to stop."""

import asyncio
import gc
import resource
import signal

from coordinator_server.app import App
from coordinator_server.config import Config
from coordinator_server.systemd import told_to_systemd
from coordinator_server.topics.catalog import CorruptCatalog
from coordinator_server.topics.errors import TopicError


class CannotStart(Exception):
    """The data directory does not fit the settings; the message says what and where."""


async def serve(config: Config) -> None:
    """Serve until SIGTERM or SIGINT. Raises CannotStart, OSError."""
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    try:
        app = App(config)
    except (ValueError, CorruptCatalog, TopicError) as error:
        raise CannotStart(str(error)) from error
    await app.start()
    calm_collector()
    async with told_to_systemd(app.status.partitions) as tell_stopping:
        await stopping.wait()
        tell_stopping()
        app.report("server_stopping")
        await app.stop()
    app.report("server_stopped")


def calm_collector() -> None:
    """What is there now stays: later collections need not look at it, and rarely at the rest."""
    gc.collect()
    gc.freeze()
    gc.enable()
    gc.set_threshold(5_000, 500, 100)


def allow_many_files() -> None:
    """As many open connections and segments as the system lets us have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def main(config: Config) -> int:
    """Run a server until it is told to stop; the exit code."""
    import uvloop

    allow_many_files()
    uvloop.run(serve(config))
    return 0

"""Runs a server in this process until a signal stops it."""

import asyncio
import gc
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, NoReturn

from coordinator_server.app import App
from coordinator_server.config import Config
from coordinator_server.observe import log
from coordinator_server.server.process_limits import allow_many_files, check_files
from coordinator_server.server.reload import Reloader, handle_hang_up
from coordinator_server.server.systemd import systemd_notifications
from coordinator_server.topics.catalog import CorruptCatalog
from coordinator_server.topics.errors import TopicError


class CannotStart(Exception):
    """The data directory contradicts the settings; the message says what and where."""


CUT_OFF_SECONDS: Final = 6.5
"""Time after the stop signal at which the process ends even if a disk hangs.

Orchestrators wait 10 seconds. Acknowledged data is in files already, so none is lost.
"""

ReadConfig = Callable[[], tuple[Config, Sequence[str]]]
"""Reads the settings again; raises ConfigError."""


async def wait_for_stop(stopping: asyncio.Event, broken: asyncio.Event) -> bool:
    """Wait for a stop; return False if a required task failed."""
    waits = [asyncio.ensure_future(event.wait()) for event in (stopping, broken)]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waits:
            each.cancel()
    return not broken.is_set()


async def serve(config: Config, read: ReadConfig | None = None) -> bool:
    """Serve until SIGTERM or SIGINT; return False if the server broke or data was lost.

    Raises CannotStart, OSError.
    """
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    try:
        app = App(config)
    except (ValueError, CorruptCatalog, TopicError) as error:
        raise CannotStart(str(error)) from error
    reload = None
    if read is not None:
        reload = Reloader(config, read, lambda new: app.set_log_level(new.log_level), app.report)
    handle_hang_up(stopping, reload)
    await app.start()
    freeze_heap()
    async with systemd_notifications(app.status.partitions, app.tasks) as tell_stopping:
        succeeded = await wait_for_stop(stopping, app.broken)
        tell_stopping()
        app.report("server_stopping")
        skip_cleanup([app, app.groups_in_memory()], app.report)
        await app.stop()
    app.report("server_stopped")
    return succeeded and app.is_data_kept


def freeze_heap() -> None:
    """Exclude all current objects from garbage collection, and collect the others rarely."""
    gc.collect()
    gc.freeze()
    gc.enable()
    gc.set_threshold(5_000, 500, 100)


_kept: Final[list[object]] = []


def skip_cleanup(
    kept: object, report: Callable[..., None], cut_off_seconds: float = CUT_OFF_SECONDS
) -> None:
    """Stop freeing memory at the begin of a stop, and end the process if the stop takes too long.

    Freeing the objects of 740,000 groups takes seconds; the operating system frees them at once.
    """
    _kept.append(kept)
    gc.disable()

    def cut_off() -> None:
        report(
            "stop_cut_off_failed",
            seconds=cut_off_seconds,
            why="a disk or a thread does not respond; the process ends now",
        )
        exit_now(1)

    timer = threading.Timer(cut_off_seconds, cut_off)
    timer.daemon = True
    timer.start()


def exit_now(code: int) -> NoReturn:
    """End the process without freeing its objects."""
    log.close()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def main(config: Config, read: ReadConfig | None = None) -> int:
    """Run a server until a signal stops it; return the exit code. Raises TooFewFiles."""
    import uvloop

    allow_many_files()
    check_files(config)
    return 0 if uvloop.run(serve(config, read)) else 1

"""Waits for servers that are started to be tried."""

import time
from collections.abc import Callable

from coordinator_server.cli.healthcheck import Unhealthy, find_coordinator

START_SECONDS = 90.0
"""A JVM on a busy machine takes its time."""


def await_coordinator(port: int, ended: Callable[[], bool]) -> float:
    """Ask for a coordinator until there is one; when that was, by the monotonic clock.

    `ended` says whether there is no use in asking any more. Raises Unhealthy.
    """
    until = time.monotonic() + START_SECONDS
    while True:
        try:
            find_coordinator("127.0.0.1", port, timeout=5)
        except Unhealthy as error:
            if ended() or time.monotonic() > until:
                raise Unhealthy(f"it does not come up: {error}") from error
            time.sleep(0.002)
        else:
            return time.monotonic()

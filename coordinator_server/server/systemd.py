"""Notifies systemd of the server's state with sd_notify, if NOTIFY_SOCKET is set.

The event loop sends the watchdog messages, so systemd restarts a server whose loop hangs.
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable, Mapping, MutableMapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Final, Self

from coordinator_server.loop.task_keeper import TaskKeeper

CHECK_SECONDS: Final = 1.0
"""Interval of the checks for a changed state."""

EXTEND_SECONDS: Final = 30
"""Extension of the start timeout at every check while partitions load."""


Partitions = Callable[[], Mapping[str, int]]
"""Returns the number of partitions by state."""


class Notifier:
    """Sends datagrams to systemd's socket and ignores failures, as libsystemd does."""

    def __init__(self, address: str, watchdog_seconds: float | None = None) -> None:
        """`address` is a path, or a name in the abstract namespace with `@` before it."""
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._watchdog = watchdog_seconds
        self._status = ""
        self._is_ready = False

    @classmethod
    def from_environment(cls, environ: MutableMapping[str, str], pid: int) -> Self | None:
        """Make a notifier from systemd's variables; None without them.

        The variables are removed from the environment, because child processes must not use them.
        """
        address = environ.pop("NOTIFY_SOCKET", "")
        microseconds = environ.pop("WATCHDOG_USEC", "")
        meant = environ.pop("WATCHDOG_PID", "") in ("", str(pid))
        if not address.startswith(("/", "@")):
            return None
        is_watched = meant and microseconds.isascii() and microseconds.isdecimal()
        return cls(address, int(microseconds) / 1e6 if is_watched else None)

    def tell(self, *assignments: str) -> None:
        """Send `NAME=VALUE` lines."""
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            sender.sendto("\n".join(assignments).encode(), self._address)

    async def run(self, partitions: Partitions) -> None:
        """Send readiness, partition states and watchdog messages until cancelled."""
        pause = CHECK_SECONDS if self._watchdog is None else min(CHECK_SECONDS, self._watchdog / 3)
        while True:
            self.look(partitions())
            await asyncio.sleep(pause)

    def look(self, partitions: Mapping[str, int]) -> None:
        """Send changes and the watchdog message.

        Failed partitions do not prevent readiness, because the others are served.
        """
        news = [] if self._watchdog is None else ["WATCHDOG=1"]
        if not self._is_ready:
            self._is_ready = not (partitions.get("initial") or partitions.get("loading"))
            news.append("READY=1" if self._is_ready else _EXTEND)
        status = _describe(partitions)
        if status != self._status:
            self._status = status
            news.append(f"STATUS={status}")
        if news:
            self.tell(*news)

    def stopping(self) -> None:
        """Send that the server is stopping."""
        self.tell("STOPPING=1", "STATUS=stopping")


@asynccontextmanager
async def systemd_notifications(
    partitions: Partitions, tasks: TaskKeeper
) -> AsyncIterator[Callable[[], None]]:
    """Notify systemd, if it started this process; yields a function that sends the stop.

    Watchdog messages continue to the end of the block, because a stop takes time.
    """
    notifier = Notifier.from_environment(os.environ, os.getpid())
    if notifier is None:
        yield lambda: None
        return
    notifying = tasks.keep("systemd notifier", partial(notifier.run, partitions))
    try:
        yield notifier.stopping
    finally:
        notifying.cancel()


_EXTEND: Final = f"EXTEND_TIMEOUT_USEC={EXTEND_SECONDS * 1_000_000}"


def _describe(partitions: Mapping[str, int]) -> str:
    total, failed = sum(partitions.values()), partitions.get("failed", 0)
    served = f"{partitions.get('active', 0)} of {total} partitions served"
    return f"{served}, {failed} failed" if failed else served

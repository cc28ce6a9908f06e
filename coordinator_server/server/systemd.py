"""Tells systemd how the server is, over the socket it names (sd_notify); absent without one.

The watchdog is fed by the event loop, so a loop that stands still is restarted.
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable, Mapping, MutableMapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Final, Self

from coordinator_server.loop.task_keeper import TaskKeeper

LOOK_SECONDS: Final = 1.0
"""How often it is looked whether there is something to tell."""

EXTEND_SECONDS: Final = 30
"""How much more time a start gets with every look while partitions load."""


Partitions = Callable[[], Mapping[str, int]]
"""How many partitions are in each state."""


class Notifier:
    """Sends datagrams to systemd's socket; what cannot be sent is dropped, as libsystemd does."""

    def __init__(self, address: str, watchdog_seconds: float | None = None) -> None:
        """`address` is a path, or a name in the abstract namespace with `@` before it."""
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._watchdog = watchdog_seconds
        self._status = ""
        self._is_ready = False

    @classmethod
    def from_environment(cls, environ: MutableMapping[str, str], pid: int) -> Self | None:
        """As systemd asks for it; None where it does not.

        What is asked of this process is taken out of the environment: children are not meant.
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
        """Tell of readiness, of the state of the partitions and of being alive, until cancelled."""
        pause = LOOK_SECONDS if self._watchdog is None else min(LOOK_SECONDS, self._watchdog / 3)
        while True:
            self.look(partitions())
            await asyncio.sleep(pause)

    def look(self, partitions: Mapping[str, int]) -> None:
        """Tell what is new, and feed the watchdog.

        Partitions that failed keep nobody from being ready: the others are served.
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
        """Tell that the server stops because it was asked to."""
        self.tell("STOPPING=1", "STATUS=stopping")


@asynccontextmanager
async def systemd_notifications(
    partitions: Partitions, tasks: TaskKeeper
) -> AsyncIterator[Callable[[], None]]:
    """Keep systemd informed, if this process runs under it; yields what tells of the stop.

    The watchdog is fed until the end of the block: a stop takes its time, too.
    """
    notifier = Notifier.from_environment(os.environ, os.getpid())
    if notifier is None:
        yield lambda: None
        return
    telling = tasks.keep("systemd notifier", partial(notifier.run, partitions))
    try:
        yield notifier.stopping
    finally:
        telling.cancel()


_EXTEND: Final = f"EXTEND_TIMEOUT_USEC={EXTEND_SECONDS * 1_000_000}"


def _describe(partitions: Mapping[str, int]) -> str:
    total, failed = sum(partitions.values()), partitions.get("failed", 0)
    served = f"{partitions.get('active', 0)} of {total} partitions served"
    return f"{served}, {failed} failed" if failed else served

"""Limits of connections: `max.connections`, `max.connections.per.ip`, open files."""

import resource
from collections.abc import Callable
from typing import Final

SPARE_FILES: Final = 64
"""Of the files a process may open: for the log, HTTP and modules; of few files a quarter."""
OPEN_FILES: Final = "open files"
"""The limit that `ulimit -n` sets."""


class ConnectionLimits:
    """Counts the connections there are, in all and by address.

    Unlike Kafka, which lets what exceeds `max.connections` wait in the listen queue, a connection
    too many is closed at once: its client learns of it, and so does the log.
    """

    def __init__(self, max_connections: int, max_per_ip: int) -> None:
        self.total = 0
        self._max = max_connections
        self._max_per_ip = max_per_ip
        self._by_ip: dict[str, int] = {}
        self._max_files = _files_of_connections()
        self.most_by_files = self._max_files
        """The number of connections that leaves enough files for everything else."""
        self._unasked = 0
        """The number that is admitted without a look at the descriptor."""

    def admit(self, ip: str, descriptor: Callable[[], int]) -> str | None:
        """Count a connection; or the limit that forbids it.

        A new `descriptor` is the lowest that is free: as many files are open, at least. To ask for
        one takes longer than all the rest, so it is done when half of those left may be open.
        """
        self._unasked -= 1
        if self._unasked < 0:
            left = self._max_files - descriptor()
            self._unasked = max(left // 2, 0)
            if left <= 0:
                return OPEN_FILES
        if self.total >= self.most_by_files:
            return OPEN_FILES
        if self.total >= self._max:
            return "max.connections"
        there = self._by_ip.get(ip, 0)
        if there >= self._max_per_ip:
            return "max.connections.per.ip"
        self.total += 1
        self._by_ip[ip] = there + 1
        return None

    def release(self, ip: str) -> None:
        """A connection that was admitted is gone."""
        self.total -= 1
        left = self._by_ip.pop(ip) - 1
        if left:
            self._by_ip[ip] = left


def _files_of_connections() -> int:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit == resource.RLIM_INFINITY:
        return 1 << 31
    return limit - min(SPARE_FILES, limit // 4)

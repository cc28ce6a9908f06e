"""Checks whether the system lets a server open as many files as it needs."""

import resource
from contextlib import suppress
from typing import Final

from coordinator_server.config import Config
from coordinator_server.server.descriptors import file_budget, open_file_limit

_NO_THREAD: Final = "can't start new thread"
"""Python has no exception of its own for it."""
_RAISE_LIMITS: Final = (
    "raise the limits of memory and threads (ulimit -v and -u, MemoryMax= and TasksMax= of "
    "systemd, --memory and --pids-limit of docker)"
)


class TooFewFiles(Exception):
    """The limit of open files is too low; the message says how to raise it."""


def limit_reached(error: MemoryError | RuntimeError) -> str | None:
    """What the process ran out of, and which limits to raise; None for an error that is a bug."""
    if isinstance(error, MemoryError):
        return f"there is not enough memory: {_RAISE_LIMITS}"
    return f"{error}: {_RAISE_LIMITS}" if _NO_THREAD in str(error) else None


def allow_many_files() -> None:
    """Raise the limit of open files as far as the system lets us: each connection is one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return
    # macOS refuses "unlimited"; the soft limit stays then, and is checked.
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def check_files(config: Config) -> None:
    """Raise TooFewFiles where a server, or a worker of it, could not serve.

    That is checked before anything is touched; the supervisor's workers have its limit.
    """
    partitions, http = config.offsets_topic_num_partitions, config.http_max_connections
    try:
        file_budget(open_file_limit(), partitions, http, config.workers)
    except ValueError as error:
        raise TooFewFiles(str(error)) from None

"""Checks and raises the limits of the process."""

import resource
from contextlib import suppress
from typing import Final

from coordinator_server.config import Config
from coordinator_server.server.descriptors import file_budget, open_file_limit

_NO_THREAD: Final = "can't start new thread"
"""Message of the RuntimeError; Python has no specific exception."""
_RAISE_LIMITS: Final = (
    "raise the limits of memory and threads (ulimit -v and -u, MemoryMax= and TasksMax= of "
    "systemd, --memory and --pids-limit of docker)"
)


class TooFewFiles(Exception):
    """The limit of open files is too low; the message says how to raise it."""


def limit_reached(error: MemoryError | RuntimeError) -> str | None:
    """Describe the exhausted limit and how to raise it; None if the error is a bug."""
    if isinstance(error, MemoryError):
        return f"there is not enough memory: {_RAISE_LIMITS}"
    return f"{error}: {_RAISE_LIMITS}" if _NO_THREAD in str(error) else None


def allow_many_files() -> None:
    """Raise the limit of open files to its maximum."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return
    # macOS refuses "unlimited"; check_files then checks the soft limit.
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def check_files(config: Config) -> None:
    """Raise TooFewFiles if the limit is too low for a server or a worker.

    The check runs before the server changes anything; workers inherit the limit.
    """
    partitions, http = config.offsets_topic_num_partitions, config.http_max_connections
    try:
        file_budget(open_file_limit(), partitions, http, config.workers)
    except ValueError as error:
        raise TooFewFiles(str(error)) from None

"""Divides the open file limit of the process (`ulimit -n`) among its users."""

import resource
from typing import Final, NamedTuple

FILES_PER_PARTITION: Final = 2
"""The active segment of a coordinator partition and a closed one."""
JOURNAL_FILES: Final = 16
"""Files of the journal, and briefly open ones such as checkpoints and directories."""
SPARE_FILES: Final = 32
"""For the interpreter, the event loop, listeners and modules."""
MOST_TOPIC_FILES: Final = 4_096
FEWEST_TOPIC_FILES: Final = 16
FEWEST_CONNECTIONS: Final = 16
UNLIMITED: Final = 1 << 30


class FileBudget(NamedTuple):
    """Open file limits by user."""

    limit: int
    coordinator: int
    """The coordinator's logs and the journal."""
    http: int
    topics: int
    """Open segments of topics; others are opened when they are used."""
    connections: int


_FEWEST_HTTP: Final = 4
_FEWEST: Final = FEWEST_TOPIC_FILES + FEWEST_CONNECTIONS


def open_file_limit() -> int:
    """The open file limit of this process."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return UNLIMITED if limit == resource.RLIM_INFINITY else limit


def file_budget(limit: int, partitions: int, http_connections: int, workers: int = 1) -> FileBudget:
    """Divide the limit of a worker, which opens the logs of its own partitions only.

    Raises ValueError if the limit is too low.
    """
    partitions = -(-partitions // workers)
    coordinator = FILES_PER_PARTITION * partitions + JOURNAL_FILES
    needed = coordinator + SPARE_FILES + _FEWEST_HTTP + _FEWEST
    if limit < needed:
        raise ValueError(
            f"the process may open {limit} files but needs at least {needed} for {partitions} "
            "partitions of __consumer_offsets: raise the limit (ulimit -n, LimitNOFILE= of "
            "systemd, --ulimit nofile= of docker), or lower offsets.topic.num.partitions"
        )
    http = min(http_connections, _FEWEST_HTTP + (limit - needed) // 8)
    left = limit - coordinator - SPARE_FILES - http
    topics = min(max(left // 4, FEWEST_TOPIC_FILES), MOST_TOPIC_FILES)
    return FileBudget(limit, coordinator, http, topics, left - topics)


def proxy_connections(limit: int, wanted: int, workers: int) -> int:
    """HTTP connections of a supervisor; each may need a connection to every worker."""
    return max(min(wanted, (limit - SPARE_FILES) // (2 * (1 + workers))), _FEWEST_HTTP)

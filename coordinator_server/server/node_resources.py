"""Where a server stands: its share of the data directory, its topics, its addresses."""

import contextlib
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from coordinator_server.config import Config
from coordinator_server.net.directory import StaticDirectory
from coordinator_server.ports import Directory, Ids
from coordinator_server.storage.segments.directory import DataDirectory, GuardedDirectory
from coordinator_server.storage.segments.files import Files
from coordinator_server.storage.segments.guard import GuardedFiles
from coordinator_server.storage.segments.recovery import Recovery
from coordinator_server.storage.segments.reporting import Report
from coordinator_server.storage.segments.shares import WHOLE, Share, await_nobody, take_over
from coordinator_server.topics.catalog import TopicCatalog
from coordinator_server.topics.catalog_interface import Catalog
from coordinator_server.topics.catalog_reading import topic_ids_in
from coordinator_server.topics.directories import sweep
from coordinator_server.topics.limits import PartitionLimits


class BoundDirectory(Directory, Protocol):
    """A directory that learns the ports the system has chosen."""

    def bound(self, listener: str, port: int) -> None:
        """Tell which port a listener has got."""
        ...


@dataclass(frozen=True, slots=True)
class NodeResources:
    """What is given to a server, and not made by it."""

    node_id: int
    share: Share
    data: GuardedDirectory
    """Closed by the server."""
    catalog: Catalog
    directory: BoundDirectory
    sockets: Mapping[str, list[socket.socket]] | None = None
    """Of each listener, if they are bound already."""
    http_socket: socket.socket | None = None
    """Where HTTP is served instead of at its address."""


def hold(config: Config) -> DataDirectory:
    """Take the data directory, once nobody has it any more.

    Raises OSError; ValueError for that of another node.
    """
    data = DataDirectory(config.log_dirs, node_id=config.node_id, cluster_id=config.cluster_id)
    try:
        await_nobody(config.log_dirs)
    except BaseException:
        data.close()
        raise
    return data


def open_catalog(config: Config, ids: Ids, files: Files) -> TopicCatalog:
    """The topics of a data directory, with those that are declared.

    Raises OSError, ValueError, CorruptCatalog, TopicError.
    """
    partitions = config.offsets_topic_num_partitions
    limits = PartitionLimits(config.max_partitions_per_topic, config.max_partitions_total)
    catalog = TopicCatalog(
        config.log_dirs, ids, offsets_partitions=partitions, files=files, limits=limits
    )
    catalog.declare(config.topics)
    return catalog


def take_over_all(config: Config, shares: Sequence[Share], report: Report, files: Files) -> None:
    """Give shares, which are all, what earlier ones have left, by the topics that are known.

    Raises Unsettled, OSError, CorruptCatalog; ValueError if the catalog is missing.
    """
    ids = topic_ids_in(config.log_dirs)
    recovery = Recovery(config.log_recovery)
    take_over(config.log_dirs, shares, report, files, recovery=recovery, topic_ids=ids)


def single_process(config: Config, ids: Ids, report: Report) -> NodeResources:
    """The resources of a server that has all to itself.

    Raises OSError, ValueError, CorruptCatalog, TopicError.
    """
    data = hold(config)
    with contextlib.ExitStack() as undo:
        undo.callback(data.close)
        files = GuardedFiles(data.guard)
        take_over_all(config, [WHOLE], report, files)
        sweep(config.log_dirs)
        directory = StaticDirectory(config.node_id, data.cluster_id, config.advertised())
        resources = NodeResources(
            config.node_id, WHOLE, data, open_catalog(config, ids, files), directory
        )
        undo.pop_all()
    return resources

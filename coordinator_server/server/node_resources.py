"""Acquires the resources of a node: data directory, topics, addresses."""

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
    """A directory that receives the ports chosen by the operating system."""

    def bound(self, listener: str, port: int) -> None:
        """Set the port of a listener."""
        ...


@dataclass(frozen=True, slots=True)
class NodeResources:
    """The resources that a server receives: of a single process or of a worker."""

    node_id: int
    share: Share
    data: GuardedDirectory
    """Closed by the server."""
    catalog: Catalog
    directory: BoundDirectory
    sockets: Mapping[str, list[socket.socket]] | None = None
    """Bound sockets by listener; None: the server binds them."""
    http_socket: socket.socket | None = None
    """Socket for HTTP instead of the configured address."""


def hold(config: Config) -> DataDirectory:
    """Lock the data directory, after waiting for other processes to release it.

    Raises OSError; ValueError if it belongs to another node.
    """
    data = DataDirectory(config.log_dirs, node_id=config.node_id, cluster_id=config.cluster_id)
    try:
        await_nobody(config.log_dirs)
    except BaseException:
        data.close()
        raise
    return data


def open_catalog(config: Config, ids: Ids, files: Files) -> TopicCatalog:
    """Open the topics of a data directory and create those that the settings declare.

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
    """Recover the journals of earlier shares into the given ones, which cover all partitions.

    Raises Unsettled, OSError, CorruptCatalog; ValueError if the catalog is missing.
    """
    ids = topic_ids_in(config.log_dirs)
    recovery = Recovery(config.log_recovery)
    take_over(config.log_dirs, shares, report, files, recovery=recovery, topic_ids=ids)


def single_process(config: Config, ids: Ids, report: Report) -> NodeResources:
    """Acquire the resources of a server that runs in a single process.

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

"""Opens the storage of a server and closes it within a time limit."""

from collections.abc import Callable

from coordinator_server.clock import Clock
from coordinator_server.config import Config
from coordinator_server.loop.batching import Soon
from coordinator_server.loop.deadline import Deadline
from coordinator_server.observe.counters import StorageFigures
from coordinator_server.server.node_resources import NodeResources
from coordinator_server.storage.segments.files import Files
from coordinator_server.storage.segments.flusher import Flusher, FlushPolicy
from coordinator_server.storage.segments.journal import Journal
from coordinator_server.storage.segments.journal_replay import replay_all
from coordinator_server.storage.segments.pool import DescriptorPool
from coordinator_server.storage.segments.recovery import Recovery
from coordinator_server.storage.segments.reporting import Report
from coordinator_server.storage.segments.threads import STORAGE_THREADS
from coordinator_server.topics.catalog_file import to_base64
from coordinator_server.topics.directories import PartitionDirectories
from coordinator_server.topics.service import Topics
from coordinator_server.topics.validation import BatchRules


def open_journal(config: Config, resources: NodeResources, files: Files, report: Report) -> Journal:
    """Open the journal and replay it, also if the current settings disable it."""
    catalog = resources.catalog

    def topic_id(name: str) -> str | None:
        topic = catalog.get(name)
        return None if topic is None else to_base64(topic.topic_id)

    journal = Journal(
        config.log_dirs,
        owner=resources.share.name,
        capacity=config.log_journal_bytes,
        writes=config.log_journal_bytes > 0,
        syncs=FlushPolicy(config.log_flush) is FlushPolicy.COMMIT,
        recovery=Recovery(config.log_recovery),
        topic_ids=topic_id,
        guard=resources.data.guard,
        files=files,
        report=report,
    )
    replay_all(journal, config.log_dirs, report, files)
    return journal


def make_flusher(config: Config, journal: Journal, soon: Soon, report: Report) -> Flusher:
    """Make the flusher with the policy of the settings."""
    policy, interval_ms = FlushPolicy(config.log_flush), config.log_flush_interval_ms
    return Flusher(policy, interval_ms, journal, soon=soon, report=report)


def make_topics(
    config: Config,
    resources: NodeResources,
    journal: Journal,
    files: Files,
    flusher: Flusher,
    clock: Clock,
) -> Topics:
    """Make the topics of this node."""
    return Topics(
        resources.catalog,
        PartitionDirectories(
            config.log_dirs,
            segment_bytes=config.log_segment_bytes,
            segment_ms=config.log_roll_ms,
            journal=journal,
            files=files,
            share=resources.share,
        ),
        flusher,
        clock,
        BatchRules(max_message_bytes=config.message_max_bytes),
        auto_create_max=config.auto_create_topics_max,
    )


def storage_figures(pool: DescriptorPool, flusher: Flusher) -> Callable[[], StorageFigures]:
    """A function that returns the open files of topics and the unwritten bytes."""
    return lambda: StorageFigures(pool.open_files, pool.most, flusher.unwritten.bytes)


async def close_storage(
    deadline: Deadline, flusher: Flusher, topics: Topics, journal: Journal
) -> bool:
    """Write and close all files; return whether all of them were closed in time.

    If not, the next start recovers the rest. A thread may still be writing, so the directory must
    remain locked until the process ends.
    """
    unflushed = await flusher.close(deadline.left(0.5))
    kept = [
        await deadline.keep("removing deleted topics", topics.removals(), 0.4),
        await deadline.keep("closing the logs of topics", topics.stop(), 0.3),
        await deadline.keep("closing the journal", STORAGE_THREADS.run(journal.close), 0.1),
    ]
    return all(kept) and not unflushed

"""The directories of topic partitions, named and marked as Kafka names and marks them.

`DATA/<topic>-<partition>` holds segments and `partition.metadata` with the topic id. A directory
with another id than the catalog's belongs to a deleted topic: it is renamed and never read.
"""

import re
import shutil
from collections.abc import Collection, Iterator
from pathlib import Path
from threading import Lock

import structlog

from coordinator_server.ports import TopicInfo
from coordinator_server.storage.base import CorruptLog
from coordinator_server.storage.segments.checkpoint import forget_offsets
from coordinator_server.storage.segments.files import SYSTEM_FILES, Files
from coordinator_server.storage.segments.journal import Journal
from coordinator_server.storage.segments.log import (
    DEFAULT_SEGMENT_BYTES,
    DEFAULT_SEGMENT_MS,
    SegmentLog,
)
from coordinator_server.storage.segments.log_identity import (
    check_mark,
    read_topic_id,
    topic_id_of,
)
from coordinator_server.storage.segments.recovery import repair_command, repair_files_command
from coordinator_server.storage.segments.shares import WHOLE, Share
from coordinator_server.topics.catalog import deleted, forget_deleted
from coordinator_server.topics.catalog_file import to_base64
from coordinator_server.topics.names import GROUP_METADATA_TOPIC

METADATA_FILE = "partition.metadata"
EPOCHS_FILE = "leader-epoch-checkpoint"
DELETED_SUFFIX = "-delete"
STRAY_SUFFIX = "-stray"
MAX_FILE_NAME = 255
_STRAY = re.compile(rf"-(\d+)\.[0-9a-f]{{32}}{STRAY_SUFFIX}$")
LOCKS = 64
"""More than the number of threads that open logs."""

log = structlog.get_logger(__name__)


def sweep(data: Path) -> None:
    """Remove directories of deleted topics that a crash has left; called before serving begins.

    Only topics that the catalog lists as deleted are removed: a directory of an unknown topic may
    belong to a Kafka broker, which uses the same names. Raises CorruptCatalog, OSError.
    """
    left = {path for path in data.glob(f"*{DELETED_SUFFIX}") if path.is_dir()}
    gone = frozenset(deleted(data))
    if gone:
        left.update(path for path in data.glob("*/") if _is_of(path, gone))
    # Before the removal: a recovery point without a directory would count as a lost log.
    forget_offsets(data, {path.name for path in left})
    for path in left:
        shutil.rmtree(path)
    if left:
        names = sorted(path.name for path in left)
        log.info("deleted_topics_swept", directories=len(names), first=names[:10])
    if gone:
        forget_deleted(data)


def _is_of(path: Path, topic_ids: Collection[str]) -> bool:
    """Whether a directory belongs to a partition of one of these topics."""
    of_coordinator = path.name.startswith(f"{GROUP_METADATA_TOPIC}-")
    return not of_coordinator and not path.is_symlink() and _marked_id(path) in topic_ids


def _marked_id(path: Path) -> str | None:
    """The topic id a directory is marked with."""
    try:
        text = (path / METADATA_FILE).read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return None
    prefix = "topic_id: "
    ids = [line.removeprefix(prefix) for line in text.splitlines() if line.startswith(prefix)]
    return ids[0] if ids else None


class PartitionDirectories:
    """Finds, creates and removes the directories of topic partitions; all methods block."""

    def __init__(
        self,
        data: Path,
        *,
        segment_bytes: int = DEFAULT_SEGMENT_BYTES,
        segment_ms: int = DEFAULT_SEGMENT_MS,
        journal: Journal | None = None,
        files: Files = SYSTEM_FILES,
        share: Share = WHOLE,
    ) -> None:
        """Manage the partitions of this process's share of the data directory."""
        self._data = data
        self._segment_bytes = segment_bytes
        self._segment_ms = segment_ms
        self._journal = journal
        self._files = files
        self._share = share
        self._failures: dict[Path, str] = {}
        """The last logged error of partitions that could not be opened."""
        self._locks = tuple(Lock() for _ in range(LOCKS))
        """Striped locks by directory: a topic may be recreated while the records of the deleted
        topic of the same name are being removed."""

    @property
    def is_whole(self) -> bool:
        """Whether this process has all partitions."""
        return self._share == WHOLE

    def open_log(self, topic: TopicInfo, index: int, create: bool) -> SegmentLog | None:
        """Open the log of a partition.

        Returns None if the topic was deleted meanwhile, or if there is no log and `create` is
        False. Raises OSError, CorruptLog, which are logged once unless the topic was deleted.
        """
        path = self._path(topic, index)
        try:
            opened = self._open(path, topic, index, create)
        except (OSError, CorruptLog) as error:
            if self._failures.get(path) != str(error) and not self._is_deleted(path, topic):
                self._failures[path] = str(error)
                repair = getattr(error, "repair", "") or repair_command(path)
                fields = {"repair": repair} if isinstance(error, CorruptLog) else {}
                log.error("partition_open_failed", directory=str(path), error=str(error), **fields)
            raise
        self._failures.pop(path, None)
        return opened

    def _is_deleted(self, path: Path, topic: TopicInfo) -> bool:
        """Whether the topic was deleted meanwhile, so that the directory is not its own."""
        journal = self._journal
        return journal is not None and journal.is_deleted(path.name, to_base64(topic.topic_id))

    def _open(self, path: Path, topic: TopicInfo, index: int, create: bool) -> SegmentLog | None:
        # Held until the log is open: opening cuts a torn segment by its path. A later topic of the
        # same name closes this log before it uses the directory.
        with self._lock_of(path):
            # After a deletion the directory may belong to a new topic already.
            if self._is_deleted(path, topic) or not self._prepare(path, topic, index, create):
                return None
            segments = SegmentLog(
                path,
                files=self._files,
                segment_bytes=self._segment_bytes,
                segment_ms=self._segment_ms,
                journal=self._journal,
            )
        if segments.cut_bytes:
            log.warning(
                "torn_tail_cut", topic=topic.name, partition=index, bytes=segments.cut_bytes
            )
        return segments

    def _prepare(self, path: Path, topic: TopicInfo, index: int, create: bool) -> bool:
        """Create or mark the directory if needed; returns whether the partition has one."""
        journal = self._journal
        if path.exists() and not self._belongs_to(path, topic):
            if journal is not None:
                journal.close_previous(path.name)
                journal.forget([path.name])
            self._put_aside(path, topic, index, STRAY_SUFFIX)
            log.warning("stray_partition_put_aside", topic=topic.name, partition=index)
        if not path.exists() and not create and not self._may_have_records(path, topic):
            return False
        if not path.exists() or not check_mark(self._files, path, to_base64(topic.topic_id)):
            self._files.make_directory(path)
            self._mark(path, topic)
        return True

    def _may_have_records(self, path: Path, topic: TopicInfo) -> bool:
        """Whether a partition without a directory may have records, which opening it must check.

        Raises OSError.
        """
        # Raises OSError if the data directory is missing, which proves nothing about the records.
        self._files.names(self._data)
        journal = self._journal
        if journal is None or not journal.is_strict or not journal.is_expected(path.name):
            return False
        ids = {topic_id_of(each) for each in journal.identities(path.name)}
        return bool(journal.points.of(path.name)) or to_base64(topic.topic_id) in ids

    def remove(self, topic: TopicInfo) -> None:
        """Remove this process's partitions of a deleted topic. Raises OSError."""
        for path in self._set_aside_directories(topic):
            shutil.rmtree(path)

    def _set_aside_directories(self, topic: TopicInfo) -> Iterator[Path]:
        """Rename the topic's directories and yield them, with those renamed by a newer topic."""
        if self._journal is not None:
            # Before the removal: a recovery point without a directory would count as a lost log.
            paths = [self._path(topic, index) for index in range(topic.partitions)]
            self._journal.forget(path.name for path in paths if self._is_marked(path, topic))
        for index in filter(self._share.has, range(topic.partitions)):
            path = self._path(topic, index)
            with self._lock_of(path):
                aside = None
                if path.exists() and self._is_unmarked_or_marked(path, topic):
                    aside = self._put_aside(path, topic, index, DELETED_SUFFIX)
            if aside is not None:
                yield aside
        for path in self._data.glob(f"*{STRAY_SUFFIX}"):
            named = _STRAY.search(path.name)
            if named and self._share.has(int(named[1])) and self._is_marked(path, topic):
                yield path

    def _lock_of(self, path: Path) -> Lock:
        return self._locks[hash(path) % LOCKS]

    def _path(self, topic: TopicInfo, index: int) -> Path:
        return self._data / f"{topic.name}-{index}"

    def _belongs_to(self, path: Path, topic: TopicInfo) -> bool:
        """Whether a directory belongs to the topic, or is not marked yet.

        Raises CorruptLog if it is marked with an id that no current or deleted topic has.
        """
        if self._is_unmarked_or_marked(path, topic):
            return True
        found = read_topic_id(self._files, path)
        if found is None or found in deleted(self._data):
            return False
        if self._journal is None or not self._journal.is_strict:
            return False
        raise CorruptLog(
            f"{path / METADATA_FILE} says topic_id {found}, but topics.json says "
            f"{to_base64(topic.topic_id)}, and that no topic with the other id was deleted",
            repair_files_command(path.parent),
        )

    def _is_unmarked_or_marked(self, path: Path, topic: TopicInfo) -> bool:
        """Whether a directory is marked with the topic's id, or not marked."""
        return not (path / METADATA_FILE).exists() or self._is_marked(path, topic)

    def _is_marked(self, path: Path, topic: TopicInfo) -> bool:
        return _marked_id(path) == to_base64(topic.topic_id)

    def _put_aside(self, path: Path, topic: TopicInfo, index: int, suffix: str) -> Path:
        unique = f"-{index}.{topic.topic_id.hex}{suffix}"
        aside = self._data / (topic.name[: MAX_FILE_NAME - len(unique)] + unique)
        return path.rename(aside)

    def _mark(self, path: Path, topic: TopicInfo) -> None:
        text = f"version: 0\ntopic_id: {to_base64(topic.topic_id)}"
        self._files.replace(path / METADATA_FILE, text.encode())
        self._files.replace(path / EPOCHS_FILE, b"0\n1\n0 0\n")

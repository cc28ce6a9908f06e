"""The directories of topic partitions, named and marked as Kafka names and marks them.

`DATA/<topic>-<partition>` holds segments and `partition.metadata` with the topic id. A directory
whose id is not the catalog's belongs to a topic that was deleted: it is put aside, never read.
"""

import shutil
from pathlib import Path

import structlog

from coordinator_server.ports import TopicInfo
from coordinator_server.storage.segments.files import SYSTEM_FILES, Files
from coordinator_server.storage.segments.journal import Journal
from coordinator_server.storage.segments.log import (
    DEFAULT_SEGMENT_BYTES,
    DEFAULT_SEGMENT_MS,
    SegmentLog,
)
from coordinator_server.storage.segments.shares import WHOLE, Share
from coordinator_server.topics.catalog import to_base64

METADATA_FILE = "partition.metadata"
EPOCHS_FILE = "leader-epoch-checkpoint"
DELETED_SUFFIX = "-delete"
STRAY_SUFFIX = "-stray"
MAX_FILE_NAME = 255

log = structlog.get_logger(__name__)


def sweep(data: Path) -> None:
    """Remove what a crash left of deleted topics, before anybody serves. Raises OSError."""
    for path in data.glob(f"*{DELETED_SUFFIX}"):
        if path.is_dir():
            shutil.rmtree(path)


class Directories:
    """Finds, makes and removes the directories of topic partitions; everything here blocks."""

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
        """Those of a share of the data directory, and none of the others."""
        self._data = data
        self._segment_bytes = segment_bytes
        self._segment_ms = segment_ms
        self._journal = journal
        self._files = files
        self._share = share

    def open_log(self, topic: TopicInfo, index: int, create: bool) -> SegmentLog | None:
        """Open the log of a partition; None if it has none and none is to be made.

        Raises OSError, CorruptLog.
        """
        path = self._path(topic, index)
        if path.exists() and not self._is_ours(path, topic):
            self._put_aside(path, topic, index, STRAY_SUFFIX)
            log.warning("stray_partition_put_aside", topic=topic.name, partition=index)
        if not path.exists() and not create:
            return None
        if not (path / METADATA_FILE).exists():
            self._files.make_directory(path)
            self._mark(path, topic)
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

    def remove(self, topic: TopicInfo) -> None:
        """Remove our partitions of a deleted topic. Raises OSError."""
        for index in filter(self._share.has, range(topic.partitions)):
            path = self._path(topic, index)
            if path.exists():
                shutil.rmtree(self._put_aside(path, topic, index, DELETED_SUFFIX))

    def _path(self, topic: TopicInfo, index: int) -> Path:
        return self._data / f"{topic.name}-{index}"

    def _is_ours(self, path: Path, topic: TopicInfo) -> bool:
        try:
            lines = (path / METADATA_FILE).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return True
        return f"topic_id: {to_base64(topic.topic_id)}" in lines.splitlines()

    def _put_aside(self, path: Path, topic: TopicInfo, index: int, suffix: str) -> Path:
        unique = f"-{index}.{topic.topic_id.hex}{suffix}"
        aside = self._data / (topic.name[: MAX_FILE_NAME - len(unique)] + unique)
        return path.rename(aside)

    def _mark(self, path: Path, topic: TopicInfo) -> None:
        text = f"version: 0\ntopic_id: {to_base64(topic.topic_id)}"
        self._files.replace(path / METADATA_FILE, text.encode())
        self._files.replace(path / EPOCHS_FILE, b"0\n1\n0 0\n")

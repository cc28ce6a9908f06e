"""Writes the file of the topics, `DATA/topics.json`."""

import base64
import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

from crc32c import crc32c

from coordinator_server.ports import TopicInfo
from coordinator_server.storage.segments.files import Files

FORMAT = 1
CHECKSUM_KEY = "checksum"
CHECKSUM_MARK = b',\n "checksum": '
"""Begins the last entry of the file: the CRC-32C of all bytes before it."""


class CatalogFile:
    """The file, which one thread at a time replaces as a whole."""

    def __init__(self, files: Files, path: Path) -> None:
        self._files = files
        self._path = path
        self._lines: dict[str, tuple[TopicInfo, bytes]] = {}
        """Every topic as it was written last, by name: encoding all of them takes far longer than
        writing them, and a thread that encodes delays the event loop."""

    def write(self, topics: Mapping[str, TopicInfo], gone: Collection[str]) -> None:
        """Store topics, and the ids of deleted ones of which records may be left.

        Raises OSError; the file has its old contents then, or the new ones if only syncing the
        directory failed.
        """
        lines: dict[str, tuple[TopicInfo, bytes]] = {}
        for name, topic in topics.items():
            known = self._lines.get(name)
            if known is None or known[0] is not topic:
                known = topic, json.dumps(to_form(topic)).encode()
            lines[name] = known
        data = _joined([line for _, line in lines.values()], gone)
        self._files.make_directory(self._path.parent)
        self._files.replace(self._path, data)
        self._lines = lines


def contents_of(topics: Mapping[str, TopicInfo], gone: Collection[str]) -> bytes:
    """The bytes of a file with topics."""
    return _joined([json.dumps(to_form(topic)).encode() for topic in topics.values()], gone)


def _joined(lines: Sequence[bytes], gone: Collection[str]) -> bytes:
    parts = [
        b'{\n "version": %d,\n "topics": [\n  ' % FORMAT,
        b",\n  ".join(lines),
        b"\n ]",
    ]
    if gone:
        parts.append(b',\n "deleted": ' + json.dumps(list(gone)).encode())
    head = b"".join(parts)
    return head + CHECKSUM_MARK + f'"{crc32c(head):08x}"\n}}\n'.encode()


def to_form(topic: TopicInfo) -> dict[str, Any]:
    """A topic as it is stored."""
    return {
        "name": topic.name,
        "topic_id": to_base64(topic.topic_id),
        "partitions": topic.partitions,
    }


def to_base64(topic_id: UUID) -> str:
    """A topic id as Kafka writes it: 22 characters of URL-safe base64."""
    return base64.urlsafe_b64encode(topic_id.bytes).rstrip(b"=").decode()

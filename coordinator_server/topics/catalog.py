"""The topics there are: names, stable ids and partition counts, kept in `DATA/topics.json`.

The file is replaced as a whole (new file, fsync, rename, fsync of the directory) before a change
becomes visible, so a topic id that a client has seen outlives every crash. It names topics that
were deleted, too, until their records are removed.
"""

import base64
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any
from uuid import UUID

from coordinator_server.ports import Ids, TopicInfo
from coordinator_server.storage.segments.files import SYSTEM_FILES, Files
from coordinator_server.topics.errors import TopicError
from coordinator_server.topics.names import (
    GROUP_METADATA_TOPIC,
    INTERNAL_TOPICS,
    collision_key,
    why_invalid,
)
from protocol.errors import ErrorCode

FILE_NAME = "topics.json"
FORMAT = 1
MOST_DELETED = 10_000
"""Deleted topics that are remembered; the removal of older ones has ended."""


class CorruptCatalog(Exception):
    """The catalog file cannot be what was written; the message names the file and the fault."""


class KnownTopics:
    """Topics in memory: a `TopicImage`, and what may be added to it."""

    def __init__(self, topics: dict[str, TopicInfo]) -> None:
        self._listeners: list[Callable[[str], None]] = []
        self._topics = topics
        self._index()

    def get(self, name: str) -> TopicInfo | None:
        """The topic of that name."""
        return self._topics.get(name)

    def by_id(self, topic_id: UUID) -> TopicInfo | None:
        """The topic of that id."""
        return self._by_id.get(topic_id)

    def topics(self) -> Mapping[str, TopicInfo]:
        """All topics by name; a live view."""
        return MappingProxyType(self._topics)

    def on_change(self, listener: Callable[[str], None]) -> None:
        """Call `listener(name)` whenever a topic is created, deleted or grows."""
        self._listeners.append(listener)

    def check_new(self, name: str) -> None:
        """Raise the TopicError with which Kafka refuses to create a topic of that name."""
        reason = why_invalid(name)
        if reason is not None:
            raise TopicError(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)
        if name in self._topics:
            raise TopicError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        other = self._collisions.get(collision_key(name))
        if other is not None and other != name:
            raise TopicError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"Topic '{name}' collides with existing topic: {other}",
            )

    def _index(self) -> None:
        self._by_id = {topic.topic_id: topic for topic in self._topics.values()}
        self._collisions = {collision_key(name): name for name in self._topics}


class TopicCatalog(KnownTopics):
    """The `TopicImage` of the standalone mode.

    `__consumer_offsets` is always in it, with the coordinator's number of partitions.
    """

    def __init__(
        self,
        directory: Path,
        ids: Ids,
        *,
        offsets_partitions: int,
        files: Files = SYSTEM_FILES,
    ) -> None:
        """Load the catalog of a data directory, or begin an empty one.

        Raises CorruptCatalog, OSError; ValueError if the coordinator's log has another number of
        partitions.
        """
        self._path = directory / FILE_NAME
        self._ids = ids
        self._files = files
        super().__init__(load(self._path) if self._path.exists() else {})
        self._deleted = dict.fromkeys(deleted(directory))
        """Ids, as they are written, of topics of which records may be left."""
        self._pin_offsets_topic(offsets_partitions)

    def declare(self, topics: Iterable[tuple[str, int]]) -> None:
        """Make sure that the configured topics exist with at least their partitions.

        Raises TopicError for an illegal name and for fewer partitions than the topic has.
        """
        changed: list[TopicInfo] = []
        for name, partitions in topics:
            known = self._topics.get(name)
            if known is None:
                self.check_new(name)
                changed.append(self._new(name, partitions))
            elif known.partitions > partitions:
                raise TopicError(
                    ErrorCode.INVALID_PARTITIONS,
                    f"Topic '{name}' has {known.partitions} partitions and cannot shrink to the "
                    f"declared {partitions}.",
                )
            elif known.partitions < partitions:
                changed.append(known._replace(partitions=partitions))
        self._apply(changed)

    def create(self, topics: Iterable[tuple[str, int]]) -> list[TopicInfo]:
        """Create topics of `(name, partitions)` with one write for all of them.

        Raises TopicError, OSError; nothing is created then.
        """
        created = []
        for name, partitions in topics:
            self.check_new(name)
            created.append(self._new(name, partitions))
        self._apply(created)
        return created

    def delete(self, names: Iterable[str]) -> None:
        """Forget topics. Raises TopicError for an unknown or internal one, OSError."""
        doomed = list(names)
        for name in doomed:
            known = self._topics.get(name)
            if known is None:
                raise TopicError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic '{name}'."
                )
            if known.internal:
                raise TopicError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' is internal.")
        if not doomed:
            return
        before = self._deleted
        ids = dict.fromkeys(to_base64(self._topics[name].topic_id) for name in doomed)
        self._deleted = dict.fromkeys([*before, *ids][-MOST_DELETED:])
        try:
            gone = set(doomed)
            self._replace({n: t for n, t in self._topics.items() if n not in gone}, doomed)
        except OSError:
            self._deleted = before
            raise

    def removed(self, topic: TopicInfo) -> None:
        """The records of a deleted topic are gone: the next write names it no more."""
        self._deleted.pop(to_base64(topic.topic_id), None)

    def _new(self, name: str, partitions: int) -> TopicInfo:
        if partitions < 1:
            raise TopicError(
                ErrorCode.INVALID_PARTITIONS,
                f"Topic '{name}' is to have {partitions} partitions; expected at least 1.",
            )
        return TopicInfo(name, self._ids.topic_id(), partitions, name in INTERNAL_TOPICS)

    def _apply(self, changed: list[TopicInfo]) -> None:
        if changed:
            names = [topic.name for topic in changed]
            self._replace({**self._topics, **dict(zip(names, changed, strict=True))}, names)

    def _replace(self, topics: dict[str, TopicInfo], changed: Iterable[str]) -> None:
        self._store(topics)
        self._topics = topics
        self._index()
        for name in changed:
            for listener in self._listeners:
                listener(name)

    def _store(self, topics: Mapping[str, TopicInfo]) -> None:
        self._files.make_directory(self._path.parent)
        _store(self._files, self._path, topics, self._deleted)

    def _pin_offsets_topic(self, partitions: int) -> None:
        known = self._topics.get(GROUP_METADATA_TOPIC)
        if known is None:
            self._apply([self._new(GROUP_METADATA_TOPIC, partitions)])
        elif known.partitions != partitions:
            if any(self._path.parent.glob(f"{GROUP_METADATA_TOPIC}-*")):
                raise ValueError(
                    f"{self._path.parent} holds {known.partitions} partitions of "
                    f"{GROUP_METADATA_TOPIC}, but offsets.topic.num.partitions is {partitions}: "
                    "groups would be looked for where they are not"
                )
            self._apply([known._replace(partitions=partitions)])


def load(path: Path) -> dict[str, TopicInfo]:
    """Read a catalog file. Raises CorruptCatalog, OSError."""
    return _load(path)[0]


def deleted(directory: Path) -> Sequence[str]:
    """The ids of deleted topics of which a data directory may hold records.

    Raises CorruptCatalog, OSError.
    """
    path = directory / FILE_NAME
    return _load(path)[1] if path.exists() else ()


def forget_deleted(directory: Path, files: Files = SYSTEM_FILES) -> None:
    """There are no records of deleted topics any more. Raises CorruptCatalog, OSError."""
    path = directory / FILE_NAME
    _store(files, path, load(path), ())


def _load(path: Path) -> tuple[dict[str, TopicInfo], Sequence[str]]:
    try:
        document = json.loads(path.read_bytes())
        if document["version"] != FORMAT:
            raise CorruptCatalog(
                f"{path}: version is {document['version']!r}, expected {FORMAT}: "
                "it was written by a newer release"
            )
        topics = [from_form(entry) for entry in document["topics"]]
        gone = [to_base64(from_base64(topic_id)) for topic_id in document.get("deleted", ())]
    except (ValueError, KeyError, TypeError, AttributeError) as fault:
        raise CorruptCatalog(f"{path}: not a topic catalog: {fault!r}") from fault
    there = {to_base64(topic.topic_id) for topic in topics}
    return {topic.name: topic for topic in topics}, [each for each in gone if each not in there]


def _store(
    files: Files, path: Path, topics: Mapping[str, TopicInfo], gone: Collection[str]
) -> None:
    document: dict[str, Any] = {
        "version": FORMAT,
        "topics": [to_form(topic) for topic in topics.values()],
    }
    if gone:
        document["deleted"] = list(gone)
    files.replace(path, json.dumps(document, indent=1).encode())


def to_form(topic: TopicInfo) -> dict[str, Any]:
    """A topic as it is stored."""
    return {
        "name": topic.name,
        "topic_id": to_base64(topic.topic_id),
        "partitions": topic.partitions,
    }


def from_form(entry: Mapping[str, Any]) -> TopicInfo:
    """A topic as it was stored. Raises ValueError, KeyError, TypeError."""
    name, partitions = entry["name"], entry["partitions"]
    reason = why_invalid(name)
    if reason is not None:
        raise ValueError(reason)
    if not isinstance(partitions, int) or partitions < 1:
        raise ValueError(f"topic '{name}' with {partitions!r} partitions; expected at least 1")
    return TopicInfo(name, from_base64(entry["topic_id"]), partitions, name in INTERNAL_TOPICS)


def to_base64(topic_id: UUID) -> str:
    """A topic id as Kafka writes it: 22 characters of URL-safe base64."""
    return base64.urlsafe_b64encode(topic_id.bytes).rstrip(b"=").decode()


def from_base64(text: str) -> UUID:
    """A topic id as Kafka writes it. Raises ValueError."""
    return UUID(bytes=base64.urlsafe_b64decode(text + "=="))

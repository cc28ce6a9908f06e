"""The topics there are: names, stable ids and partition counts, kept in `DATA/topics.json`.

The file is replaced as a whole (new file, fsync, rename, fsync of the directory) before a change
becomes visible, so a topic id that a client has seen outlives every crash. It names topics that
were deleted, too, until their records are removed.

Once the server runs, a thread writes the file: `reserve` and `create_reserved`, or
`delete_durably`. Changes that are requested during a write share the next one. `declare`, `create`
and `delete` write on the calling thread, for the start.
"""

import asyncio
import base64
from asyncio import CancelledError
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

from coordinator_protocol.errors import ErrorCode
from coordinator_server.loop.task_keeper import is_cancelled
from coordinator_server.ports import Ids, TopicInfo
from coordinator_server.storage.segments.files import SYSTEM_FILES, Files
from coordinator_server.topics.catalog_changes import CatalogChange
from coordinator_server.topics.catalog_file import CatalogFile, to_base64, to_form
from coordinator_server.topics.catalog_reading import (
    CorruptCatalog,
    check_not_missing,
    corrupt,
    read_document,
)
from coordinator_server.topics.errors import TopicError
from coordinator_server.topics.known import KnownTopics
from coordinator_server.topics.limits import DEFAULT_LIMITS, PartitionLimits
from coordinator_server.topics.names import (
    GROUP_METADATA_TOPIC,
    INTERNAL_TOPICS,
    collision_key,
    why_invalid,
)

__all__ = [
    "CorruptCatalog", "TopicCatalog", "deleted", "forget_deleted", "from_base64", "from_form",
    "load", "to_base64", "to_form",
]  # fmt: skip

FILE_NAME = "topics.json"
MOST_DELETED = 10_000
"""How many deleted topics the file lists; the removal of older ones has ended."""


class TopicCatalog(KnownTopics):
    """The `TopicImage` of the standalone mode.

    It always contains `__consumer_offsets`, with the coordinator's number of partitions.
    """

    def __init__(
        self,
        directory: Path,
        ids: Ids,
        *,
        offsets_partitions: int,
        files: Files = SYSTEM_FILES,
        limits: PartitionLimits = DEFAULT_LIMITS,
        is_new: bool = False,
    ) -> None:
        """Load the catalog of a data directory, or begin an empty one.

        An empty one beside logs is an error, unless the directory is just being made (`is_new`).
        Raises CorruptCatalog, OSError; ValueError if the file is missing, or the coordinator's log
        has another number of partitions.
        """
        self._path = directory / FILE_NAME
        self._file = CatalogFile(files, self._path)
        self._ids = ids
        self._limits = limits
        if not is_new:
            check_not_missing(self._path)
        super().__init__(load(self._path) if self._path.exists() else {})
        self._deleted = dict.fromkeys(deleted(directory))
        """Base64 ids of deleted topics whose records may not be removed yet."""
        self._partitions = sum(t.partitions for t in self._topics.values() if not t.internal)
        """Partitions of all non-internal topics, including those that are being created."""
        self._reserved: dict[str, TopicInfo] = {}
        """Topics that are being created, by name; requests do not see them yet."""
        self._being_deleted: set[str] = set()
        """Names of topics that are being deleted; requests still see them."""
        self._changes: list[CatalogChange] = []
        """Changes for the next write."""
        self._writing: asyncio.Task[None] | None = None
        self._pin_offsets_topic(offsets_partitions)

    # --- changes that are written on the calling thread ---

    def declare(self, topics: Iterable[tuple[str, int]]) -> None:
        """Create the configured topics, and add partitions to existing ones.

        Raises TopicError for an invalid name, fewer partitions than the topic has, or too many.
        """
        changed: list[TopicInfo] = []
        more = 0
        for name, partitions in topics:
            known = self._topics.get(name)
            if known is None:
                self.check_new(name)
                changed.append(self._new(name, partitions, more))
                more += partitions
            elif known.partitions > partitions:
                raise TopicError(
                    ErrorCode.INVALID_PARTITIONS,
                    f"Topic '{name}' has {known.partitions} partitions and cannot shrink to the "
                    f"declared {partitions}.",
                )
            elif known.partitions < partitions:
                added = partitions - known.partitions
                self._limits.check(name, partitions, self._partitions + more, added)
                changed.append(known._replace(partitions=partitions))
                more += added
        self._apply(changed)

    def create(self, topics: Iterable[tuple[str, int]]) -> list[TopicInfo]:
        """Create topics of `(name, partitions)` with one write.

        Raises TopicError or OSError without creating any.
        """
        created: list[TopicInfo] = []
        more = 0
        for name, partitions in topics:
            self.check_new(name)
            created.append(self._new(name, partitions, more))
            more += partitions
        self._apply(created)
        return created

    def delete(self, names: Iterable[str]) -> None:
        """Remove topics. Raises TopicError for an unknown or internal one, OSError."""
        to_delete = self._deletable(names)
        if to_delete:
            self._write_now((), to_delete)

    def _apply(self, changed: Sequence[TopicInfo]) -> None:
        if changed:
            self._write_now(changed, ())

    def _write_now(self, created: Sequence[TopicInfo], to_delete: Sequence[TopicInfo]) -> None:
        if self._writing is not None:
            raise OSError(f"{self._path} is being written: it cannot be written a second time")
        topics = self._topics_after(created, to_delete)
        self._file.write(topics, tuple(self._deleted_after(to_delete)))
        for topic in created:
            known = self._topics.get(topic.name)
            self._count(topic, 1 if known is None else 0)
            if known is not None and not topic.internal:
                self._partitions += topic.partitions - known.partitions
        self._publish(topics, created, to_delete)

    # --- changes that a thread writes ---

    def is_reserved(self, name: str) -> bool:
        """Whether a topic of that name is being created."""
        return name in self._reserved

    @property
    def reserved(self) -> int:
        """The number of topics that are being created."""
        return len(self._reserved)

    def reserve(self, name: str, partitions: int) -> TopicInfo:
        """Reserve a name and its partitions; the caller must call `create_reserved` or `release`.

        Raises TopicError.
        """
        self.check_new(name)
        topic = self._new(name, partitions)
        self._reserved[name] = topic
        self._collisions[collision_key(name)] = name
        self._count(topic, 1)
        return topic

    def check_room(self, name: str, partitions: int) -> None:
        """Raise TopicError if a topic with so many partitions would exceed a limit."""
        self._limits.check(name, partitions, self._partitions, partitions)

    def release(self, topics: Iterable[TopicInfo]) -> None:
        """Release the names and partitions of reserved topics."""
        for topic in topics:
            if self._reserved.pop(topic.name, None) is not None:
                del self._collisions[collision_key(topic.name)]
                self._count(topic, -1)

    async def create_reserved(self, topics: Sequence[TopicInfo]) -> None:
        """Create reserved topics; returns when they are durable and visible.

        Cancelling the caller does not stop it. Raises OSError if none was created; their names are
        released then.
        """
        if topics:
            await self._written(topics, ())

    async def delete_durably(self, names: Iterable[str]) -> None:
        """Remove topics in a thread. Raises TopicError for an unknown or internal one, OSError."""
        to_delete = self._deletable(names)
        if to_delete:
            self._being_deleted.update(topic.name for topic in to_delete)
            await self._written((), to_delete)

    async def settle(self) -> None:
        """Wait until every requested change is written or has failed."""
        while self._writing is not None:
            await asyncio.wait((self._writing,))

    async def _written(self, created: Sequence[TopicInfo], to_delete: Sequence[TopicInfo]) -> None:
        change = CatalogChange(created, to_delete)
        self._changes.append(change)
        if self._writing is None:
            self._writing = asyncio.get_running_loop().create_task(self._write_changes())
        await asyncio.shield(change.done)

    async def _write_changes(self) -> None:
        """Write all requested changes together, and repeat until there are no new ones."""
        changes: list[CatalogChange] = []
        try:
            while self._changes:
                changes, self._changes = self._changes, []
                await self._write(changes)
        except (Exception, CancelledError) as error:
            # Fail the callers, as no write will follow; the next request starts a new task.
            changes, self._changes = [*changes, *self._changes], []
            self._give_up(changes, OSError(f"{self._path} cannot be written: {error!r}"))
            if is_cancelled():
                raise
        finally:
            self._writing = None

    async def _write(self, changes: Sequence[CatalogChange]) -> None:
        created = [topic for change in changes for topic in change.created]
        to_delete = [topic for change in changes for topic in change.deleted]
        topics = self._topics_after(created, to_delete)
        gone = tuple(self._deleted_after(to_delete))
        try:
            await asyncio.to_thread(self._file.write, topics, gone)
        except OSError as error:
            self._give_up(changes, error)
            return
        self._being_deleted.difference_update([topic.name for topic in to_delete])
        for topic in created:
            del self._reserved[topic.name]
        self._publish(topics, created, to_delete)
        for change in changes:
            change.settle(None)

    def _give_up(self, changes: Sequence[CatalogChange], error: OSError) -> None:
        """Fail the changes that are not settled yet, and release their topics."""
        for change in changes:
            if not change.done.done():
                self._being_deleted.difference_update([topic.name for topic in change.deleted])
                self.release(change.created)
                change.settle(error)

    # --- what both have in common ---

    def removed(self, topic: TopicInfo) -> None:
        """Note that a deleted topic's records were removed: the next write does not list it."""
        self._deleted.pop(to_base64(topic.topic_id), None)

    def _new(self, name: str, partitions: int, more: int = 0) -> TopicInfo:
        if partitions < 1:
            raise TopicError(
                ErrorCode.INVALID_PARTITIONS,
                f"Topic '{name}' is to have {partitions} partitions; expected at least 1.",
            )
        if name not in INTERNAL_TOPICS:
            self._limits.check(name, partitions, self._partitions + more, partitions)
        return TopicInfo(name, self._ids.topic_id(), partitions, name in INTERNAL_TOPICS)

    def _count(self, topic: TopicInfo, sign: int) -> None:
        if not topic.internal:
            self._partitions += sign * topic.partitions

    def _deletable(self, names: Iterable[str]) -> list[TopicInfo]:
        to_delete = []
        for name in names:
            known = self._topics.get(name)
            if known is None or name in self._being_deleted:
                raise TopicError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic '{name}'."
                )
            if known.internal:
                raise TopicError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' is internal.")
            to_delete.append(known)
        return to_delete

    def _deleted_after(self, to_delete: Sequence[TopicInfo]) -> dict[str, None]:
        if not to_delete:
            return self._deleted
        ids = [to_base64(topic.topic_id) for topic in to_delete]
        return dict.fromkeys([*self._deleted, *ids][-MOST_DELETED:])

    def _topics_after(
        self, created: Iterable[TopicInfo], to_delete: Iterable[TopicInfo]
    ) -> dict[str, TopicInfo]:
        """Return a new dictionary, as callers may be iterating over the old one."""
        topics = dict(self._topics)
        for topic in created:
            topics[topic.name] = topic
        for topic in to_delete:
            topics.pop(topic.name, None)
        return topics

    def _publish(
        self,
        topics: dict[str, TopicInfo],
        created: Sequence[TopicInfo],
        to_delete: Sequence[TopicInfo],
    ) -> None:
        """Make a durable change visible and call the listeners."""
        self._topics = topics
        # Computed again: `removed` may have been called during the write.
        self._deleted = self._deleted_after(to_delete)
        for topic in created:
            self._by_id[topic.topic_id] = topic
            self._collisions[collision_key(topic.name)] = topic.name
        for topic in to_delete:
            self._by_id.pop(topic.topic_id, None)
            self._collisions.pop(collision_key(topic.name), None)
            self._count(topic, -1)
        self._notify([topic.name for topic in (*created, *to_delete)])

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
    """The ids of deleted topics whose records may be in a data directory.

    Raises CorruptCatalog, OSError.
    """
    path = directory / FILE_NAME
    return _load(path)[1] if path.exists() else ()


def forget_deleted(directory: Path, files: Files = SYSTEM_FILES) -> None:
    """Remove the list of deleted topics from the file. Raises CorruptCatalog, OSError."""
    path = directory / FILE_NAME
    CatalogFile(files, path).write(load(path), ())


def _load(path: Path) -> tuple[dict[str, TopicInfo], Sequence[str]]:
    document = read_document(path)
    try:
        topics = [from_form(entry) for entry in document["topics"]]
        gone = [to_base64(from_base64(topic_id)) for topic_id in document.get("deleted", ())]
    except (ValueError, KeyError, TypeError, AttributeError) as fault:
        raise corrupt(path, repr(fault)) from fault
    there = {to_base64(topic.topic_id) for topic in topics}
    return {topic.name: topic for topic in topics}, [each for each in gone if each not in there]


def from_form(entry: Mapping[str, Any]) -> TopicInfo:
    """A topic as it was stored. Raises ValueError, KeyError, TypeError."""
    name, partitions = entry["name"], entry["partitions"]
    reason = why_invalid(name)
    if reason is not None:
        raise ValueError(reason)
    if not isinstance(partitions, int) or partitions < 1:
        raise ValueError(f"topic '{name}' with {partitions!r} partitions; expected at least 1")
    return TopicInfo(name, from_base64(entry["topic_id"]), partitions, name in INTERNAL_TOPICS)


def from_base64(text: str) -> UUID:
    """A topic id as Kafka writes it. Raises ValueError."""
    return UUID(bytes=base64.urlsafe_b64decode(text + "=="))

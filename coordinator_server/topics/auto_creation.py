"""Creates topics that clients ask for the metadata of (`auto.create.topics.enable`)."""

from collections.abc import Iterable, Mapping, Sequence

import structlog

from coordinator_server.clock import Clock
from coordinator_server.loop.time_slice import TimeSlice
from coordinator_server.ports import TopicInfo
from coordinator_server.topics.catalog_interface import Catalog
from coordinator_server.topics.errors import TopicError
from coordinator_server.topics.limits import MAX_PARTITIONS_PER_REQUEST
from coordinator_server.topics.names import INTERNAL_TOPICS

log = structlog.get_logger(__name__)


class AutoCreation:
    """Creates topics up to a number of them."""

    def __init__(self, catalog: Catalog, clock: Clock, max_topics: int) -> None:
        self._catalog = catalog
        self._clock = clock
        self._max_topics = max_topics
        self._is_full = False
        """Whether it has been said that no more topics are made by themselves."""

    async def create(self, names: Iterable[str], partitions: int) -> frozenset[str]:
        """Create what can be created of `names`, with one write; the rest stays unknown.

        Returns those for which there was no room (`auto.create.topics.max`,
        `max.partitions.total`).
        """
        wanted = list(names)
        if not wanted:
            return frozenset()
        catalog = self._catalog
        too_many: dict[str, str] = {}
        sound, await_others = await self._reserve(wanted, partitions, too_many)
        self._tell_of_room(too_many)
        try:
            await catalog.create_reserved(sound)
        except OSError as failure:
            log.error("topics_not_created", topics=[t.name for t in sound[:10]], why=str(failure))
        if await_others:
            await catalog.settle()
        return frozenset(too_many)

    async def _reserve(
        self, names: Sequence[str], partitions: int, too_many: dict[str, str]
    ) -> tuple[list[TopicInfo], bool]:
        """Reserve what can be created; and whether others are creating some of the names."""
        catalog = self._catalog
        sound: list[TopicInfo] = []
        await_others = False
        pace = TimeSlice(self._clock)
        try:
            for name in names:
                if pace.is_over():
                    await pace.rest()
                total = (len(sound) + 1) * partitions
                if name in INTERNAL_TOPICS or total > MAX_PARTITIONS_PER_REQUEST:
                    continue
                if catalog.is_reserved(name):
                    await_others = True
                    continue
                try:
                    if self._has_room(name, partitions, too_many):
                        sound.append(catalog.reserve(name, partitions))
                except TopicError as refusal:
                    log.debug("topic_not_created", topic=name, why=str(refusal))
        except BaseException:
            # A client that goes away ends its request: nothing stays reserved.
            catalog.release(sound)
            raise
        return sound, await_others

    def _has_room(self, name: str, partitions: int, too_many: dict[str, str]) -> bool:
        """Whether the limits allow another topic, which is legal; else why not is noted."""
        catalog = self._catalog
        catalog.check_new(name)
        topics = catalog.topics()
        there_are = len(topics) - sum(each in topics for each in INTERNAL_TOPICS)
        if there_are + catalog.reserved >= self._max_topics:
            too_many[name] = f"there are auto.create.topics.max={self._max_topics} topics or more"
            return False
        try:
            catalog.check_room(name, partitions)
        except TopicError as refusal:
            too_many[name] = str(refusal)
            return False
        return True

    def _tell_of_room(self, too_many: Mapping[str, str]) -> None:
        """Once, until there is room again: clients ask for their topics all the time."""
        if too_many and not self._is_full:
            why = next(iter(too_many.values()))
            log.warning("topics_not_created", topics=list(too_many)[:10], why=why)
        self._is_full = bool(too_many)

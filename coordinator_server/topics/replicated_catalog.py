"""The topics as another worker has them: what it publishes is taken over whole."""

from collections.abc import Callable, Iterable, Sequence
from uuid import UUID

from coordinator_protocol.errors import ErrorCode
from coordinator_server.ports import TopicInfo
from coordinator_server.topics.errors import TopicError
from coordinator_server.topics.known import KnownTopics

Wish = Callable[[Sequence[tuple[str, int]]], None]
"""Called as `wish([(name, partitions), ...])`: have them made by who may."""


class FollowedCatalog(KnownTopics):
    """A `topics.service.Catalog` that another worker decides about."""

    def __init__(self, topics: Iterable[TopicInfo], wish: Wish) -> None:
        super().__init__({topic.name: topic for topic in topics})
        self._wish = wish

    def create(self, topics: Iterable[tuple[str, int]]) -> Sequence[TopicInfo]:
        """Have topics made soon; nothing is known of them yet. Raises TopicError."""
        wanted = list(topics)
        for name, _ in wanted:
            self.check_new(name)
        if wanted:
            self._wish(wanted)
        return ()

    def delete(self, names: Iterable[str]) -> None:
        """Nothing: who asks for that asks the other worker. Raises TopicError."""
        for name in names:
            raise TopicError(ErrorCode.NOT_CONTROLLER, f"Topic '{name}' is not ours to delete.")

    def check_room(self, name: str, partitions: int) -> None:
        """Nothing: the other worker checks it."""

    def is_reserved(self, name: str) -> bool:
        """Never: nothing is created here."""
        return False

    @property
    def reserved(self) -> int:
        """None: nothing is created here."""
        return 0

    def reserve(self, name: str, partitions: int) -> TopicInfo:
        """A topic to have made, whose id nobody knows yet. Raises TopicError."""
        self.check_new(name)
        return TopicInfo(name, UUID(int=0), partitions, internal=False)

    def release(self, topics: Iterable[TopicInfo]) -> None:
        """Nothing is kept for them."""

    async def create_reserved(self, topics: Sequence[TopicInfo]) -> None:
        """Have topics made soon; nothing is known of them yet."""
        if topics:
            self._wish([(topic.name, topic.partitions) for topic in topics])

    async def delete_durably(self, names: Iterable[str]) -> None:
        """See `delete`."""
        self.delete(names)

    async def settle(self) -> None:
        """Nothing is written here."""

    def removed(self, topic: TopicInfo) -> None:
        """See Catalog; who has deleted it knows what is to be remembered."""

    def follow(self, topics: Iterable[TopicInfo]) -> list[TopicInfo]:
        """Take over what was published; returns the topics that are gone, as they were."""
        before, self._topics = self._topics, {topic.name: topic for topic in topics}
        self._index()
        gone = [topic for topic in before.values() if topic.topic_id not in self._by_id]
        changed = dict.fromkeys(
            [topic.name for topic in gone]
            + [name for name, topic in self._topics.items() if before.get(name) != topic]
        )
        self._notify(changed)
        return gone

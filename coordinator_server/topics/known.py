"""The topics in memory, without a file behind them."""

import asyncio
from asyncio import CancelledError
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from uuid import UUID

from coordinator_protocol.errors import ErrorCode
from coordinator_server.ports import TopicInfo
from coordinator_server.topics.errors import TopicError
from coordinator_server.topics.names import collision_key, why_invalid


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
        if other == name:
            # Another request is creating it.
            raise TopicError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        if other is not None:
            raise TopicError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"Topic '{name}' collides with existing topic: {other}",
            )

    def _notify(self, names: Iterable[str]) -> None:
        """Tell the listeners; one that fails keeps no other from being told."""
        for name in names:
            for listener in self._listeners:
                try:
                    listener(name)
                except (Exception, CancelledError) as error:  # noqa: BLE001 - see above
                    message = f"a listener has failed after a change of the topic '{name}'"
                    context = {"message": message, "exception": error}
                    asyncio.get_running_loop().call_exception_handler(context)

    def _index(self) -> None:
        self._by_id = {topic.topic_id: topic for topic in self._topics.values()}
        self._collisions = {collision_key(name): name for name in self._topics}

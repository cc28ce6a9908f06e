"""The interface of a catalog of topics that can be changed."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from coordinator_server.ports import TopicImage, TopicInfo


class Catalog(TopicImage, Protocol):
    """The topics, and the way to change them; who may not decide has them changed."""

    def check_new(self, name: str) -> None:
        """Raise the TopicError with which a topic of that name is refused."""
        ...

    def create(self, topics: Iterable[tuple[str, int]]) -> Sequence[TopicInfo]:
        """Create `(name, partitions)`; those that are there at once. Raises TopicError, OSError.

        Writes on the calling thread: nothing but a start may do that.
        """
        ...

    def delete(self, names: Iterable[str]) -> None:
        """Forget topics. Raises TopicError, OSError. Writes on the calling thread."""
        ...

    def check_room(self, name: str, partitions: int) -> None:
        """Raise the TopicError with which so many more partitions are refused."""
        ...

    def is_reserved(self, name: str) -> bool:
        """Whether a topic of that name is being created."""
        ...

    @property
    def reserved(self) -> int:
        """How many topics are being created."""
        ...

    def reserve(self, name: str, partitions: int) -> TopicInfo:
        """Keep a name and its partitions for a topic. Raises TopicError."""
        ...

    def release(self, topics: Iterable[TopicInfo]) -> None:
        """Give up reserved topics that are not to be created."""
        ...

    async def create_reserved(self, topics: Sequence[TopicInfo]) -> None:
        """Create reserved topics; durable when it returns. Raises OSError."""
        ...

    async def delete_durably(self, names: Iterable[str]) -> None:
        """Forget topics; durable when it returns. Raises TopicError, OSError."""
        ...

    async def settle(self) -> None:
        """Wait until every change that has been requested is written or has failed."""
        ...

    def removed(self, topic: TopicInfo) -> None:
        """Nothing is left of a topic that was deleted."""
        ...

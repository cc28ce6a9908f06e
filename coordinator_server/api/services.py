"""The parts that API modules use; `app.py` puts them together."""

from typing import TYPE_CHECKING

from coordinator_server.clock import Clock
from coordinator_server.ports import Authorizer, Directory, Ids, TopicImage

if TYPE_CHECKING:
    from coordinator_server.config import Config
    from coordinator_server.runtime.coordinator import Coordinator
    from coordinator_server.topics.service import Topics


class Services:
    """The parts behind the API."""

    __slots__ = (
        "authorizer",
        "clock",
        "config",
        "coordinator",
        "directory",
        "ids",
        "image",
        "topics",
    )

    def __init__(
        self,
        *,
        config: "Config",
        coordinator: "Coordinator",
        topics: "Topics",
        image: TopicImage,
        directory: Directory,
        authorizer: Authorizer,
        clock: Clock,
        ids: Ids,
    ) -> None:
        self.config = config
        self.coordinator = coordinator
        self.topics = topics
        self.image = image
        self.directory = directory
        self.authorizer = authorizer
        self.clock = clock
        self.ids = ids

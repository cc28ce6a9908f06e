"""What API modules may use; put together by `app.py`."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from coordinator_server.ports import Authorizer, Clock, Directory, Ids, TopicImage

if TYPE_CHECKING:
    from coordinator_server.config import Config
    from coordinator_server.runtime.coordinator import Coordinator
    from coordinator_server.topics.service import Topics


@dataclass(frozen=True, slots=True)
class Services:
    """The parts behind the API."""

    config: "Config"
    coordinator: "Coordinator"
    topics: "Topics"
    image: TopicImage
    directory: Directory
    authorizer: Authorizer
    clock: Clock
    ids: Ids

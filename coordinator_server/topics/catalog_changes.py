"""Changes of the topics that wait for a write of their file."""

import asyncio
from collections.abc import Sequence
from typing import Final

from coordinator_server.ports import TopicInfo


class CatalogChange:
    """Topics to create and topics to delete with one write of the file."""

    __slots__ = ("created", "deleted", "done")

    def __init__(self, created: Sequence[TopicInfo], deleted: Sequence[TopicInfo]) -> None:
        """Called on the event loop."""
        self.created: Final = created
        self.deleted: Final = deleted
        self.done: Final[asyncio.Future[None]] = asyncio.get_running_loop().create_future()
        """Resolved when the change is durable; has the OSError if it could not be written."""
        # Without a reader the exception would be logged as never retrieved.
        self.done.add_done_callback(_retrieve)

    def settle(self, failure: OSError | None) -> None:
        """Tell who waits what has come of it."""
        if self.done.done():
            return
        if failure is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(failure)


def _retrieve(done: "asyncio.Future[None]") -> None:
    if not done.cancelled():
        done.exception()

"""Where generated ids come from: chance in the server, a counter in tests."""

from itertools import count
from uuid import UUID, uuid4

_FIRST_BASE64_DIGIT_MINUS = 62


class SystemIds:
    """Random ids, as Kafka makes them."""

    def member_suffix(self) -> str:
        """The `<uuid>` of a generated member id `<client id>-<uuid>`."""
        return str(uuid4())

    def topic_id(self) -> UUID:
        """A new topic id whose base64 form does not begin with '-', as Kafka's Uuid.randomUuid."""
        while True:
            topic_id = uuid4()
            if topic_id.bytes[0] >> 2 != _FIRST_BASE64_DIGIT_MINUS:
                return topic_id


class CountingIds:
    """Ids 1, 2, 3, ... in the form of UUIDs: the same in every run."""

    def __init__(self) -> None:
        self._members = count(1)
        self._topics = count(1)

    def member_suffix(self) -> str:
        """The next member's number."""
        return str(UUID(int=next(self._members)))

    def topic_id(self) -> UUID:
        """The next topic's number; Kafka reserves the ids 0 and 1."""
        return UUID(int=next(self._topics) + 1)

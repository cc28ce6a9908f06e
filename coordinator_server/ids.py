"""Where generated ids come from: chance in the server, a counter in tests."""

from itertools import count
from os import urandom
from uuid import UUID, uuid4

_FIRST_BASE64_DIGIT_MINUS = 62


_UUID_4 = 0x4000_8000_0000_0000_0000
"""Version 4, variant of RFC 9562; the other bits are chance."""
_UUID_CHANCE = (1 << 128) - 1 & ~0xF000_C000_0000_0000_0000


class SystemIds:
    """Random ids, as Kafka makes them."""

    def member_suffix(self) -> str:
        """The `<uuid>` of a generated member id `<client id>-<uuid>`, as `str(uuid4())`."""
        digits = f"{int.from_bytes(urandom(16), 'big') & _UUID_CHANCE | _UUID_4:032x}"
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"

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

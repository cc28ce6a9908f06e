"""Generates member ids and topic ids: random ones in the server, counted ones in tests."""

from itertools import count
from os import urandom
from typing import Final
from uuid import UUID, uuid4

_FIRST_BASE64_DIGIT_MINUS = 62
_IDS_AT_ONCE: Final = 64


_VARIANTS: Final = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}
"""The UUID digit with the two variant bits of RFC 9562 and two random bits."""


class SystemIds:
    """Random ids in Kafka's format."""

    def __init__(self) -> None:
        self._digits = ""
        """Random digits for several member ids; urandom costs as much for one as for 64."""
        self._used = 0

    def member_suffix(self) -> str:
        """The `<uuid>` of a generated member id `<client id>-<uuid>`, as `str(uuid4())`."""
        if self._used == len(self._digits):
            self._digits, self._used = urandom(_IDS_AT_ONCE * 16).hex(), 0
        digits = self._digits[self._used : self._used + 32]
        self._used += 32
        variant = _VARIANTS[digits[16]]
        return (
            f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"
        )

    def topic_id(self) -> UUID:
        """A new topic id whose base64 form does not begin with '-', as Kafka's Uuid.randomUuid."""
        while True:
            topic_id = uuid4()
            if topic_id.bytes[0] >> 2 != _FIRST_BASE64_DIGIT_MINUS:
                return topic_id


class CountingIds:
    """Ids 1, 2, 3, ... as UUIDs, the same in every run."""

    def __init__(self) -> None:
        self._members = count(1)
        self._topics = count(1)

    def member_suffix(self) -> str:
        """The next member's number."""
        return str(UUID(int=next(self._members)))

    def topic_id(self) -> UUID:
        """The next topic's number; Kafka reserves the ids 0 and 1."""
        return UUID(int=next(self._topics) + 1)

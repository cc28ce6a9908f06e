"""What many requests have in common behind a field of their own, read once.

All members of a group say the same of protocols and topics, and each of them names itself before.
"""

from typing import Any, Final

LONGEST_TAIL: Final = 512
"""Bytes; longer ones are read anew, as those of leaders, which no other request has."""
MOST_TAILS: Final = 64
"""The kinds of members that ask by turns are far fewer."""


class Tails(dict[bytes | None, tuple[Any, ...]]):
    """The values of fields by the bytes they were read from; nobody changes them."""

    __slots__ = ()

    def remember(self, tail: bytes | None, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """Keep what has been read of a tail; of none where it is too long."""
        if tail is not None:
            if len(self) >= MOST_TAILS:
                self.clear()
            self[tail] = values
        return values

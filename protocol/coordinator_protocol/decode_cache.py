"""Caches decoded requests and request suffixes, which many members of a group share.

Every connection begins with the same two requests. All members of a group say the same of protocols
and topics, and each of them names itself before.
"""

from collections.abc import Callable
from struct import Struct
from typing import Any, Final

MOST_TAILS: Final = 64
"""The kinds of members that ask by turns are far fewer."""


class SuffixCache(dict[bytes | None, tuple[Any, ...]]):
    """The values of fields by the bytes they were read from; nobody changes them."""

    __slots__ = ("behind", "longest")

    def __init__(self, behind: str, longest: int) -> None:
        super().__init__()
        self.behind = behind
        """The last field a request has of its own."""
        self.longest = longest
        """Bytes; longer ones are read anew, as those of leaders, which no other request has."""

    def remember(self, tail: bytes | None, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """Keep what has been read of a tail; of none where it is too long."""
        if tail is not None:
            if len(self) >= MOST_TAILS:
                self.clear()
            self[tail] = values
        return values


MOST_BODIES: Final = 256
_LONGEST_BODY: Final = 128
"""Bytes; longer ones are read anew."""


class BodyCache:
    """Reads requests of which many are alike from the first byte to the last."""

    __slots__ = ("_decode", "_known")

    def __init__(self, decode: Callable[[bytes, int, int], Any]) -> None:
        self._decode = decode
        self._known: dict[bytes, Any] = {}
        """Nobody changes them."""

    def decode(self, buffer: bytes, start: int, end: int) -> Any:
        """The message in buffer[start:end]. Raises Malformed."""
        if end - start > _LONGEST_BODY:
            return self._decode(buffer, start, end)
        body = buffer[start:end]
        message = self._known.get(body)
        if message is None:
            message = self._decode(buffer, start, end)
            if len(self._known) >= MOST_BODIES:
                self._known.clear()
            self._known[body] = message
        return message


_ONE: Final = 4
"""Bytes of an int32."""


class PrefixDecoder:
    """Reads a JoinGroup or SyncGroup of a flexible version whose tail has been read before.

    Its own fields are a group id, one or two int32, and a member id; four follow. Whatever else
    comes, or has long or broken text, is left to the decoder, which remembers tails in `tails`.
    """

    __slots__ = ("_decode", "_longest", "_make", "_numbers", "_size", "_tails")

    def __init__(
        self,
        make: Callable[..., Any],
        numbers: int,
        tails: SuffixCache,
        decode: Callable[[bytes, int, int], Any],
    ) -> None:
        self._make = make
        self._numbers = Struct(f">{numbers}i").unpack_from
        self._size = _ONE * numbers
        self._tails = tails
        self._longest = tails.longest
        self._decode = decode

    def decode(self, buffer: bytes, start: int, end: int) -> Any:
        """The message in buffer[start:end]. Raises Malformed."""
        group_size = buffer[start] if start < end else 0
        numbers = start + group_size
        at = numbers + self._size
        # A size is that of a compact string: its bytes and one more.
        if not 0 < group_size < 0x80 or at >= end:
            return self._decode(buffer, start, end)
        tail = at + buffer[at]
        if not at < tail < at + 0x80 or not 0 < end - tail <= self._longest:
            return self._decode(buffer, start, end)
        known = self._tails.get(buffer[tail:end])
        if known is None:
            return self._decode(buffer, start, end)
        try:
            group_id = buffer[start + 1 : numbers].decode()
            member_id = buffer[at + 1 : tail].decode()
        except UnicodeDecodeError:
            return self._decode(buffer, start, end)
        # Spelled out: a call with stars takes as long as all the rest.
        instance_id, second, third, fourth = known
        if self._size == _ONE:
            (number,) = self._numbers(buffer, numbers)
            return self._make(group_id, number, member_id, instance_id, second, third, fourth)
        one, other = self._numbers(buffer, numbers)
        return self._make(group_id, one, other, member_id, instance_id, second, third, fourth)

"""The parts of Java's arithmetic that Kafka's protocol depends on."""

import struct
from collections.abc import Sequence
from operator import mul
from typing import Final

_MASK: Final = 0xFFFFFFFF
_PIECE: Final = 64
_POWERS: Final = tuple(pow(31, exponent, 1 << 32) for exponent in range(_PIECE + 1))
LONGEST_REMEMBERED: Final = 300
"""Characters: ids may have 32 KiB, and a cache of such would be no small thing."""
MOST_REMEMBERED: Final = 65_536


def java_hash(text: str) -> int:
    """`String.hashCode`: over UTF-16 units, as a signed 32-bit number."""
    is_short = len(text) <= _PIECE and text.isascii()
    result = _hash_of_few(text.encode()) if is_short else _hash_of_many(_units(text))
    return result - (1 << 32) if result >= 1 << 31 else result


def _hash_of_few(units: bytes) -> int:
    result = 0
    for unit in units:
        # 31 times as much: where this is compiled, a product of that size is made from objects.
        result = (result << 5) - result + unit & _MASK
    return result


def _hash_of_many(units: Sequence[int]) -> int:
    result = 0
    for at in range(0, len(units), _PIECE):
        piece = units[at : at + _PIECE]
        # What 31 * result + unit comes to, in one go for the whole piece.
        result = result * _POWERS[len(piece)] + sum(map(mul, reversed(piece), _POWERS)) & _MASK
    return result


def _units(text: str) -> Sequence[int]:
    """The numbers of its characters, as Java has them."""
    if text.isascii():
        return text.encode()
    units = text.encode("utf-16-le", "surrogatepass")
    return struct.unpack(f"<{len(units) // 2}H", units)


def positive(number: int) -> int:
    """Kafka's `Utils.abs` of a 32-bit number: the smallest one becomes 0."""
    return 0 if number == -(1 << 31) else abs(number)


def partition_for(key: str, partitions: int) -> int:
    """Which of `partitions` log partitions a group or transactional id belongs to."""
    return positive(java_hash(key)) % partitions


class PartitionOf(dict[str, int]):
    """`partition_for` by key: what has been asked before takes no more than a look."""

    __slots__ = ("_partitions",)

    def __init__(self, partitions: int) -> None:
        super().__init__()
        self._partitions = partitions

    def __missing__(self, key: str) -> int:
        found = partition_for(key, self._partitions)
        if len(key) <= LONGEST_REMEMBERED:
            if len(self) >= MOST_REMEMBERED:
                self.clear()
            self[key] = found
        return found


def hash_map_bucket(key: str, entries: int) -> int:
    """The position of a key in the iteration of a `HashMap` that grew entry by entry."""
    capacity = 16
    while entries > capacity * 3 // 4:
        capacity *= 2
    spread = java_hash(key) & _MASK
    return (spread ^ (spread >> 16)) & (capacity - 1)

"""Encodes the topics of large Metadata responses piece by piece.

The response message has an object per partition, which takes several microseconds to make and to
encode. Here the bytes of a partition are made once per leader, and every partition differs from
them in its index alone.
"""

import struct
from collections.abc import Callable, Iterator
from typing import Final

from coordinator_protocol.api_keys import ApiKey
from coordinator_protocol.codec import part_encoder
from coordinator_protocol.headers import is_flexible
from coordinator_protocol.messages.metadata import MetadataResponsePartition, MetadataResponseTopic
from coordinator_protocol.varints import uvarint
from coordinator_server.ports import TopicInfo

AT_ONCE: Final = 1024
"""Partitions of a piece; they take less than a millisecond."""

FIRST_WITH_TOPIC_OPERATIONS: Final = 8
ERROR_BYTES: Final = 2
INDEX_BYTES: Final = 4
_index = struct.Struct(">i").pack


class TopicWriter:
    """Writes topics as one version of the response has them."""

    __slots__ = ("_by_leader", "_describe", "_is_flexible", "_leader", "_partition", "_topic")

    def __init__(
        self,
        version: int,
        leader: Callable[[str, int], int | None],
        describe: Callable[[int | None, int], MetadataResponsePartition],
    ) -> None:
        """`leader` has the node id of a partition's leader; `describe` makes its message."""
        key = int(ApiKey.METADATA)
        self._topic = part_encoder(MetadataResponseTopic, key, version)
        self._partition = part_encoder(MetadataResponsePartition, key, version)
        self._is_flexible = is_flexible(key, version)
        self._leader = leader
        self._describe = describe
        self._by_leader: dict[int | None, tuple[bytes, bytes]] = {}

    def whole(self, topic: MetadataResponseTopic) -> bytes:
        """A topic with the partitions that its message has."""
        return self._topic(topic)

    def pieces(
        self, version: int, topic: MetadataResponseTopic, known: TopicInfo
    ) -> Iterator[bytes]:
        """A topic whose message has no partitions, with all that it is known to have."""
        behind = 4 if version >= FIRST_WITH_TOPIC_OPERATIONS else 0
        body = self._topic(topic)
        if self._is_flexible:
            end = len(body) - behind - 1
            yield body[: end - 1] + uvarint(known.partitions + 1)
        else:
            end = len(body) - behind
            yield body[: end - 4] + _index(known.partitions)
        for first in range(0, known.partitions, AT_ONCE):
            last = min(first + AT_ONCE, known.partitions)
            yield b"".join([self._written(known.name, index) for index in range(first, last)])
        yield body[end:]

    def _written(self, topic: str, index: int) -> bytes:
        leader = self._leader(topic, index)
        around = self._by_leader.get(leader)
        if around is None:
            body = self._partition(self._describe(leader, 0))
            # The error code and the index are the first fields in every version.
            around = body[:ERROR_BYTES], body[ERROR_BYTES + INDEX_BYTES :]
            self._by_leader[leader] = around
        return around[0] + _index(index) + around[1]

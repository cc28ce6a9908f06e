"""Large bodies: decoded in slices on the event loop, and refused as soon as they hold too much.

A thread would not help: decoding holds the interpreter, and the event loop would wait for it in
each of its steps. A slice takes about a millisecond, and requests are decoded one after the other.
"""

from typing import Any, Final

from coordinator_protocol.api_keys import ApiKey
from coordinator_protocol.codec import sliced_request_decoder
from coordinator_server.api.registry import Route
from coordinator_server.config import Config

LARGE_BODY: Final = 1 << 17
"""Bytes above which the response to a body is encoded beside the event loop: it is as large."""

COUNTED_BODY: Final = 1 << 12
"""Bytes above which the elements of a body are counted; less cannot hold too many."""

MOST_ELEMENTS: Final = 100_000
"""Elements of its arrays above which a request is refused: each costs time when it is served."""

MOST_NAMES: Final = 10_000
"""The same for the outermost arrays where each element is a name that has to be looked up."""

SLICES_AT_ONCE: Final = 4
"""Slices that are decoded before others have their turn."""

OBJECT_BYTES: Final = 200
"""Memory of an array element once it is decoded: the object, its texts and its place in a list."""

GATHERED_BYTES: Final = 300
"""Of the answer to an element of ListOffsets, which waits with all others for the last one's."""

MOST_COMMITTED: Final = 20_000
MOST_COMMITTED_TOPICS: Final = 5_000
"""Elements and topics of one OffsetCommit, which a group handles in one turn of the event loop.

Kafka takes about half as many: the records of one commit have to fit into `message.max.bytes`. The
same for OffsetDelete, of which all topics are looked up in one turn. A commit of more is decoded up
to the limits of others: its response has no place for an error but those of its partitions.
"""

MOST_PROTOCOLS: Final = 1_000
"""Protocols of one JoinGroup: a group keeps them as long as the member is in it."""

JOIN_GROUP_OVERHEAD: Final = 1 << 20
"""Bytes of a JoinGroup beside its protocols: five texts, and what frames the protocols."""

MOST_FETCHED: Final = 20_000
"""Elements of one Fetch: each partition is looked up, read and encoded."""

_LIMITS: Final = {
    int(ApiKey.FETCH): (MOST_FETCHED, MOST_NAMES),
    int(ApiKey.JOIN_GROUP): (MOST_PROTOCOLS, MOST_PROTOCOLS),
    int(ApiKey.OFFSET_COMMIT): (MOST_ELEMENTS, MOST_NAMES),
    int(ApiKey.OFFSET_DELETE): (MOST_COMMITTED, MOST_COMMITTED_TOPICS),
    int(ApiKey.METADATA): (MOST_ELEMENTS, MOST_NAMES),
    int(ApiKey.OFFSET_FETCH): (MOST_ELEMENTS, MOST_NAMES),
    int(ApiKey.FIND_COORDINATOR): (MOST_ELEMENTS, MOST_NAMES),
    int(ApiKey.LEAVE_GROUP): (MOST_ELEMENTS, MOST_NAMES),
    int(ApiKey.DESCRIBE_GROUPS): (MOST_ELEMENTS, MOST_NAMES),
    int(ApiKey.DELETE_GROUPS): (MOST_ELEMENTS, MOST_NAMES),
}
"""The most elements of a request, and of those in its outermost arrays, by API."""

_LIMITS_OF_OTHERS: Final = (MOST_ELEMENTS, MOST_ELEMENTS)

REFUSED_AS_A_WHOLE: Final = frozenset(
    {
        int(ApiKey.JOIN_GROUP),
        int(ApiKey.SYNC_GROUP),
        int(ApiKey.LEAVE_GROUP),
        int(ApiKey.OFFSET_DELETE),
    }
)
"""APIs whose responses say an error once: a request that is too large is not decoded for that."""

LARGE_RESPONSES: Final = frozenset(
    {
        int(ApiKey.FETCH),
        int(ApiKey.METADATA),
        int(ApiKey.OFFSET_FETCH),
        int(ApiKey.DESCRIBE_GROUPS),
        int(ApiKey.LIST_GROUPS),
    }
)
"""Requests of a few bytes that may be answered with many: not begun without memory."""


class LargeDecoding:
    """One body that is decoded slice by slice."""

    __slots__ = ("_api_key", "_most", "_size", "_steps", "excess", "object_bytes", "request")

    def __init__(self, route: Route, buffer: bytes, body: int, end: int) -> None:
        self._api_key = route.api_key
        self._most, entries = _LIMITS.get(route.api_key, _LIMITS_OF_OTHERS)
        decode = sliced_request_decoder(route.api_key, route.version)
        self._steps = decode(buffer, body, end, self._most, entries)
        self._size = end - body
        self.request: Any = None
        """The decoded request, once `step` has returned True."""
        self.object_bytes = 2 * self._size
        """Estimate of the memory it takes; while it is decoded, its frame is there as well."""
        self.excess = ""
        """The limit because of which the decoded request is refused, in words."""

    def step(self, slices: int = 1) -> bool:
        """Decode some slices; True when the request is complete.

        Raises TooManyElements before it takes much memory, Malformed.
        """
        try:
            while slices:
                slices -= 1
                next(self._steps)
        except StopIteration as done:
            self.request, left = done.value
            elements = self._most - left
            self.object_bytes = self._size + elements * OBJECT_BYTES
            if self._api_key == ApiKey.LIST_OFFSETS:
                self.object_bytes += elements * GATHERED_BYTES
            elif self._api_key == ApiKey.OFFSET_COMMIT:
                self._look_for_excess(elements)
            return True
        return False

    def _look_for_excess(self, elements: int) -> None:
        if elements > MOST_COMMITTED:
            self.excess = f"{elements} array elements, at most {MOST_COMMITTED} are served"
        elif len(self.request.topics) > MOST_COMMITTED_TOPICS:
            topics = len(self.request.topics)
            self.excess = f"{topics} topics, at most {MOST_COMMITTED_TOPICS} are served"


def exceeded_limit(route: Route, size: int, config: Config) -> str:
    """The setting because of which a body need not be decoded, "" of nearly all.

    A JoinGroup may hold more than its group would take.
    """
    if route.api_key != ApiKey.JOIN_GROUP or size <= JOIN_GROUP_OVERHEAD:
        return ""
    most = config.group_max_member_metadata_bytes
    return f"group.max.member.metadata.bytes={most}" if size > most + JOIN_GROUP_OVERHEAD else ""


def size_limit_named(config: Config, memory_limit: float) -> str:
    """The property that bounds the size of a request, for the log."""
    if config.socket_request_max_bytes <= memory_limit:
        return " (socket.request.max.bytes)"
    return " (all memory for client data, see queued.max.request.bytes)"

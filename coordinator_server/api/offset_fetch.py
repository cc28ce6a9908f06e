"""OffsetFetch (key 9).

v1: what Kafka 4 begins with. v2: null topics ask for all; an error for the request as a whole,
before it is one of each partition. v3: throttle time. v5: leader epoch (KIP-320). v6: flexible.
v7: require stable (KIP-447). v8: several groups (KIP-709). v9: member id and epoch, which only
groups of the consumer protocol check (KIP-848).

Partitions without an offset, and those that do not exist, have offset -1 and no error. A caller
who may not describe a topic is told so where it names the topic, and not told of it otherwise.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeVar

from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from coordinator_protocol.offset_answers import (
    fetched,
    fetched_alone,
    fetched_group,
    fetched_in_pieces,
)
from coordinator_protocol.offset_fetch_reader import read_offset_fetch
from coordinator_server.api.call import Call
from coordinator_server.api.chunked_work import ChunkedWork
from coordinator_server.api.refusals import not_authorized
from coordinator_server.api.services import Services
from coordinator_server.api.streaming_response import StreamedArray, around
from coordinator_server.group.effects import Fetched, FetchedTopic, Refuse, Result, unpacked
from coordinator_server.group.events import FetchOffsets
from coordinator_server.ports import Caller, Operation, Resource
from coordinator_server.runtime.ticket import CallbackTicket

FIRST_WITH_GROUP_ERROR: Final = 2
FIRST_FLEXIBLE: Final = 6
FIRST_BATCHED: Final = 8

AT_ONCE: Final = 1_000
"""Topics and partitions of a group that are written before others have their turn."""

_DESCRIBE: Final = Operation.DESCRIBE
_GROUP: Final = Resource.GROUP
_TOPIC: Final = Resource.TOPIC

Named = TypeVar("Named", tuple[str, list[int]], FetchedTopic)

Topics = list[tuple[str, list[int]]]
"""Topics with their partitions."""

Offsets = Sequence[FetchedTopic]
"""Topics with what was found of their partitions."""


class Query(NamedTuple):
    """The request for one group, in every version; `topics` of None stands for all topics."""

    group_id: str
    topics: Topics | None


class Found(NamedTuple):
    """The offsets of one group, or its error."""

    group_id: str
    offsets: Offsets
    error: ErrorCode = ErrorCode.NONE


def handle(call: Call, request: OffsetFetchRequest, services: Services) -> None:
    """Ask every group that may be described, and answer for all of them in order."""
    queries = _queries(call.version, request)
    if len(queries) == 1:
        tell = partial(_send, call, services)
        _ask(call, queries[0], request.require_stable, services, tell)
    else:
        BatchedFetch(call, queries, request.require_stable, services)


def express(
    buffer: bytes,
    body: int,
    end: int,
    version: int,
    caller: Caller,
    _now_ms: int,
    services: Services,
) -> bytes | None:
    """Fetch the offsets of one group from the bytes of the request; see registry.Express."""
    if version < FIRST_FLEXIBLE:
        return None
    asked = read_offset_fetch(buffer, body, end, version)
    if asked is None:
        return None
    group_id, topics, require_stable = asked
    allowed = services.authorizer.allowed
    if not allowed(caller, _DESCRIBE, _GROUP, group_id):
        return None
    if topics is not None and is_long(topics):
        return None
    offsets = services.coordinator.fetched(group_id, FetchOffsets(None, topics, require_stable))
    if offsets is None or (topics is None and is_long(offsets)):
        return None
    for topic, _ in offsets:
        if not allowed(caller, _DESCRIBE, _TOPIC, topic):
            return None
    return _body(version, [Found(group_id, offsets)])


class BatchedFetch:
    """Asks one group after the other, and writes down what it tells before it asks many more."""

    __slots__ = ("_answer", "_call", "_queries", "_require_stable", "_services", "_work")

    def __init__(
        self, call: Call, queries: list[Query], require_stable: bool, services: Services
    ) -> None:
        self._call = call
        self._queries = queries
        self._require_stable = require_stable
        self._services = services
        self._work = ChunkedWork(services.clock, call.failed, call.may_grow)
        self._answer = StreamedArray(call, OffsetFetchResponse(), len(queries), self._work)
        self._work.add(map(self._ask, range(len(queries))))

    def _ask(self, place: int) -> None:
        tell = partial(self._put, place)
        _ask(self._call, self._queries[place], self._require_stable, self._services, tell)

    def _put(self, place: int, found: Found) -> None:
        if is_long(found.offsets):
            self._work.add(self._writing(place, found))
        else:
            self._answer.put(place, fetched_group(*found))

    def _writing(self, place: int, found: Found) -> Iterator[None]:
        pieces: list[bytes] = []
        for piece in fetched_in_pieces(self._call.version, *found):
            pieces.append(piece)
            self._work.size += len(piece)
            yield
        self._answer.put(place, b"".join(pieces))


def refuse(request: OffsetFetchRequest, error: ErrorCode, version: int) -> OffsetFetchResponse:
    """An error for every group."""
    return _response(version, [_failed(version, q, error) for q in _queries(version, request)])


def _queries(version: int, request: OffsetFetchRequest) -> list[Query]:
    if version < FIRST_BATCHED:
        topics = request.topics
        return [
            Query(
                request.group_id,
                None
                if topics is None
                else [(topic.name, topic.partition_indexes) for topic in topics],
            )
        ]
    return [
        Query(
            group.group_id,
            None
            if group.topics is None
            else [(topic.name, topic.partition_indexes) for topic in group.topics],
        )
        for group in request.groups
    ]


def _ask(
    call: Call,
    query: Query,
    require_stable: bool,
    services: Services,
    tell: Callable[[Found], None],
) -> None:
    """Ask one group for what the caller may see."""
    group_id, topics = query
    if not services.authorizer.allowed(call.caller, _DESCRIBE, _GROUP, group_id):
        error = not_authorized(call, services, _DESCRIBE, group_id)
        tell(_failed(call.version, query, error))
        return
    if topics is not None:
        topics = _described(call, topics, services)
    deliver = partial(_deliver, call, query, topics, services, tell)
    ticket = CallbackTicket(deliver, call.failed)
    services.coordinator.submit(group_id, FetchOffsets(ticket, topics, require_stable))


def _described(call: Call, topics: Sequence[Named], services: Services) -> list[Named]:
    """Those of the topics which the caller may know of."""
    allowed, caller = services.authorizer.allowed, call.caller
    return [entry for entry in topics if allowed(caller, _DESCRIBE, _TOPIC, entry[0])]


def _deliver(
    call: Call,
    query: Query,
    asked: Topics | None,
    services: Services,
    tell: Callable[[Found], None],
    result: Result,
) -> None:
    """Tell what a group has answered about the topics `asked` for, and what it was not asked."""
    group_id, topics = query
    if isinstance(result, Refuse):
        tell(_failed(call.version, query, result.error))
        return
    assert isinstance(result, Fetched)
    if topics is None or asked is None:
        tell(Found(group_id, _described(call, result.topics, services)))
    elif len(asked) == len(topics):
        tell(Found(group_id, result.topics))
    else:
        hidden = [entry for entry in topics if entry not in asked]
        refused = _nothing(hidden, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        tell(Found(group_id, [*result.topics, *refused]))


def is_long(topics: Sequence[tuple[str, Sequence[object]]]) -> bool:
    """Whether topics and partitions are too many to be written at once."""
    left = AT_ONCE
    for _, partitions in topics:
        left -= 1 + len(partitions)
        if left < 0:
            return True
    return False


def _send(call: Call, services: Services, found: Found) -> None:
    """Answer with what was found of the only group."""
    if is_long(found.offsets):
        work = ChunkedWork(services.clock, call.failed, call.may_grow)
        work.add(_sending(call, found, work))
    elif call.version >= FIRST_FLEXIBLE:
        call.answer_body(_body(call.version, [found]), found.error)
    else:
        call.answer(_response(call.version, [found]))


def _sending(call: Call, found: Found, work: ChunkedWork) -> Iterator[None]:
    pieces: list[bytes] = []
    before, behind = b"", b""
    if call.version >= FIRST_BATCHED:
        before, behind = around(call, OffsetFetchResponse(), 1)
    for piece in fetched_in_pieces(call.version, *found):
        pieces.append(piece)
        work.size += len(piece)
        yield
    call.answer_parts([before, *pieces, behind], found.error)


def _body(version: int, found: Sequence[Found]) -> bytes:
    """The body of a flexible response."""
    if version >= FIRST_BATCHED:
        return fetched([fetched_group(*each) for each in found])
    ((_, offsets, error),) = found
    return fetched_alone(offsets, error)


def _failed(version: int, query: Query, error: ErrorCode) -> Found:
    if version < FIRST_WITH_GROUP_ERROR:
        return Found(query.group_id, _nothing(query.topics or [], error))
    return Found(query.group_id, [], error)


def _nothing(topics: Topics, error: ErrorCode) -> Offsets:
    return [(topic, [(index, error) for index in indexes]) for topic, indexes in topics]


def _response(version: int, found: Sequence[Found]) -> OffsetFetchResponse:
    if version >= FIRST_BATCHED:
        return OffsetFetchResponse(
            groups=[
                OffsetFetchResponseGroup(
                    group_id=group.group_id,
                    topics=[
                        OffsetFetchResponseTopics(
                            name=topic,
                            partitions=[
                                OffsetFetchResponsePartitions(*unpacked(*each)) for each in offsets
                            ],
                        )
                        for topic, offsets in group.offsets
                    ],
                    error_code=group.error,
                )
                for group in found
            ]
        )
    (group,) = found
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(
                name=topic,
                partitions=[OffsetFetchResponsePartition(*unpacked(*each)) for each in offsets],
            )
            for topic, offsets in group.offsets
        ],
        error_code=group.error,
    )

"""OffsetFetch (key 9).

v1: what Kafka 4 begins with. v2: null topics ask for all; an error for the request as a whole,
before it is one of each partition. v3: throttle time. v5: leader epoch (KIP-320). v6: flexible.
v7: require stable (KIP-447). v8: several groups (KIP-709). v9: member id and epoch, which only
groups of the consumer protocol check (KIP-848).

Partitions without an offset, and those that do not exist, have offset -1 and no error. A caller
who may not describe a topic is told so where it names the topic, and not told of it otherwise.
"""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from coordinator_server.api.call import Call
from coordinator_server.api.gather import Gather
from coordinator_server.api.refusing import not_authorized
from coordinator_server.api.services import Services
from coordinator_server.group.effects import Fetched, FetchedTopic, Refuse, Result, unpacked
from coordinator_server.group.events import FetchOffsets
from coordinator_server.ports import Operation, Resource
from protocol.errors import ErrorCode
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from protocol.offset_answers import fetched, fetched_group

FIRST_WITH_GROUP_ERROR = 2
FIRST_BATCHED = 8

Topics = list[tuple[str, list[int]]]
"""Topics with their partitions."""

Offsets = Sequence[FetchedTopic]
"""Topics with what was found of their partitions."""


class Query(NamedTuple):
    """What is asked of one group, whatever the version; `topics` is None for all there are."""

    group_id: str
    topics: Topics | None


class Found(NamedTuple):
    """What is answered of one group."""

    group_id: str
    offsets: Offsets
    error: ErrorCode = ErrorCode.NONE


def handle(call: Call, request: OffsetFetchRequest, services: Services) -> None:
    """Ask every group that may be described, and answer for all of them in order."""
    queries = _queries(call.version, request)
    allowed = [
        services.authorizer.allowed(call.caller, Operation.DESCRIBE, Resource.GROUP, query.group_id)
        for query in queries
    ]
    asked = [query for query, may in zip(queries, allowed, strict=True) if may]
    if len(asked) < len(queries):
        for query, may in zip(queries, allowed, strict=True):
            if not may:
                not_authorized(call, services, Operation.DESCRIBE, query.group_id)
    gather = Gather(len(asked), partial(_deliver, call, queries, allowed, services))
    for index, query in enumerate(asked):
        topics = query.topics
        if topics is not None:
            topics = [entry for entry in topics if _may_describe(call, entry[0], services)]
        event = FetchOffsets(gather.ticket(index), topics, request.require_stable)
        services.coordinator.submit(query.group_id, event)


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


def _may_describe(call: Call, topic: str, services: Services) -> bool:
    return services.authorizer.allowed(call.caller, Operation.DESCRIBE, Resource.TOPIC, topic)


def _deliver(
    call: Call,
    queries: Sequence[Query],
    allowed: Sequence[bool],
    services: Services,
    results: Sequence[Result],
) -> None:
    coming = iter(results)
    found = [
        _found(call, query, next(coming), services)
        if may
        else _failed(call.version, query, ErrorCode.GROUP_AUTHORIZATION_FAILED)
        for query, may in zip(queries, allowed, strict=True)
    ]
    if call.version < FIRST_BATCHED:
        call.answer(_response(call.version, found))
    else:
        groups = [fetched_group(group.group_id, group.offsets, group.error) for group in found]
        call.answer_body(fetched(groups), found[0].error if len(found) == 1 else ErrorCode.NONE)


def _found(call: Call, query: Query, result: Result, services: Services) -> Found:
    if isinstance(result, Refuse):
        return _failed(call.version, query, result.error)
    assert isinstance(result, Fetched)
    if query.topics is None:
        seen = [entry for entry in result.topics if _may_describe(call, entry[0], services)]
        return Found(query.group_id, seen)
    hidden = [entry for entry in query.topics if not _may_describe(call, entry[0], services)]
    refused = _nothing(hidden, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return Found(query.group_id, [*result.topics, *refused])


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

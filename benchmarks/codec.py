"""Reading a request and writing a response, by us and by kio, for `benchmarks.micro` to time.

Both are given the same messages, and have to come to the same bytes before that.
"""

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kio.serial import entity_reader, entity_writer

from coordinator_protocol.codec import request_decoder, request_encoder, response_encoder
from coordinator_protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from coordinator_protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from coordinator_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from coordinator_protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from coordinator_protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.support.kio_messages import Side, to_kio

GROUP = "payments-settlement"
MEMBER = "consumer-1-7d9b5b1c-3a64-4a4e-9c0e-6f0d6f1c2f11"
TOPIC = "payments.settled"
BLOB = bytes(60)
"""As long as a subscription to two topics."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and its response."""

    name: str
    api: str
    version: int
    request: Any
    response: Any


def _join(name: str, members: int) -> Exchange:
    return Exchange(
        name,
        "join_group",
        9,
        JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=45_000,
            rebalance_timeout_ms=300_000,
            member_id=MEMBER,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol("range", BLOB)],
        ),
        JoinGroupResponse(
            generation_id=7,
            protocol_type="consumer",
            protocol_name="range",
            leader=MEMBER,
            member_id=MEMBER,
            members=[
                JoinGroupResponseMember(member_id=f"{MEMBER[:-4]}{i:04}", metadata=BLOB)
                for i in range(members)
            ],
        ),
    )


def _commit(name: str, partitions: int) -> Exchange:
    return Exchange(
        name,
        "offset_commit",
        8,
        OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=7,
            member_id=MEMBER,
            topics=[
                OffsetCommitRequestTopic(
                    name=TOPIC,
                    partitions=[
                        OffsetCommitRequestPartition(i, 123_456 + i, 3, "")
                        for i in range(partitions)
                    ],
                )
            ],
        ),
        OffsetCommitResponse(
            topics=[
                OffsetCommitResponseTopic(
                    name=TOPIC,
                    partitions=[OffsetCommitResponsePartition(i, 0) for i in range(partitions)],
                )
            ]
        ),
    )


def _fetch(name: str, partitions: int) -> Exchange:
    asked = OffsetFetchRequestTopics(name=TOPIC, partition_indexes=list(range(partitions)))
    answered = OffsetFetchResponseTopics(
        name=TOPIC,
        partitions=[
            OffsetFetchResponsePartitions(i, 123_456 + i, 3, "", 0) for i in range(partitions)
        ],
    )
    return Exchange(
        name,
        "offset_fetch",
        8,
        OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=[asked])]),
        OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id=GROUP, topics=[answered])]),
    )


def exchanges() -> Sequence[Exchange]:
    """What a coordinator is asked most, and what is longest."""
    return (
        Exchange(
            "Heartbeat v4",
            "heartbeat",
            4,
            HeartbeatRequest(GROUP, 7, MEMBER),
            HeartbeatResponse(),
        ),
        Exchange(
            "SyncGroup v5",
            "sync_group",
            5,
            SyncGroupRequest(GROUP, 7, MEMBER, None, "consumer", "range", []),
            SyncGroupResponse(protocol_type="consumer", protocol_name="range", assignment=BLOB),
        ),
        _join("JoinGroup v9, follower", 0),
        _join("JoinGroup v9, leader of 1,000", 1_000),
        _commit("OffsetCommit v8, 1 partition", 1),
        _commit("OffsetCommit v8, 50 partitions", 50),
        _fetch("OffsetFetch v8, 50 partitions", 50),
    )


def reading(exchange: Exchange, *, kio: bool = False) -> Callable[[], object]:
    """Read the request. Raises AssertionError if the two do not agree."""
    side = Side(exchange.api, "request")
    api, version = side.messages.key, exchange.version
    raw = request_encoder(api, version)(exchange.request)
    decode = request_decoder(api, version)
    end = len(raw)
    assert decode(raw, 0, end) == exchange.request
    read = entity_reader(side.kio(version))
    assert read(raw, 0)[0] == to_kio(exchange.request, side.kio(version))
    return (lambda: read(raw, 0)) if kio else (lambda: decode(raw, 0, end))


def writing(exchange: Exchange, *, kio: bool = False) -> Callable[[], object]:
    """Write the response. Raises AssertionError if the two do not agree."""
    side = Side(exchange.api, "response")
    version = exchange.version
    encode = response_encoder(side.messages.key, version)
    theirs = to_kio(exchange.response, side.kio(version))
    write = entity_writer(side.kio(version))

    def written() -> bytes:
        buffer = io.BytesIO()
        write(buffer, theirs)
        return buffer.getvalue()

    assert written() == encode(exchange.response)
    return written if kio else (lambda: encode(exchange.response))

"""What reading a request and writing a response costs, beside kio doing the same.

Both are given the same messages, and have to come to the same bytes before they are timed.
"""

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from timeit import Timer
from typing import Any

from benchmarks.tables import table
from kio.serial import entity_reader, entity_writer

from protocol.codec import request_decoder, request_encoder, response_encoder
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.support.reference import Side, to_kio

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


def microseconds(work: Callable[[], object]) -> float:
    """Of one call: the best of five times about 50 ms."""
    timer = Timer(work)
    calls = 1
    while (taken := timer.timeit(calls)) < 0.01:
        calls *= 4
    calls = max(1, round(calls * 0.05 / taken))
    return min(timer.repeat(5, calls)) / calls * 1e6


def read_row(exchange: Exchange) -> list[str]:
    """Reading the request. Raises AssertionError if the two do not agree."""
    side = Side(exchange.api, "request")
    api, version = side.messages.key, exchange.version
    raw = request_encoder(api, version)(exchange.request)
    decode = request_decoder(api, version)
    assert decode(raw, 0, len(raw)) == exchange.request
    read = entity_reader(side.kio(version))
    assert read(raw, 0)[0] == to_kio(exchange.request, side.kio(version))
    end = len(raw)
    return _row(
        (exchange.name, "read request"), end, lambda: decode(raw, 0, end), lambda: read(raw, 0)
    )


def write_row(exchange: Exchange) -> list[str]:
    """Writing the response. Raises AssertionError if the two do not agree."""
    side = Side(exchange.api, "response")
    version = exchange.version
    encode = response_encoder(side.messages.key, version)
    raw = encode(exchange.response)
    theirs = to_kio(exchange.response, side.kio(version))
    write = entity_writer(side.kio(version))

    def written() -> bytes:
        buffer = io.BytesIO()
        write(buffer, theirs)
        return buffer.getvalue()

    assert written() == raw
    return _row(
        (exchange.name, "write response"), len(raw), lambda: encode(exchange.response), written
    )


def _row(
    names: tuple[str, str], size: int, ours: Callable[[], object], theirs: Callable[[], object]
) -> list[str]:
    mine, other = microseconds(ours), microseconds(theirs)
    return [*names, f"{size:,}", f"{mine:.2f}", f"{other:.2f}", f"{other / mine:.1f}"]


def main() -> None:
    """Print the table."""
    rows = [row(each) for each in exchanges() for row in (read_row, write_row)]
    print(table(("message", "work", "bytes", "ours us", "kio us", "kio / ours"), rows))


if __name__ == "__main__":
    main()

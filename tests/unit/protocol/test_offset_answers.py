"""Answers written without messages, held against those that are written from messages."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_protocol.api_keys import ApiKey
from coordinator_protocol.codec import response_encoder
from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.messages.offset_commit import (
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from coordinator_protocol.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from coordinator_protocol.offset_answers import (
    FETCH_BATCHED,
    FETCH_FLEXIBLE,
    ROWS_AT_ONCE,
    commit_accepted,
    fetched,
    fetched_alone,
    fetched_group,
    fetched_in_pieces,
)
from coordinator_protocol.offset_value import OffsetCommitValue, pack_offset
from coordinator_protocol.records import encode_value
from coordinator_server.group.effects import unpacked

NAMES = st.text(st.characters(codec="utf-8"), max_size=200)
INDEXES = st.integers(-(2**31), 2**31 - 1)
TIMES = st.integers(-1, 2**63 - 1)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=300)
FOUND = st.one_of(
    st.none(),
    st.sampled_from([ErrorCode.UNSTABLE_OFFSET_COMMIT, ErrorCode.TOPIC_AUTHORIZATION_FAILED]),
    st.builds(pack_offset, TIMES, st.integers(-1, 2**31 - 1), TEXTS, TIMES, st.just(-1) | TIMES),
)


@pytest.mark.parametrize("version", range(2, 10))
@given(topics=st.lists(st.tuples(NAMES, st.lists(INDEXES, max_size=130)), max_size=3))
def test_accepted_commits_are_answered_as_their_message_is_written(
    version: int, topics: list[tuple[str, list[int]]]
) -> None:
    asked = [
        OffsetCommitRequestTopic(
            name=name, partitions=[OffsetCommitRequestPartition(i, 5) for i in indexes]
        )
        for name, indexes in topics
    ]
    response = OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=name, partitions=[OffsetCommitResponsePartition(i, 0) for i in indexes]
            )
            for name, indexes in topics
        ]
    )
    assert commit_accepted(version, asked) == response_encoder(ApiKey.OFFSET_COMMIT, version)(
        response
    )


@pytest.mark.parametrize("version", [8, 9])
@given(
    topics=st.lists(st.tuples(NAMES, st.lists(st.tuples(INDEXES, FOUND), max_size=5)), max_size=3),
    error=st.sampled_from([ErrorCode.NONE, ErrorCode.NOT_COORDINATOR]),
)
def test_fetched_offsets_are_answered_as_their_message_is_written(
    version: int, topics: list[tuple[str, list[tuple[int, Any]]]], error: ErrorCode
) -> None:
    groups = [
        OffsetFetchResponseGroup(
            group_id="g",
            topics=[
                OffsetFetchResponseTopics(
                    name=name,
                    partitions=[
                        OffsetFetchResponsePartitions(*unpacked(*offset)) for offset in offsets
                    ],
                )
                for name, offsets in topics
            ],
            error_code=error,
        )
    ]
    expected = response_encoder(ApiKey.OFFSET_FETCH, version)(OffsetFetchResponse(groups=groups))
    group = fetched_group("g", topics, error)
    assert fetched([group]) == expected
    assert b"".join(fetched_in_pieces(version, "g", topics, error)) == group


@pytest.mark.parametrize("version", range(1, 8))
@given(
    topics=st.lists(st.tuples(NAMES, st.lists(st.tuples(INDEXES, FOUND), max_size=5)), max_size=3),
    error=st.sampled_from([ErrorCode.NONE, ErrorCode.NOT_COORDINATOR]),
)
def test_what_one_group_has_is_answered_as_its_message_is_written(
    version: int, topics: list[tuple[str, list[tuple[int, Any]]]], error: ErrorCode
) -> None:
    response = OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(
                name=name,
                partitions=[OffsetFetchResponsePartition(*unpacked(*offset)) for offset in offsets],
            )
            for name, offsets in topics
        ],
        error_code=error,
    )
    expected = response_encoder(ApiKey.OFFSET_FETCH, version)(response)
    assert b"".join(fetched_in_pieces(version, "g", topics, error)) == expected
    if version >= FETCH_FLEXIBLE:
        assert fetched_alone(topics, error) == expected


@pytest.mark.parametrize("version", [5, 7, 8])
def test_many_offsets_are_several_pieces(version: int) -> None:
    offsets = [(index, None) for index in range(2 * ROWS_AT_ONCE + 1)]
    pieces = [*fetched_in_pieces(version, "g", [("t", offsets)], ErrorCode.NONE)]
    longest = max(map(len, pieces))
    assert longest < 30 * ROWS_AT_ONCE
    group = fetched_group("g", [("t", offsets)], ErrorCode.NONE)
    assert version < FETCH_BATCHED or b"".join(pieces) == group


@given(
    offset=TIMES,
    leader_epoch=st.integers(-1, 2**31 - 1),
    metadata=TEXTS,
    committed=TIMES,
    expires=st.just(-1) | TIMES,
)
def test_packed_offset_is_the_record_of_its_value(
    offset: int, leader_epoch: int, metadata: str, committed: int, expires: int
) -> None:
    value = OffsetCommitValue(offset, leader_epoch, metadata, committed, expires)
    assert pack_offset(offset, leader_epoch, metadata, committed, expires) == encode_value(value)

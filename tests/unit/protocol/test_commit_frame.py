"""OffsetCommit requests recognised by their bytes."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_protocol.api_keys import ApiKey
from coordinator_protocol.codec import request_encoder
from coordinator_protocol.commit_frame import MOST_BYTES, CommitFrame
from coordinator_protocol.headers import request_header
from coordinator_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

INT64 = st.integers(-(2**63), 2**63 - 1)
VERSIONS = st.integers(2, 9)
NAMES = st.text(min_size=1, max_size=20)
PARTITIONS = st.builds(
    OffsetCommitRequestPartition,
    partition_index=st.integers(0, 2**31 - 1),
    committed_offset=INT64,
    committed_metadata=st.none() | st.text(max_size=5),
)
REQUESTS = st.builds(
    OffsetCommitRequest,
    group_id=NAMES,
    generation_id_or_member_epoch=st.integers(-1, 100),
    member_id=NAMES,
    topics=st.lists(
        st.builds(
            OffsetCommitRequestTopic, name=NAMES, partitions=st.lists(PARTITIONS, max_size=5)
        ),
        max_size=3,
    ),
)


def frame_of(version: int, request: OffsetCommitRequest, correlation_id: int) -> tuple[bytes, int]:
    """A frame without its length, and where its body begins."""
    header = request_header(ApiKey.OFFSET_COMMIT, version, correlation_id, "client")
    return header + request_encoder(ApiKey.OFFSET_COMMIT, version)(request), len(header)


def chunk_of(version: int, request: OffsetCommitRequest, correlation_id: int = 1) -> bytes:
    frame, _ = frame_of(version, request, correlation_id)
    return struct.pack(">i", len(frame)) + frame


@given(VERSIONS, REQUESTS, st.data())
def test_a_request_with_other_offsets_is_recognised_and_they_are_read(
    version: int, request: OffsetCommitRequest, data: st.DataObject
) -> None:
    known = CommitFrame(version, request, *frame_of(version, request, 7))
    offsets: list[bytes] = []
    for topic in request.topics:
        for partition in topic.partitions:
            partition.committed_offset = data.draw(INT64)
            offsets.append(struct.pack(">q", partition.committed_offset))
    read = known.offsets_of(chunk_of(version, request, data.draw(st.integers(0, 2**31 - 1))))
    assert read is not None
    assert list(read) == offsets


@given(VERSIONS, REQUESTS, st.data())
def test_a_request_that_differs_in_anything_else_is_not(
    version: int, request: OffsetCommitRequest, data: st.DataObject
) -> None:
    known = CommitFrame(version, request, *frame_of(version, request, 7))
    chunk = bytearray(chunk_of(version, request))
    at = data.draw(st.integers(0, len(chunk) - 1))
    chunk[at] ^= data.draw(st.integers(1, 255))
    read = known.offsets_of(bytes(chunk))
    given = [p.committed_offset for topic in request.topics for p in topic.partitions]
    same = [struct.pack(">q", offset) for offset in given]
    if read is None:
        assert not 8 <= at < 12
    else:
        assert 8 <= at < 12 or [a != b for a, b in zip(read, same, strict=True)].count(True) == 1
    assert known.offsets_of(bytes(chunk) + b"\0") is None
    assert known.offsets_of(bytes(chunk[:-1])) is None


@pytest.mark.parametrize(("metadata", "more"), [("x" * MOST_BYTES, b""), ("", b"\0")])
def test_what_is_long_or_encoded_otherwise_is_not_laid_out(metadata: str, more: bytes) -> None:
    partition = OffsetCommitRequestPartition(0, 1, -1, metadata)
    topic = OffsetCommitRequestTopic(name="orders", partitions=[partition])
    request = OffsetCommitRequest(group_id="g", member_id="m", topics=[topic])
    frame, body = frame_of(8, request, 1)
    with pytest.raises(ValueError, match="cannot be laid out"):
        CommitFrame(8, request, frame + more, body)

"""What decoders accept and refuse: the rules of Kafka's generated readers."""

# ruff: noqa: RUF009
from dataclasses import dataclass
from typing import Any

import pytest

from coordinator_protocol.codec import (
    request_decoder,
    request_encoder,
    response_decoder,
    response_encoder,
)
from coordinator_protocol.decoder import compile_decoder, minimal_size
from coordinator_protocol.decoding import skip_tagged_fields, uvarint
from coordinator_protocol.encoder import compile_encoder
from coordinator_protocol.errors import Malformed
from coordinator_protocol.messages.describe_groups import DescribeGroupsRequest
from coordinator_protocol.messages.fetch import FetchRequest, ReplicaState
from coordinator_protocol.messages.find_coordinator import FindCoordinatorRequest
from coordinator_protocol.messages.heartbeat import HeartbeatRequest
from coordinator_protocol.messages.metadata import MetadataRequest
from coordinator_protocol.messages.offset_fetch import OffsetFetchRequest
from coordinator_protocol.schema import BOOL, INT32, INT64, STRING, UUID, field


def read(key: int, version: int, body: bytes) -> Any:
    return request_decoder(key, version)(body, 0, len(body))


def heartbeat(group: bytes = b"\x02g", tagged: bytes = b"\0") -> bytes:
    return group + bytes(4) + b"\x02m" + b"\0" + tagged


def test_an_unknown_tagged_field_is_skipped() -> None:
    body = heartbeat(tagged=b"\x02" + b"\x1e\x03abc" + b"\x8f\x01\x00")
    assert read(12, 4, body) == HeartbeatRequest("g", 0, "m")


def test_a_known_tagged_field_is_read_whatever_size_it_claims() -> None:
    request = FetchRequest(replica_state=ReplicaState(3, 4))
    body = request_encoder(1, 15)(request)
    at = body.index(bytes([1, 13]))
    assert read(1, 15, body[: at + 1] + b"\x63" + body[at + 2 :]) == request


@pytest.mark.parametrize(
    ("tagged", "what"),
    [
        (b"\x01\x1e\x04abc", "claims 4 bytes of 3"),
        (b"\xff\xff\xff\xff\x07", "claims 2147483647 elements in 0 bytes"),
        (b"\x01\x1e\xff\xff\xff\xff\x0f", "claims -1 bytes of 0"),
        (b"\x01", "claims 1 elements in 0 bytes"),
        (b"\xff\xff\xff\xff\xff\x01", "a varint of more than 5 bytes"),
    ],
)
def test_nonsense_in_the_tagged_fields_is_malformed(tagged: bytes, what: str) -> None:
    with pytest.raises(Malformed, match=f"HeartbeatRequest v4: .*{what}"):
        read(12, 4, heartbeat(tagged=tagged))


def test_more_tagged_fields_than_bytes_are_refused_before_they_are_read() -> None:
    body = request_encoder(1, 12)(FetchRequest())
    with pytest.raises(Malformed, match="tagged fields claims 2147483647 elements in 0 bytes"):
        read(1, 12, body[:-1] + b"\xff\xff\xff\xff\x07")


def test_a_negative_count_of_tagged_fields_is_none_as_in_java() -> None:
    assert skip_tagged_fields(b"\xff\xff\xff\xff\x0f", 0, 5) == 5


def test_null_is_refused_where_the_schema_has_none() -> None:
    with pytest.raises(Malformed, match=r"HeartbeatRequest\.group_id is null"):
        read(12, 4, heartbeat(group=b"\0"))
    with pytest.raises(Malformed, match=r"HeartbeatRequest\.group_id is null"):
        read(12, 0, b"\xff\xff" + bytes(4) + b"\0\x01m")
    with pytest.raises(Malformed, match=r"DescribeGroupsRequest\.groups is null"):
        read(15, 5, b"\0\0\0")
    with pytest.raises(Malformed, match=r"DescribeGroupsRequest\.groups is null"):
        read(15, 0, b"\xff\xff\xff\xff")


def test_null_is_read_where_the_schema_allows_it() -> None:
    assert read(3, 1, b"\xff\xff\xff\xff") == MetadataRequest(topics=None)
    assert read(3, 9, b"\0\0\0\0\0").topics is None
    assert read(9, 6, b"\x02g\0\0") == OffsetFetchRequest(group_id="g", topics=None)


@pytest.mark.parametrize("length", [b"\xff\xff\xff\xfe", b"\x80\x00\x00\x00"])
def test_any_negative_length_is_null_as_in_kafka(length: bytes) -> None:
    assert read(3, 1, length).topics is None


def test_any_negative_compact_length_is_null_as_in_java() -> None:
    nullable = b"\xfe\xff\xff\xff\x0f"
    assert read(12, 4, b"\x02g" + bytes(4) + b"\x02m" + nullable + b"\0").group_instance_id is None


def test_the_smallest_compact_length_wraps_round_to_the_largest() -> None:
    with pytest.raises(Malformed, match="has 2147483647 bytes"):
        read(12, 4, heartbeat(group=b"\x80\x80\x80\x80\x08"))


def test_the_frame_that_ended_kio_is_malformed() -> None:
    body = b"\0" + b"\xff\xff\xff\xff\x7f"
    with pytest.raises(Malformed, match=r"FindCoordinatorRequest v4"):
        read(10, 4, body)
    with pytest.raises(Malformed, match=r"coordinator_keys claims 2147483646 elements in 0 bytes"):
        read(10, 4, b"\0" + b"\xff\xff\xff\xff\x07")


def test_a_count_must_leave_room_for_the_smallest_elements() -> None:
    assert minimal_size(FindCoordinatorRequest, 0, False) == 2
    with pytest.raises(Malformed, match="claims 3 elements in 5 bytes"):
        read(15, 0, b"\0\0\0\x03" + b"\0\x01a" + b"\0\0")


def test_a_compact_string_has_at_most_32767_bytes() -> None:
    longest = b"\x80\x80\x02" + b"x" * 32_767
    assert len(read(12, 4, heartbeat(group=longest)).group_id) == 32_767
    with pytest.raises(Malformed, match="has 32768 bytes, at most 32767"):
        read(12, 4, heartbeat(group=b"\x81\x80\x02" + b"x" * 32_768))


def test_any_byte_but_zero_is_true() -> None:
    assert read(15, 3, b"\0\0\0\0\x02") == DescribeGroupsRequest([], True)
    assert read(15, 3, b"\0\0\0\0\xff").include_authorized_operations is True
    assert read(15, 3, b"\0\0\0\0\0").include_authorized_operations is False


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("41ff42", "A\ufffdB"),
        ("e282", "\ufffd"),
        ("c080", "\ufffd\ufffd"),
        ("f4908080", "\ufffd" * 4),
        ("eda080", "\ufffd"),
        ("eda041", "\ufffdA"),
        ("41edb0", "A\ufffd"),
        ("edbfbfed9fbf", "\ufffd\ud7ff"),
        ("c3a9f09f9880", "é😀"),
    ],
)
def test_malformed_text_is_repaired_as_java_does(raw: str, text: str) -> None:
    group = bytes.fromhex(raw)
    assert read(12, 4, heartbeat(group=bytes([len(group) + 1]) + group)).group_id == text


def test_text_that_is_not_ours_to_repair_stays_an_error() -> None:
    with pytest.raises(UnicodeEncodeError):
        "\ud800".encode("utf-8", "kafka")


def test_bytes_behind_the_body_are_ignored() -> None:
    assert read(12, 4, heartbeat() + b"trail") == HeartbeatRequest("g", 0, "m")


def test_a_message_must_not_reach_into_the_next_frame() -> None:
    body = heartbeat()
    with pytest.raises(Malformed, match="HeartbeatRequest v4 ends early: 9 bytes"):
        request_decoder(12, 4)(body + body, 0, len(body) - 1)


def test_uvarints_are_javas() -> None:
    assert uvarint(b"\x96\x01", 0) == (150, 2)
    assert uvarint(b"\xff\xff\xff\xff\x0f", 0) == (-1, 5)
    assert uvarint(b"\x00\x80\x80\x80\x80\x78", 1) == (-(1 << 31), 6)


def test_many_elements_and_long_lengths_survive() -> None:
    request = DescribeGroupsRequest([f"group-{number}" for number in range(20_000)])
    body = request_encoder(15, 5)(request)
    assert request_decoder(15, 5)(body, 0, len(body)) == request


@dataclass(slots=True)
class Leader:
    """A nested message with a tagged field of its own."""

    node: int = field(INT32, default=-1)
    rack: str | None = field(STRING, nullable=0, tag=0, default=None)


@dataclass(slots=True)
class Everything:
    """What the APIs so far have not: a nullable struct in a tagged field, arrays of ids."""

    name: str = field(STRING)
    moved: int = field(INT64, tag=2, tagged=1)
    ids: list[bytes] = field([UUID])
    flags: list[bool] | None = field([BOOL], nullable=0)
    leader: Leader | None = field(Leader, nullable=0, tag=0, default=None)
    previous: Leader = field(Leader, since=1, tag=1)


def test_a_nullable_struct_in_a_tagged_field_has_its_marker() -> None:
    encode = compile_encoder(Everything, 1, flexible=True)
    decode = compile_decoder(Everything, 1, flexible=True)
    message = Everything("n", 7, [bytes(range(16))], None, Leader(5, "r"), Leader(6))
    body = encode(message)
    tagged = [
        b"\x00\x0a" + b"\x01" + b"\0\0\0\x05" + b"\x01\x00\x02\x02r",
        b"\x01\x05" + b"\0\0\0\x06" + b"\0",
        b"\x02\x08" + bytes(7) + b"\x07",
    ]
    assert body == b"\x02n" + b"\x02" + bytes(range(16)) + b"\0" + b"\x03" + b"".join(tagged)
    assert decode(body, 0, len(body)) == message


def test_defaults_stand_for_what_is_not_on_the_wire() -> None:
    encode = compile_encoder(Everything, 0, flexible=True)
    decode = compile_decoder(Everything, 0, flexible=True)
    body = encode(Everything("n", 7, flags=[True, False], previous=Leader(9)))
    assert body == b"\x02n" + bytes(7) + b"\x07" + b"\x01" + b"\x03\x01\x00" + b"\0"
    assert decode(body, 0, len(body)) == Everything("n", 7, flags=[True, False])


def test_a_null_in_a_tagged_field_is_read() -> None:
    decode = compile_decoder(Everything, 1, flexible=True)
    body = b"\x02n" + b"\x01" + b"\x01" + b"\x01\x00\x01\xff"
    assert decode(body, 0, len(body)) == Everything("n")


def test_lists_of_two_messages_are_never_the_same() -> None:
    body = response_encoder(16, 0)(response_decoder(16, 0)(bytes(6), 0, 6))
    first, second = (response_decoder(16, 0)(body, 0, 6) for _ in range(2))
    first.groups.append("x")
    assert second.groups == []

"""What encoders write, and what they refuse."""

import pytest

from coordinator_protocol.codec import request_encoder, response_encoder
from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
)
from coordinator_protocol.messages.fetch import FetchRequest, ReplicaState
from coordinator_protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from coordinator_protocol.messages.list_groups import ListGroupsRequest
from coordinator_protocol.varints import uvarint


@pytest.mark.parametrize(
    ("value", "raw"),
    [(0, "00"), (127, "7f"), (128, "8001"), (300, "ac02"), ((1 << 31) - 1, "ffffffff07")],
)
def test_a_varint_has_seven_bits_a_byte(value: int, raw: str) -> None:
    assert uvarint(value).hex() == raw


def test_error_codes_are_written_as_numbers() -> None:
    response = HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    assert response_encoder(12, 0)(response) == b"\0\x1b"


def test_a_request_without_fields_has_no_bytes() -> None:
    assert request_encoder(16, 0)(ListGroupsRequest()) == b""
    assert request_encoder(16, 3)(ListGroupsRequest()) == b"\0"


def test_a_nullable_struct_is_preceded_by_a_marker() -> None:
    without = ConsumerGroupHeartbeatResponse()
    with_one = ConsumerGroupHeartbeatResponse(assignment=Assignment())
    encode = response_encoder(68, 0)
    assert encode(without)[-2:] == b"\xff\0"
    assert encode(with_one)[-4:] == b"\x01\x01\0\0"


def test_a_tagged_field_is_written_only_where_it_differs_from_its_default() -> None:
    encode = request_encoder(1, 15)
    usual = encode(FetchRequest())
    assert usual[-1:] == b"\0"
    follower = encode(FetchRequest(cluster_id="c", replica_state=ReplicaState(1, 2)))
    assert follower[: len(usual) - 1] == usual[:-1]
    state = b"\0\0\0\x01" + bytes(7) + b"\x02" + b"\0"
    assert follower[len(usual) - 1 :] == b"\x02" + b"\x00\x02\x02c" + b"\x01\x0d" + state


def test_what_a_version_does_not_carry_is_left_out() -> None:
    static = HeartbeatRequest("g", 1, "m", group_instance_id="i")
    assert request_encoder(12, 0)(static) == b"\0\x01g\0\0\0\x01\0\x01m"


@pytest.mark.parametrize("version", [0, 4])
@pytest.mark.parametrize(
    "request_",
    [
        HeartbeatRequest("g" * 32_768, 1, "m"),
        HeartbeatRequest("g", 1 << 31, "m"),
        HeartbeatRequest("g", 1, None),  # type: ignore[arg-type]
        HeartbeatRequest("\ud800", 1, "m"),
    ],
    ids=["too-long", "too-large", "null", "not-text"],
)
def test_what_has_no_encoding_is_refused(request_: HeartbeatRequest, version: int) -> None:
    with pytest.raises(ValueError, match=f"HeartbeatRequest v{version} cannot be written"):
        request_encoder(12, version)(request_)


def test_the_longest_string_is_written() -> None:
    body = request_encoder(12, 4)(HeartbeatRequest("g" * 32_767, 1, "m"))
    assert body.startswith(b"\x80\x80\x02gg")

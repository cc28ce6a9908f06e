"""The consumer protocol's blobs against Kafka's own, and against nonsense."""

from base64 import b64decode
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_protocol.errors import Malformed
from coordinator_protocol.subscription import (
    Assignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
    subscribed_topics,
)

Golden = dict[str, list[dict[str, Any]]]


def blob(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)


def partitions_of(rows: list[dict[str, Any]]) -> dict[str, list[int]]:
    return {row["topic"]: row["partitions"] for row in rows}


def subscription_of(fields: dict[str, Any]) -> Subscription:
    return Subscription(
        topics=fields["topics"],
        user_data=blob(fields["userData"]),
        owned_partitions=partitions_of(fields.get("ownedPartitions", [])),
        generation=fields.get("generationId", -1),
        rack_id=fields.get("rackId"),
    )


def assignment_of(fields: dict[str, Any]) -> Assignment:
    return Assignment(partitions_of(fields["assignedPartitions"]), blob(fields["userData"]))


def test_subscriptions_are_read_and_written_as_kafka_does(golden: Golden) -> None:
    assert len(golden["subscriptions"]) == 8
    for row in golden["subscriptions"]:
        raw, subscription = b64decode(row["bytes"]), subscription_of(row["fields"])
        assert decode_subscription(raw) == subscription
        assert encode_subscription(subscription, row["version"]) == raw
        assert subscribed_topics(raw) == subscription.topics


def test_assignments_are_read_and_written_as_kafka_does(golden: Golden) -> None:
    assert len(golden["assignments"]) == 8
    for row in golden["assignments"]:
        raw, assignment = b64decode(row["bytes"]), assignment_of(row["fields"])
        assert decode_assignment(raw) == assignment
        assert encode_assignment(assignment, row["version"]) == raw


FULL = Subscription(["a", "b"], b"data", {"a": [1, 2]}, 7, "rack")


@pytest.mark.parametrize("version", [4, 100, 32767])
def test_later_versions_are_read_as_3_whatever_follows(version: int) -> None:
    raw = version.to_bytes(2, "big") + encode_subscription(FULL)[2:] + b"fields of the future"
    assert decode_subscription(raw) == FULL


@pytest.mark.parametrize("version", [-1, -32768])
def test_a_negative_version_is_malformed(version: int) -> None:
    prefix = version.to_bytes(2, "big", signed=True)
    with pytest.raises(Malformed, match=f"version {version}"):
        decode_subscription(prefix + encode_subscription(FULL)[2:])
    with pytest.raises(Malformed, match=f"version {version}"):
        decode_assignment(prefix + encode_assignment(Assignment({}))[2:])


def test_topics_need_no_more_than_what_version_0_has() -> None:
    raw = encode_subscription(Subscription(["a", "b"], b"data"), version=0)
    claims_to_be_3 = b"\0\3" + raw[2:]
    assert subscribed_topics(claims_to_be_3) == ["a", "b"]
    with pytest.raises(Malformed):
        decode_subscription(claims_to_be_3)


def test_a_subscription_cut_off_is_malformed_wherever_it_is_cut() -> None:
    raw = encode_subscription(FULL)
    for size in range(len(raw)):
        with pytest.raises(Malformed):
            decode_subscription(raw[:size])


def test_no_bytes_assign_nothing() -> None:
    assert decode_assignment(b"") == Assignment({})


def test_a_topic_named_twice_keeps_all_its_partitions() -> None:
    one = b"\0\x01a" + (1).to_bytes(4, "big")
    raw = b"\0\0" + (2).to_bytes(4, "big") + one + bytes(4) + one + b"\0\0\0\x05" + b"\xff" * 4
    assert decode_assignment(raw).partitions == {"a": [0, 5]}


@pytest.mark.parametrize("count", [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\0\0\0"])
def test_impossible_counts_are_malformed(count: bytes) -> None:
    for read in (decode_subscription, decode_assignment, subscribed_topics):
        with pytest.raises(Malformed):
            read(b"\0\x01" + count)


@given(st.binary(max_size=100))
def test_nonsense_is_malformed_and_nothing_else(raw: bytes) -> None:
    for read in (decode_subscription, decode_assignment, subscribed_topics):
        with suppress(Malformed):
            read(raw)

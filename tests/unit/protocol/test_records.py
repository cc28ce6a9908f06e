"""The coordinator's records against the bytes of Kafka's own classes, both ways."""

from base64 import b64decode, urlsafe_b64decode
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_protocol.batch import read_header
from coordinator_protocol.batch_records import read_records
from coordinator_protocol.errors import Malformed
from coordinator_protocol.markers import decode_marker
from coordinator_protocol.offset_value import NO_TOPIC_ID, OffsetCommitValue
from coordinator_protocol.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    RecordKey,
    UnknownKey,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)

Golden = dict[str, list[dict[str, Any]]]

OFFSET = OffsetCommitKey("g", "t", 0)
GROUP = GroupMetadataKey("g")


def key_of(row: dict[str, Any]) -> RecordKey | UnknownKey:
    match row["type"]:
        case 0 | 1:
            return OffsetCommitKey(row["group"], row["topic"], row["partition"])
        case 2:
            return GroupMetadataKey(row["group"])
        case other:
            return UnknownKey(other)


def tags_of(fields: dict[str, Any]) -> tuple[tuple[int, bytes], ...]:
    return tuple((int(n), b64decode(raw)) for n, raw in fields.get("unknown_tags", {}).items())


def offset_of(row: dict[str, Any]) -> OffsetCommitValue:
    fields = row["fields"]
    topic_id = fields.get("topicId")
    return OffsetCommitValue(
        offset=fields["offset"],
        leader_epoch=fields.get("leaderEpoch", -1),
        metadata=fields["metadata"],
        commit_timestamp=fields["commitTimestamp"],
        expire_timestamp=fields.get("expireTimestamp", -1),
        topic_id=urlsafe_b64decode(topic_id + "==") if topic_id else NO_TOPIC_ID,
        tags=tags_of(row),
    )


def group_of(row: dict[str, Any]) -> GroupMetadataValue:
    fields = row["fields"]
    return GroupMetadataValue(
        protocol_type=fields["protocolType"],
        generation=fields["generation"],
        protocol=fields["protocol"],
        leader=fields["leader"],
        current_state_timestamp=fields.get("currentStateTimestamp", -1),
        members=[member_of(member) for member in fields["members"]],
        tags=tags_of(row),
    )


def member_of(fields: dict[str, Any]) -> MemberMetadata:
    return MemberMetadata(
        member_id=fields["memberId"],
        group_instance_id=fields.get("groupInstanceId"),
        client_id=fields["clientId"],
        client_host=fields["clientHost"],
        rebalance_timeout=fields.get("rebalanceTimeout", -1),
        session_timeout=fields["sessionTimeout"],
        subscription=b64decode(fields["subscription"]),
        assignment=b64decode(fields["assignment"]),
        tags=tags_of(fields),
    )


def test_every_key_of_kafka_is_read(golden: Golden) -> None:
    for row in golden["keys"]:
        assert decode_key(b64decode(row["bytes"])) == key_of(row)


def test_keys_are_written_as_kafka_writes_them(golden: Golden) -> None:
    written = [row for row in golden["keys"] if row["type"] in (1, 2)]
    assert len(written) == 8
    for row in written:
        key = key_of(row)
        assert not isinstance(key, UnknownKey)
        assert encode_key(key) == b64decode(row["bytes"])


def test_offsets_of_every_version_are_read(golden: Golden) -> None:
    assert {row["version"] for row in golden["offset_commit_values"]} == {0, 1, 2, 3, 4}
    for row in golden["offset_commit_values"]:
        assert decode_value(OFFSET, b64decode(row["bytes"])) == offset_of(row), row


def test_offsets_are_written_in_version_4_and_in_version_1_if_they_expire(golden: Golden) -> None:
    for row in golden["offset_commit_values"]:
        value = offset_of(row)
        if row["version"] == (4 if value.expire_timestamp == -1 else 1):
            assert encode_value(value) == b64decode(row["bytes"]), row


def test_groups_of_every_version_are_read(golden: Golden) -> None:
    assert {row["version"] for row in golden["group_metadata_values"]} == {0, 1, 2, 3, 4}
    for row in golden["group_metadata_values"]:
        assert decode_value(GROUP, b64decode(row["bytes"])) == group_of(row), row


def test_groups_are_written_in_version_3(golden: Golden) -> None:
    for row in golden["group_metadata_values"]:
        if row["version"] == 3:
            assert encode_value(group_of(row)) == b64decode(row["bytes"]), row


def test_tagged_fields_of_later_versions_are_written_back(golden: Golden) -> None:
    tagged = [golden["offset_commit_values"][-1], golden["group_metadata_values"][-1]]
    keys: tuple[RecordKey, ...] = (OFFSET, GROUP)
    for row, key in zip(tagged, keys, strict=True):
        raw = b64decode(row["bytes"])
        value = decode_value(key, raw)
        assert not isinstance(value, bytes)
        assert value.tags
        assert encode_value(value) == raw


def test_markers_of_kafka_tell_how_their_transaction_ends(golden: Golden) -> None:
    ends = {}
    for row in golden["markers"]:
        batch = b64decode(row["bytes"])
        (record,) = read_records(read_header(batch), batch)
        assert record.control
        assert record.key is not None
        ends[row["name"]] = decode_marker(record.key)
    assert ends == {"ABORT": False, "COMMIT": True}


@pytest.mark.parametrize("key", [b"", b"\0\0", b"\0\0\0\2", b"\0\0\xff\xff"])
def test_a_marker_that_ends_nothing_is_malformed(key: bytes) -> None:
    with pytest.raises(Malformed, match="control record"):
        decode_marker(key)


@pytest.mark.parametrize("kind", [3, 17, 32766, -1])
def test_record_types_not_known_here_are_no_error(kind: int) -> None:
    assert decode_key(kind.to_bytes(2, "big", signed=True) + b"anything") == UnknownKey(kind)


@pytest.mark.parametrize("version", [-1, 5])
@pytest.mark.parametrize("key", [OFFSET, GROUP])
def test_a_value_of_a_version_not_known_here_is_malformed(key: RecordKey, version: int) -> None:
    with pytest.raises(Malformed, match=f"version {version}, expected 0 to 4"):
        decode_value(key, version.to_bytes(2, "big", signed=True) + bytes(100))


def test_what_is_cut_off_is_malformed_wherever_it_is_cut(golden: Golden) -> None:
    rows: list[tuple[RecordKey, dict[str, Any]]]
    rows = [(OFFSET, row) for row in golden["offset_commit_values"][::5]]
    rows += [(GROUP, row) for row in golden["group_metadata_values"][1::3]]
    for key, row in rows:
        raw = b64decode(row["bytes"])
        for size in range(len(raw)):
            with pytest.raises(Malformed):
                decode_value(key, raw[:size])


def test_an_array_longer_than_its_bytes_is_malformed_before_it_is_made() -> None:
    empty = GroupMetadataValue("", 0, None, None, -1, [])
    raw = encode_value(empty)
    with pytest.raises(Malformed, match="2147483647 elements"):
        decode_value(GROUP, raw[:-4] + b"\x7f\xff\xff\xff")


@given(st.binary(max_size=200))
def test_nonsense_is_malformed_and_nothing_else(raw: bytes) -> None:
    for key in (OFFSET, GROUP):
        with suppress(Malformed):
            decode_value(key, raw)
    with suppress(Malformed):
        decode_key(raw)


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=50)
TAGS = st.dictionaries(st.integers(1, 2**31 - 1), st.binary(max_size=20), max_size=3).map(
    lambda tags: tuple(sorted(tags.items()))
)
OFFSETS = st.builds(
    OffsetCommitValue,
    offset=st.integers(-(2**63), 2**63 - 1),
    leader_epoch=st.integers(-(2**31), 2**31 - 1),
    metadata=TEXT,
    commit_timestamp=st.integers(-(2**63), 2**63 - 1),
    topic_id=st.binary(min_size=16, max_size=16),
    tags=TAGS,
)


@given(OFFSETS)
def test_every_offset_comes_back_as_it_was_written(value: OffsetCommitValue) -> None:
    assert decode_value(OFFSET, encode_value(value)) == value


MEMBERS = st.builds(
    MemberMetadata,
    TEXT,
    st.none() | TEXT,
    TEXT,
    TEXT,
    st.integers(-(2**31), 2**31 - 1),
    st.integers(-(2**31), 2**31 - 1),
    st.binary(max_size=300),
    st.binary(max_size=300),
    TAGS,
)


@given(
    st.builds(
        GroupMetadataValue,
        TEXT,
        st.integers(-(2**31), 2**31 - 1),
        st.none() | TEXT,
        st.none() | TEXT,
        st.integers(-(2**63), 2**63 - 1),
        st.lists(MEMBERS, max_size=4),
        TAGS,
    )
)
def test_every_group_comes_back_as_it_was_written(value: GroupMetadataValue) -> None:
    assert decode_value(GROUP, encode_value(value)) == value


@given(st.text(max_size=50), st.text(max_size=50))
def test_any_text_can_be_a_group_and_a_topic(group: str, topic: str) -> None:
    key = decode_key(encode_key(OffsetCommitKey(group, topic, 1)))
    assert isinstance(key, OffsetCommitKey)
    if group.isascii():
        assert key.group == group


def test_text_too_long_for_its_length_field_is_refused_with_its_size() -> None:
    with pytest.raises(ValueError, match="32768"):
        encode_key(GroupMetadataKey("x" * 32768))

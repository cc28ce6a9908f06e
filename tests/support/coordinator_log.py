"""Logs as hypothesis draws them, in the bytes a broker or coordinator-server might have written."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from struct import pack

import cramjam
from crc32c import crc32c
from hypothesis import strategies as st

from coordinator_protocol.batch import HEADER_BYTES, LogRecord, build_batch, stamped
from coordinator_protocol.history import (
    HistoryCounts,
    HistoryMember,
    HistoryRound,
    HistoryWait,
    RebalanceHistoryKey,
    RebalanceHistoryValue,
    encode_history_key,
)
from coordinator_protocol.history_writer import encode_history
from coordinator_protocol.offset_value import OffsetCommitValue
from coordinator_protocol.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    encode_key,
    encode_value,
)
from coordinator_protocol.subscription import (
    Assignment,
    Subscription,
    encode_assignment,
    encode_subscription,
)

CODECS = {1: cramjam.gzip.compress, 3: cramjam.lz4.compress, 4: cramjam.zstd.compress}


def compressed(batch: bytes, codec: int) -> bytes:
    """The same batch with its records compressed: 1 gzip, 3 lz4, 4 zstd."""
    body = bytes(CODECS[codec](batch[HEADER_BYTES:]))
    attributes = int.from_bytes(batch[21:23], "big") | codec
    checked = pack(">h", attributes) + batch[23:HEADER_BYTES] + body
    head = batch[:8] + pack(">i", HEADER_BYTES - 12 + len(body)) + batch[12:17]
    return head + pack(">I", crc32c(checked)) + checked


texts = st.text(max_size=12) | st.sampled_from(["orders", "payments", "g1", "x" * 200])
ids = st.text(min_size=1, max_size=8) | st.sampled_from(["consumer-1-abcdef", "grüße", "m" * 300])
times = st.sampled_from([-1, 0, 1_760_000_000_000, 1_760_000_000_123, 1 << 62, -(1 << 60)])
int32s = st.integers(-(1 << 31), (1 << 31) - 1)
int64s = st.integers(-(1 << 63), (1 << 63) - 1)


def _short(raw: bytes) -> bytes:
    return pack(">h", len(raw)) + raw


@st.composite
def old_offset_values(draw: st.DrawFn) -> bytes:
    """Versions 0 to 3 of a committed offset."""
    version = draw(st.integers(0, 3))
    raw = pack(">hq", version, draw(int64s))
    if version == 3:
        raw += pack(">i", draw(int32s))
    raw += _short(draw(texts).encode()) + pack(">q", draw(times))
    return raw + (pack(">q", draw(times)) if version == 1 else b"")


@st.composite
def offset_values(draw: st.DrawFn) -> bytes:
    """Values as 4.1.1 writes them, with topic ids and unknown tagged fields at times."""
    value = OffsetCommitValue(draw(int64s), draw(int32s), draw(texts), draw(times))
    if draw(st.integers(0, 3)) == 0:
        value.topic_id = draw(st.binary(min_size=16, max_size=16))
    if draw(st.integers(0, 5)) == 0:
        value.tags = ((draw(st.integers(1, 300)), draw(st.binary(max_size=5))),)
    if draw(st.integers(0, 5)) == 0:
        value.expire_timestamp = draw(times)
    return encode_value(value)


subscriptions = st.builds(
    Subscription,
    st.lists(texts, max_size=3),
    st.none() | st.binary(max_size=4),
)
assignments = st.builds(
    Assignment,
    st.dictionaries(texts, st.lists(st.integers(0, 50), max_size=4), max_size=3),
    st.none() | st.binary(max_size=4),
)


@st.composite
def members(draw: st.DrawFn) -> MemberMetadata:
    """Members of the consumer protocol, and of others."""
    version = draw(st.integers(0, 3))
    subscription = encode_subscription(draw(subscriptions), version)
    assignment = encode_assignment(draw(assignments), version)
    return MemberMetadata(
        draw(ids),
        draw(st.none() | ids),
        draw(texts),
        draw(texts),
        draw(int32s),
        draw(int32s),
        draw(st.just(subscription) | st.binary(max_size=9)),
        draw(st.just(assignment) | st.just(b"") | st.binary(max_size=9)),
        draw(st.just(()) | st.just(((7, b"new"),))) if draw(st.integers(0, 9)) == 0 else (),
    )


groups = st.builds(
    GroupMetadataValue,
    texts,
    int32s,
    st.none() | ids,
    st.none() | ids,
    times,
    st.lists(members(), max_size=4),
)


@st.composite
def old_group_values(draw: st.DrawFn) -> bytes:
    """Versions 0 to 2 of a group."""
    version = draw(st.integers(0, 2))
    value = draw(groups)

    def text(given: str | None) -> bytes:
        return b"\xff\xff" if given is None else _short(given.encode())

    raw = pack(">h", version) + text(value.protocol_type) + pack(">i", value.generation)
    raw += text(value.protocol) + text(value.leader)
    raw += pack(">q", value.current_state_timestamp) if version >= 2 else b""
    raw += pack(">i", len(value.members))
    for member in value.members:
        raw += text(member.member_id) + text(member.client_id) + text(member.client_host)
        raw += pack(">i", member.rebalance_timeout) if version >= 1 else b""
        raw += pack(">i", member.session_timeout)
        for blob in (member.subscription, member.assignment):
            raw += pack(">i", len(blob)) + blob
    return raw


offset_keys = st.builds(OffsetCommitKey, ids, texts, int32s).map(encode_key)
group_keys = st.builds(GroupMetadataKey, ids).map(encode_key)
other_keys = st.builds(
    lambda kind, rest: pack(">h", kind) + rest,
    st.sampled_from([-1, 3, 8, 15, 999]),
    st.binary(max_size=9),
)
damage = st.binary(max_size=30)
history_members = st.builds(HistoryMember, ids, st.none() | ids, texts, texts)
histories = st.builds(
    RebalanceHistoryValue,
    *(st.integers(0, 1 << 30) for _ in range(3)),
    *(st.integers(0, 1 << 50) for _ in range(4)),
    *(texts for _ in range(3)),
    history_members,
    st.none() | texts,
    st.builds(HistoryCounts, *(st.integers(0, 99) for _ in range(7))),
    *(st.lists(history_members, max_size=2) for _ in range(3)),
    st.lists(st.builds(HistoryWait, history_members, st.integers(0, 1 << 40)), max_size=2),
    st.lists(st.builds(HistoryRound, texts, history_members, st.none() | texts), max_size=2),
).map(encode_history)
history_keys = st.builds(
    RebalanceHistoryKey, ids, st.integers(0, 1 << 30), st.integers(0, 1 << 60)
).map(encode_history_key)

bodies = st.one_of(
    st.tuples(offset_keys, offset_values() | old_offset_values() | st.none()),
    st.tuples(
        offset_keys.map(lambda key: b"\0\0" + key[2:]), offset_values() | old_offset_values()
    ),
    st.tuples(group_keys, groups.map(encode_value) | old_group_values() | st.none()),
    st.tuples(history_keys, st.none() | histories),
    st.tuples(history_keys | history_keys.map(lambda key: key[:-5]), histories | damage),
    st.tuples(other_keys, st.none() | st.binary(max_size=40)),
    st.tuples(st.none() | damage, st.none() | damage),
    st.tuples(offset_keys | group_keys, damage),
    st.tuples(
        offset_keys.flatmap(lambda key: st.integers(0, len(key)).map(lambda size: key[:size])),
        offset_values(),
    ),
    st.tuples(
        group_keys,
        groups.map(encode_value).flatmap(
            lambda raw: st.integers(0, len(raw)).map(lambda size: raw[:size])
        ),
    ),
)
headers = st.just(()) | st.lists(
    st.tuples(st.sampled_from(["rb.reason", "rb.member", "k", ""]), st.binary(max_size=9)),
    max_size=4,
).map(tuple)
stamps = st.integers(1_760_000_000_000, 1_760_000_300_000)


@st.composite
def batches(draw: st.DrawFn) -> bytes:
    """A batch: of a producer and compressed at times, or a marker."""
    producer = draw(st.sampled_from([-1, -1, -1, 7, 1 << 40]))
    transactional = producer >= 0 and draw(st.booleans())
    if transactional and draw(st.integers(0, 2)) == 0:
        key = draw(st.sampled_from([b"\0\0\0\0", b"\0\0\0\1", b"\0\0\0\7", b"\0"]))
        marker = LogRecord(key, b"\0\0\0\0\0\0", draw(stamps), (), -1, producer, 3, True, True)
        return build_batch([marker])
    found = draw(st.lists(st.tuples(bodies, headers, stamps), min_size=1, max_size=6))
    repeat = 1 if draw(st.integers(0, 4)) else 40
    records = [
        LogRecord(key, value, stamp, tuple(given), -1, producer, 3, transactional)
        for (key, value), given, stamp in found * repeat
    ]
    batch = build_batch(records, 0, draw(st.integers(0, 3)))
    return draw(st.just(batch) | st.sampled_from([1, 3, 4]).map(lambda c: compressed(batch, c)))


@st.composite
def logs(draw: st.DrawFn, max_batches: int = 40) -> bytes:
    """Batches one after the other, with holes in their offsets."""
    raw, offset = b"", draw(st.sampled_from([0, 1_000, 1 << 33]))
    for batch in draw(st.lists(batches(), min_size=1, max_size=max_batches)):
        raw += stamped(batch, offset)
        offset += int.from_bytes(batch[23:27], "big") + 1 + draw(st.sampled_from([0, 0, 0, 7]))
    return raw


def commits(group: str, count: int, first: int = 0) -> list[LogRecord]:
    """Plain commits of one group, which can be told from each other by their offset."""
    return [
        LogRecord(
            encode_key(OffsetCommitKey(group, "orders", number % 4)),
            encode_value(OffsetCommitValue(number, -1, "", 1_760_000_000_000 + number)),
            1_760_000_000_000 + number,
        )
        for number in range(first, first + count)
    ]


def with_producer(records: Sequence[LogRecord], producer_id: int) -> list[LogRecord]:
    """The same records in a transaction of a producer."""
    return [
        replace(record, producer_id=producer_id, producer_epoch=0, transactional=True)
        for record in records
    ]


def marker(producer_id: int, *, commit: bool) -> LogRecord:
    """The end of a producer's transaction."""
    key = b"\0\0\0\1" if commit else b"\0\0\0\0"
    at = 1_760_000_000_000
    return LogRecord(key, b"\0\0\0\0\0\0", at, (), -1, producer_id, 0, True, True)


def segment(directory: Path, base_offset: int = 0) -> Path:
    """The path of a segment."""
    return directory / f"{base_offset:020d}.log"

"""The history of rebalances in the coordinator's log: record type 32766, unknown to Kafka.

Each finished rebalance is a record of its own, with a key no other has, so that compaction keeps
it. Kafka's coordinator and tools skip record types they do not know.

Key: int16 32766, string group, int32 generation, int64 sequence; strings as in Kafka's
non-flexible messages (int16 length). `generation` is the one after the rebalance, `sequence`
grows by one with every rebalance of the group.

Value, version 0, with compact strings and arrays as in Kafka's flexible messages:

    int16    version
    int64    sequence, as in the key
    int32    generation after
    int64    ended, wall-clock milliseconds
    int64    started, wall-clock milliseconds
    int32    generation before
    int64    join phase, milliseconds
    int64    sync phase, milliseconds
    int32    members before, members after, joined, left, evicted, waited for, rounds: seven counts
    string   reason, outcome, state before: three strings
    array    members: string id, nullable string instance id, string client id, string host
    uvarint  culprit, as an index into members
    string   the client's own reason, nullable
    array    joined: uvarint index; likewise left and evicted: three arrays
    array    waited for: uvarint index, int64 milliseconds
    array    rounds: string reason, uvarint index of the culprit, nullable string client's reason
    tagged fields

The counts are exact, the arrays may have been cut. No value is larger than `MAX_HISTORY_BYTES`.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from protocol.errors import Malformed
from protocol.reader import Reader
from protocol.varints import ONE_BYTE, uvarint
from protocol.writing import Words, text_bytes

REBALANCE_HISTORY_TYPE: Final = 32766
HISTORY_VERSION: Final = 0

MAX_HISTORY_BYTES: Final = 8_192
"""The largest value that is written."""
MAX_HISTORY_TEXT: Final = 255
"""Bytes of UTF-8 that are kept of any text in a value."""

PackedHistory = bytes
"""A value as it is in the log."""


@dataclass(slots=True, init=False)
class RebalanceHistoryKey:
    """Key of a finished rebalance (type 32766)."""

    group: str
    generation: int
    sequence: int

    def __init__(self, group: str, generation: int, sequence: int) -> None:
        self.group = group
        self.generation = generation
        self.sequence = sequence


class HistoryMember(NamedTuple):
    """A member, as it was known then."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str


class HistoryRound(NamedTuple):
    """What began the rebalance, or set it back while it was under way."""

    reason: str
    culprit: HistoryMember
    client_reason: str | None


class HistoryWait(NamedTuple):
    """A member that was waited for, and for how long."""

    member: HistoryMember
    waited_ms: int


Counted = tuple[int, int, int, int, int, int, int]
"""The fields of HistoryCounts."""


class HistoryCounts(NamedTuple):
    """Exact numbers, also where the lists are cut."""

    members_before: int
    members_after: int
    joined: int
    left: int
    evicted: int
    waited_for: int
    rounds: int


@dataclass(slots=True, init=False)
class RebalanceHistoryValue:
    """A finished rebalance; `started_ms` and `ended_ms` are wall-clock times."""

    sequence: int
    generation_before: int
    generation_after: int
    started_ms: int
    ended_ms: int
    join_phase_ms: int
    sync_phase_ms: int
    reason: str
    outcome: str
    state_before: str
    culprit: HistoryMember
    client_reason: str | None
    counts: Counted
    joined: Sequence[HistoryMember]
    left: Sequence[HistoryMember]
    evicted: Sequence[HistoryMember]
    waited_for: Sequence[HistoryWait]
    rounds: Sequence[HistoryRound]

    def __init__(
        self,
        sequence: int,
        generation_before: int,
        generation_after: int,
        started_ms: int,
        ended_ms: int,
        join_phase_ms: int,
        sync_phase_ms: int,
        reason: str,
        outcome: str,
        state_before: str,
        culprit: HistoryMember,
        client_reason: str | None,
        counts: Counted,
        joined: Sequence[HistoryMember],
        left: Sequence[HistoryMember],
        evicted: Sequence[HistoryMember],
        waited_for: Sequence[HistoryWait],
        rounds: Sequence[HistoryRound],
    ) -> None:
        self.sequence = sequence
        self.generation_before = generation_before
        self.generation_after = generation_after
        self.started_ms = started_ms
        self.ended_ms = ended_ms
        self.join_phase_ms = join_phase_ms
        self.sync_phase_ms = sync_phase_ms
        self.reason = reason
        self.outcome = outcome
        self.state_before = state_before
        self.culprit = culprit
        self.client_reason = client_reason
        self.counts = counts
        self.joined = joined
        self.left = left
        self.evicted = evicted
        self.waited_for = waited_for
        self.rounds = rounds


class HistoryHead(NamedTuple):
    """What is at fixed places of a value: enough to name its key and to see how old it is."""

    version: int
    sequence: int
    generation: int
    ended_ms: int


_HEAD: Final = struct.Struct(">hqiq")
_BODY: Final = struct.Struct(">qiqq7i")
_FIXED: Final = struct.Struct(">hqiqqiqq7i")
"""Both."""


def history_head(raw: PackedHistory) -> HistoryHead:
    """The fixed beginning of a value. Raises Malformed."""
    if len(raw) < _HEAD.size:
        raise Malformed(f"rebalance history value: {len(raw)} bytes, expected {_HEAD.size}")
    return HistoryHead._make(_HEAD.unpack_from(raw))


def history_sequence(raw: PackedHistory) -> int:
    """The sequence in a value that is known to be whole."""
    return int.from_bytes(raw[2:10], "big", signed=True)


def is_known_history(raw: PackedHistory) -> bool:
    """Whether a value is of the version that is read here."""
    return len(raw) >= _HEAD.size and history_head(raw).version == HISTORY_VERSION


# --- writing ---


def encode_history_key(key: RebalanceHistoryKey) -> bytes:
    """The bytes of a key. Raises ValueError for a group id of more than 32767 bytes."""
    generation = key.generation.to_bytes(4, "big", signed=True)
    sequence = key.sequence.to_bytes(8, "big", signed=True)
    return _KEY_TYPE + text_bytes(key.group) + generation + sequence


_KEY_TYPE: Final = REBALANCE_HISTORY_TYPE.to_bytes(2, "big")


def encode_history(value: RebalanceHistoryValue) -> PackedHistory:
    """The bytes of a value; lists are halved until they fit `MAX_HISTORY_BYTES`."""
    raw = _encode(value)
    if len(raw) <= MAX_HISTORY_BYTES:
        return raw
    limit = max(map(len, _lists(value)))
    while len(raw) > MAX_HISTORY_BYTES:
        limit //= 2
        value = replace(
            value,
            joined=value.joined[:limit],
            left=value.left[:limit],
            evicted=value.evicted[:limit],
            waited_for=value.waited_for[:limit],
            rounds=value.rounds[:limit],
        )
        raw = _encode(value)
    return raw


def _lists(value: RebalanceHistoryValue) -> tuple[Sequence[object], ...]:
    return value.joined, value.left, value.evicted, value.waited_for, value.rounds


def _encode(value: RebalanceHistoryValue) -> bytes:
    culprit = value.culprit
    members = _Members(culprit)
    told = [uvarint(len(value.waited_for) + 1)]
    for member, waited_ms in value.waited_for:
        told += (members.index(member), waited_ms.to_bytes(8, "big", signed=True))
    told.append(uvarint(len(value.rounds) + 1))
    for reason, member, client_reason in value.rounds:
        told.append(_WORDS[reason])
        told.append(members.index(member))
        told.append(_nullable(client_reason))
    told.append(b"\0")
    joined = members.indexes(value.joined)
    left = members.indexes(value.left)
    evicted = members.indexes(value.evicted)
    members_before, members_after, come, gone, removed, awaited, rounds = value.counts
    parts = [
        _FIXED.pack(
            HISTORY_VERSION,
            value.sequence,
            value.generation_after,
            value.ended_ms,
            value.started_ms,
            value.generation_before,
            value.join_phase_ms,
            value.sync_phase_ms,
            members_before,
            members_after,
            come,
            gone,
            removed,
            awaited,
            rounds,
        ),
        _WORDS[value.reason],
        _WORDS[value.outcome],
        _WORDS[value.state_before],
        members.told(),
        _CULPRIT,
        _nullable(value.client_reason),
        joined,
        left,
        evicted,
    ]
    parts.extend(told)
    return b"".join(parts)


class _Members:
    """Those that are mentioned, in the order of their first mention; the culprit is the first."""

    __slots__ = ("_culprit", "_numbers")

    def __init__(self, culprit: HistoryMember) -> None:
        self._culprit = culprit
        self._numbers: dict[HistoryMember, int] = {}
        """Empty until somebody else is mentioned: most often nobody is."""

    def index(self, member: HistoryMember) -> bytes:
        """The index of a member."""
        if member is self._culprit:
            return _CULPRIT
        if not self._numbers:
            self._numbers[self._culprit] = 0
        return uvarint(self._numbers.setdefault(member, len(self._numbers)))

    def indexes(self, members: Sequence[HistoryMember]) -> bytes:
        """An array of such."""
        if not members:
            return _NO_MEMBERS
        if len(members) == 1 and members[0] is self._culprit:
            return _CULPRIT_ALONE
        return uvarint(len(members) + 1) + b"".join([self.index(member) for member in members])

    def told(self) -> bytes:
        """The array of all."""
        if not self._numbers:
            return _ONE_MEMBER + _member(self._culprit)
        return uvarint(len(self._numbers) + 1) + b"".join(map(_member, self._numbers))


def _member(member: HistoryMember) -> bytes:
    member_id, instance_id, client_id, host = member
    return _text(member_id) + _nullable(instance_id) + _text(client_id) + _text(host)


_ONE_MEMBER: Final = uvarint(2)
_NO_MEMBERS: Final = uvarint(1)
_CULPRIT: Final = uvarint(0)
"""The culprit is mentioned first."""
_CULPRIT_ALONE: Final = uvarint(2) + _CULPRIT


def cut_text(text: str, limit: int = MAX_HISTORY_TEXT) -> bytes:
    """The UTF-8 of a text, cut to `limit` bytes between two characters."""
    raw = text.encode("utf-8", "replace")
    if len(raw) <= limit:
        return raw
    return raw[:limit].decode("utf-8", "ignore").encode()


def _text(text: str) -> bytes:
    raw = text.encode("utf-8", "replace")
    if len(raw) < 0x7F:
        return ONE_BYTE[len(raw) + 1] + raw
    raw = cut_text(text)
    return uvarint(len(raw) + 1) + raw


_WORDS: Final = Words(_text)
"""The names of reasons, outcomes and states."""


def _nullable(text: str | None) -> bytes:
    return b"\0" if text is None else _text(text)


# --- reading ---


def decode_history_key(raw: bytes) -> RebalanceHistoryKey:
    """The key of a finished rebalance, type and all. Raises Malformed."""
    reader = Reader(raw, "rebalance history key")
    kind = reader.int16()
    if kind != REBALANCE_HISTORY_TYPE:
        raise Malformed(f"rebalance history key: type {kind}, expected {REBALANCE_HISTORY_TYPE}")
    return RebalanceHistoryKey(reader.text(), reader.int32(), reader.int64())


def decode_history(raw: PackedHistory) -> RebalanceHistoryValue:
    """A value of version 0. Raises Malformed."""
    head = history_head(raw)
    if head.version != HISTORY_VERSION:
        raise Malformed(f"rebalance history value: version {head.version}, expected 0")
    reader = Reader(raw, "rebalance history value")
    reader.take(_HEAD.size)
    started, generation, join_ms, sync_ms, *counts = _BODY.unpack(reader.take(_BODY.size))
    reason, outcome, state_before = (reader.text(compact=True) for _ in range(3))
    members = [_decode_member(reader) for _ in range(reader.count(compact=True))]
    return RebalanceHistoryValue(
        sequence=head.sequence,
        generation_before=generation,
        generation_after=head.generation,
        started_ms=started,
        ended_ms=head.ended_ms,
        join_phase_ms=join_ms,
        sync_phase_ms=sync_ms,
        reason=reason,
        outcome=outcome,
        state_before=state_before,
        culprit=_pick(reader, members),
        client_reason=reader.nullable_text(compact=True),
        counts=HistoryCounts(*counts),
        joined=_picked(reader, members),
        left=_picked(reader, members),
        evicted=_picked(reader, members),
        waited_for=[
            HistoryWait(_pick(reader, members), reader.int64())
            for _ in range(reader.count(compact=True))
        ],
        rounds=[
            HistoryRound(
                reader.text(compact=True),
                _pick(reader, members),
                reader.nullable_text(compact=True),
            )
            for _ in range(reader.count(compact=True))
        ],
    )


def _decode_member(reader: Reader) -> HistoryMember:
    return HistoryMember(
        reader.text(compact=True),
        reader.nullable_text(compact=True),
        reader.text(compact=True),
        reader.text(compact=True),
    )


def _pick(reader: Reader, members: Sequence[HistoryMember]) -> HistoryMember:
    index = reader.uvarint()
    if index >= len(members):
        raise Malformed(f"rebalance history value: member {index} of {len(members)}")
    return members[index]


def _picked(reader: Reader, members: Sequence[HistoryMember]) -> list[HistoryMember]:
    return [_pick(reader, members) for _ in range(reader.count(compact=True))]

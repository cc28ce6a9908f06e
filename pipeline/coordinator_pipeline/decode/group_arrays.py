"""Decodes the values of classic groups with numpy: one step reads the m-th member of every group.

It decodes versions 0 to 3, which Kafka and coordinator-server write; `row_decoder` decodes the
others. Texts are not copied: arrays hold their positions and sizes.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from coordinator_pipeline.decode.byte_arrays import ByteBuffer, Flags, Ints

NEWEST_VERSION: Final = 3


class TextSpans(NamedTuple):
    """Positions and sizes of texts or bytes; a size of -1 is null."""

    at: Ints
    size: Ints


@dataclass(slots=True)
class _Cursor:
    """Reads the next field at many positions; `sound` marks the values decoded so far."""

    data: ByteBuffer
    at: Ints
    end: Ints
    sound: Flags

    def int32(self) -> Ints:
        found = self.data.int32(self.at)
        self._to(self.at + 4)
        return found

    def int64(self) -> Ints:
        found = self.data.int64(self.at)
        self._to(self.at + 8)
        return found

    def text(self, *, nullable: bool = False) -> TextSpans:
        return self._sized(self.data.int16(self.at), 2, least=-1 if nullable else 0)

    def blob(self) -> TextSpans:
        return self._sized(self.data.int32(self.at), 4, least=0)

    def _sized(self, size: Ints, width: int, *, least: int) -> TextSpans:
        self.sound &= size >= least
        begin = self.at + width
        self._to(begin + np.maximum(size, 0))
        return TextSpans(begin, size)

    def _to(self, at: Ints) -> None:
        self.sound &= at <= self.end
        self.at = np.where(self.sound, at, 0)


class MemberArrays(NamedTuple):
    """Members of all groups, in order; an array or TextSpans has one element for each member."""

    member_id: TextSpans
    instance_id: TextSpans
    client_id: TextSpans
    host: TextSpans
    rebalance_timeout: Ints
    """-1 if the version of the value has none."""
    session_timeout: Ints
    subscription: TextSpans
    assignment: TextSpans


class GroupArrays(NamedTuple):
    """Values of groups; an array has one element for each group."""

    version: Ints
    protocol_type: TextSpans
    generation: Ints
    protocol: TextSpans
    leader: TextSpans
    state_timestamp: Ints
    """-1 if the version of the value has none."""
    member_count: Ints
    members: MemberArrays
    sound: Flags
    """Whether the whole value was decoded; `members` has those of sound groups alone."""


def read_group_values(data: ByteBuffer, at: Ints, size: Ints) -> GroupArrays:
    """Decode values at positions `at`, each of `size` bytes."""
    version = data.int16(at)
    cursor = _Cursor(
        data, at + 2, at + size, (size >= 2) & (version >= 0) & (version <= NEWEST_VERSION)
    )
    protocol_type, generation = cursor.text(), cursor.int32()
    protocol, leader = cursor.text(nullable=True), cursor.text(nullable=True)
    state = _where(cursor, version >= 2, 8)
    count = cursor.int32()
    cursor.sound &= (count >= 0) & (count <= cursor.end - cursor.at)
    members = _members(cursor, version, count)
    count = np.where(cursor.sound, count, 0)
    return GroupArrays(
        version, protocol_type, generation, protocol, leader, state, count, members, cursor.sound
    )


def _where(cursor: _Cursor, there: Flags, width: int) -> Ints:
    """Read a number of `width` bytes where the version has it; -1 elsewhere."""
    before = cursor.at
    found = cursor.int64() if width == 8 else cursor.int32()
    cursor.at = np.where(there, cursor.at, before)
    return np.where(there, found, -1)


def _members(groups: _Cursor, version: Ints, count: Ints) -> MemberArrays:
    steps = []
    rows = np.flatnonzero(groups.sound & (count > 0))
    number = 0
    while rows.size:
        cursor = _Cursor(groups.data, groups.at[rows], groups.end[rows], groups.sound[rows])
        steps.append((rows, _member(cursor, version[rows])))
        groups.at[rows] = cursor.at
        groups.sound[rows] = cursor.sound
        number += 1
        rows = rows[cursor.sound & (count[rows] > number)]
    return _in_order(steps, groups.sound)


def _member(cursor: _Cursor, version: Ints) -> MemberArrays:
    member_id = cursor.text()
    instance_id = _instance_id(cursor, version >= 3)
    client_id, host = cursor.text(), cursor.text()
    rebalance_timeout = _where(cursor, version >= 1, 4)
    return MemberArrays(
        member_id,
        instance_id,
        client_id,
        host,
        rebalance_timeout,
        cursor.int32(),
        cursor.blob(),
        cursor.blob(),
    )


def _instance_id(cursor: _Cursor, there: Flags) -> TextSpans:
    if there.all():
        return cursor.text(nullable=True)
    before, sound = cursor.at, cursor.sound.copy()
    found = cursor.text(nullable=True)
    cursor.sound = np.where(there, cursor.sound, sound)
    cursor.at = np.where(there, cursor.at, before)
    return TextSpans(found.at, np.where(there, found.size, -1))


def _in_order(steps: list[tuple[Ints, MemberArrays]], sound: Flags) -> MemberArrays:
    """Return the members of sound groups, ordered by group."""
    rows = np.concatenate([np.zeros(0, np.int64), *(rows for rows, _ in steps)])
    order = np.argsort(rows, kind="stable")
    order = order[sound[rows[order]]]
    found = [members for _, members in steps]

    def texts(parts: list[TextSpans]) -> TextSpans:
        at, size = [part.at for part in parts], [part.size for part in parts]
        return TextSpans(_joined(at, order), _joined(size, order))

    return MemberArrays(
        texts([part.member_id for part in found]),
        texts([part.instance_id for part in found]),
        texts([part.client_id for part in found]),
        texts([part.host for part in found]),
        _joined([part.rebalance_timeout for part in found], order),
        _joined([part.session_timeout for part in found], order),
        texts([part.subscription for part in found]),
        texts([part.assignment for part in found]),
    )


def _joined(parts: list[Ints], order: Ints) -> Ints:
    return np.concatenate([np.zeros(0, np.int64), *parts])[order]
